import { v7 as uuidv7 } from 'uuid'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { admitted, callHandler, type TestRun, testRun } from '../../../test/handler-call.ts'
import { scopedDb } from '../../storage/scoped-db.ts'
import type { ToolDeclaration } from '../../tools/declarations.ts'
import { NotFoundError } from '../../tools/errors.ts'
import type { JsonObject } from '../../tools/json.ts'
import { scopedMemories } from './scoped-memories.ts'
import { memoryTools } from './tools.ts'

let db: TestDatabase
let tools: ToolDeclaration[]
beforeAll(async () => {
  db = await testDatabase()
  tools = memoryTools({ memories: scopedMemories((organizationId) => scopedDb(db.database, organizationId)) })
})
afterAll(() => db.close())

const LIKES = { kind: 'preference', subject: 'Jo Weber', text: 'Prefers short mails.' }

function toolOf(name: string): ToolDeclaration {
  const tool = tools.find(({ spec }) => spec.name === `memory.${name}`)
  if (tool === undefined) throw new Error(`there is no ${name}`)
  return tool
}

const call = (name: string, run: TestRun, args: JsonObject) => callHandler(toolOf(name), { run, args })

async function remember(run: TestRun, part: JsonObject = {}) {
  return (await call('remember', run, { ...LIKES, ...part })).data as { id: string; created: boolean }
}

async function texts(run: TestRun, args: JsonObject = {}): Promise<string[]> {
  return ((await call('search', run, args)).data as { text: string }[]).map(({ text }) => text)
}

const rows = (organizationId: string) =>
  db.database.kysely
    .selectFrom('public.memories')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('id')
    .execute()

describe('what is remembered', () => {
  test('is found with these columns only, in whichever run, and is untrusted', async () => {
    const run = testRun()
    const { id, created } = await remember(run)
    expect(created).toBe(true)
    const answer = await call('search', testRun({ organizationId: run.organizationId }), { query: 'SHORT jo' })
    expect(answer).toMatchObject({ meta: { untrusted: true } })
    expect(answer.data).toEqual([
      { ...LIKES, id, subject: 'jo weber', rememberedAt: expect.stringMatching(/^\d{4}-/) as string, trusted: false },
    ])
    expect(await rows(run.organizationId)).toMatchObject([
      {
        written_by_run: run.runId,
        written_by_root_run: run.rootRunId,
        written_by_tool: 'memory.remember',
        created_by_root_run: run.rootRunId,
      },
    ])
  })

  test('is one row for one content, whatever its white space and the spelling of the subject', async () => {
    const run = testRun()
    const { id } = await remember(run)
    const before = await rows(run.organizationId)
    const other = testRun({ organizationId: run.organizationId })
    for (const part of [{}, { subject: ' JO  weber ' }, { text: 'Prefers\n short mails. ' }]) {
      expect(await remember(other, part)).toEqual({ id, created: false })
    }
    expect(await rows(run.organizationId)).toEqual(before)
    for (const part of [{ kind: 'observation' }, { subject: 'Sam' }, { text: 'Prefers long mails.' }]) {
      expect(await remember(other, part)).toMatchObject({ created: true })
    }
  })

  test('eight times at once is one row, and one of them created it', async () => {
    const run = testRun()
    const answers = await Promise.all(Array.from({ length: 8 }, () => remember(run)))
    expect(new Set(answers.map(({ id }) => id))).toHaveLength(1)
    expect(answers.filter(({ created }) => created)).toHaveLength(1)
  })

  test('by a person is trusted, also when a run repeats it', async () => {
    const run = testRun()
    await remember(run)
    await db.database.kysely
      .updateTable('public.memories')
      .set({ trusted: true, written_by_run: null })
      .where('organization_id', '=', run.organizationId)
      .execute()
    await remember(run)
    expect(await call('search', run, {})).toMatchObject({ data: [{ trusted: true }], meta: { untrusted: false } })
  })
})

describe('a search', () => {
  test('answers the newest first, by words, subject and kind, and no more than asked for', async () => {
    const run = testRun()
    await remember(run, { text: 'one' })
    await remember(run, { text: 'two', kind: 'observation' })
    await remember(run, { text: 'three', subject: 'Sam' })
    expect(await texts(run)).toEqual(['three', 'two', 'one'])
    expect(await texts(run, { limit: 2 })).toEqual(['three', 'two'])
    expect(await texts(run, { subject: 'JO WEBER' })).toEqual(['two', 'one'])
    expect(await texts(run, { subject: 'jo' })).toEqual([])
    expect(await texts(run, { kind: 'preference' })).toEqual(['three', 'one'])
    expect(await texts(run, { query: 't', subject: 'sam', kind: 'preference' })).toEqual(['three'])
    expect(await texts(run, { query: '%' })).toEqual([])
  })

  test.each<JsonObject>([{ limit: 51 }, { limit: 0 }, { query: ' ' }, { kind: 'secret' }, { sql: '1=1' }])(
    'with %j is refused',
    (args) => {
      expect(() => admitted(toolOf('search'), args)).toThrow(/./)
    },
  )
})

describe('what is forgotten', () => {
  test('is not found any more, and can be remembered anew', async () => {
    const run = testRun()
    const { id } = await remember(run)
    expect((await call('forget', run, { id })).data).toEqual({ id })
    expect(await texts(run)).toEqual([])
    const again = await remember(run)
    expect([again.created, again.id === id]).toEqual([true, false])
  })

  test('R27 twice, or never known, is not found', async () => {
    const run = testRun()
    const { id } = await remember(run)
    const failure = async (unknown: string) =>
      ((await call('forget', run, { id: unknown }).catch((error: unknown) => error)) as Error).constructor
    await call('forget', run, { id })
    expect(await failure(id)).toBe(NotFoundError)
    expect(await failure(uuidv7())).toBe(NotFoundError)
  })
})

test('memories are the set of contents that any order of remembering and forgetting leaves', async () => {
  const step = fc.record({ text: fc.constantFrom('a', 'b', 'c'), forgets: fc.boolean() })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 10 }), async (steps) => {
      const run = testRun()
      const model = new Map<string, string>()
      for (const { text, forgets } of steps) {
        const id = model.get(text)
        if (!forgets) model.set(text, (await remember(run, { text })).id)
        else if (id !== undefined) {
          await call('forget', run, { id })
          model.delete(text)
        }
        expect((await texts(run)).toSorted()).toEqual([...model.keys()].toSorted())
      }
    }),
    { numRuns: 25 },
  )
})
