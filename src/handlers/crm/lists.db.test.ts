import { v7 as uuidv7 } from 'uuid'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { admitted, callHandler, type TestRun, testRun } from '../../../test/handler-call.ts'
import { scopedDb } from '../../storage/scoped-db.ts'
import type { ToolDeclaration } from '../../tools/declarations.ts'
import { ConflictError, NotFoundError } from '../../tools/errors.ts'
import type { JsonObject } from '../../tools/json.ts'
import { listTools, MAX_MEMBERS } from './list-tools.ts'
import { scopedLists } from './scoped-lists.ts'

let db: TestDatabase
let tools: ToolDeclaration[]
beforeAll(async () => {
  db = await testDatabase()
  tools = listTools(scopedLists((organizationId) => scopedDb(db.database, organizationId)))
})
afterAll(() => db.close())

function toolOf(name: string): ToolDeclaration {
  const tool = tools.find(({ spec }) => spec.name === `crm.${name}`)
  if (tool === undefined) throw new Error(`there is no ${name}`)
  return tool
}

const call = (name: string, run: TestRun, args: JsonObject) => callHandler(toolOf(name), { run, args })

async function failure(name: string, run: TestRun, args: JsonObject): Promise<unknown> {
  const raised: unknown = await call(name, run, args).catch((error: unknown) => error)
  return (raised as Error).constructor
}

async function made(run: TestRun, args: JsonObject = {}): Promise<string> {
  const { data } = await call('create_list', run, { name: 'Prospects', kind: 'person', ...args })
  return (data as { id: string }).id
}

interface Members {
  readonly size: number
  readonly people: readonly { readonly id: string; readonly trusted: boolean }[]
  readonly companies: readonly { readonly id: string }[]
  readonly next: string | null
}

async function content(run: TestRun, args: JsonObject): Promise<Members> {
  return (await call('get_list', run, args)).data as Members
}

/** People as an import leaves them. */
async function people(organizationId: string, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => uuidv7())
  const rows = ids.map((id) => ({ id, organization_id: organizationId, email: `${id}@acme.test`, full_name: id }))
  await db.database.kysely.insertInto('public.people').values(rows).execute()
  return ids.toSorted()
}

async function company(organizationId: string): Promise<string> {
  const id = uuidv7()
  const row = { id, organization_id: organizationId, domain: `${id}.test`, name: 'Acme' }
  await db.database.kysely.insertInto('public.companies').values(row).execute()
  return id
}

const deletePerson = (id: string) =>
  db.database.kysely.updateTable('public.people').set({ deleted_at: new Date() }).where('id', '=', id).execute()

const deleteList = (id: string) =>
  db.database.kysely.updateTable('public.lists').set({ deleted_at: new Date() }).where('id', '=', id).execute()

describe('a list', () => {
  test('is one row for one name, in any case', async () => {
    const run = testRun()
    const id = await made(run, { description: 'Who to write to' })
    const again = await call('create_list', run, { name: 'PROSPECTS', kind: 'person', description: 'Another' })
    expect(again.data).toEqual({ id, created: false })
    expect((await call('search_lists', run, {})).data).toEqual([
      { id, name: 'Prospects', kind: 'person', description: 'Who to write to', trusted: false },
    ])
  })

  test('eight at once are one row, and one of them created it', async () => {
    const run = testRun()
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => call('create_list', run, { name: 'Prospects', kind: 'person' })),
    )
    const lists = answers.map(({ data }) => data as { id: string; created: boolean })
    expect(new Set(lists.map(({ id }) => id))).toHaveLength(1)
    expect(lists.filter(({ created }) => created)).toHaveLength(1)
  })

  test('R27 of the same name and another kind is a conflict', async () => {
    const run = testRun()
    await made(run)
    expect(await failure('create_list', run, { name: 'prospects', kind: 'company' })).toBe(ConflictError)
  })

  test('is found by every word of name and description, and the name is free once it was deleted', async () => {
    const run = testRun()
    const id = await made(run, { description: 'Spring fair' })
    const found = async (query: string) => (await call('search_lists', run, { query })).data
    expect(await found('fair PROSPECTS')).toMatchObject([{ id }])
    expect(await found('fair autumn')).toEqual([])
    await deleteList(id)
    expect(await found('fair')).toEqual([])
    expect(await made(run)).not.toBe(id)
  })

  test('R27 that is not there is not found, to any tool', async () => {
    const run = testRun()
    const memberIds = await people(run.organizationId, 1)
    expect(await failure('get_list', run, { id: uuidv7() })).toBe(NotFoundError)
    expect(await failure('add_to_list', run, { listId: uuidv7(), memberIds })).toBe(NotFoundError)
    expect(await failure('remove_from_list', run, { listId: uuidv7(), memberIds })).toBe(NotFoundError)
  })
})

describe('membership', () => {
  test('is added once, and ids that name nobody of the kind are named', async () => {
    const run = testRun()
    const listId = await made(run)
    const [jo = '', sam = ''] = await people(run.organizationId, 2)
    const [unknown, acme] = [uuidv7(), await company(run.organizationId)]
    const add = async (memberIds: string[]) => (await call('add_to_list', run, { listId, memberIds })).data
    expect(await add([jo, jo.toUpperCase(), unknown, acme])).toEqual({ added: 1, missing: [unknown, acme] })
    expect(await add([sam, jo])).toEqual({ added: 1, missing: [] })
    expect(await content(run, { id: listId })).toMatchObject({
      size: 2,
      people: [{ id: jo }, { id: sam }],
      companies: [],
    })
  })

  test('of companies shows companies', async () => {
    const run = testRun()
    const listId = await made(run, { kind: 'company' })
    const acme = await company(run.organizationId)
    await call('add_to_list', run, { listId, memberIds: [acme] })
    expect(await content(run, { id: listId })).toMatchObject({ size: 1, people: [], companies: [{ id: acme }] })
  })

  test('is read page by page, each member once', async () => {
    const run = testRun()
    const listId = await made(run)
    const ids = await people(run.organizationId, 7)
    await call('add_to_list', run, { listId, memberIds: ids.toReversed() })
    const seen: string[] = []
    let after: string | null = null
    do {
      const page: Members = await content(run, { id: listId, limit: 3, ...(after === null ? {} : { after }) })
      expect(page.size).toBe(7)
      seen.push(...page.people.map(({ id }) => id))
      after = page.next
    } while (after !== null)
    expect(seen).toEqual(ids)
  })

  test('of somebody who was deleted does not count, and nobody deleted is added', async () => {
    const run = testRun()
    const listId = await made(run)
    const [jo = '', sam = ''] = await people(run.organizationId, 2)
    await call('add_to_list', run, { listId, memberIds: [jo] })
    await deletePerson(jo)
    await deletePerson(sam)
    expect(await content(run, { id: listId })).toMatchObject({ size: 0, people: [] })
    expect((await call('add_to_list', run, { listId, memberIds: [sam] })).data).toEqual({ added: 0, missing: [sam] })
  })

  test('of a list that is deleted while somebody is added comes to nothing', async () => {
    const run = testRun()
    const listId = await made(run)
    const memberIds = await people(run.organizationId, 1)
    const overtaken = scopedLists((organizationId) =>
      scopedDb(
        {
          ...db.database,
          query: async (statement, values) => {
            const result = await db.database.query(statement, values)
            await deleteList(listId)
            return result as never
          },
        },
        organizationId,
      ),
    )
    const provenance = { runId: run.runId, rootRunId: run.rootRunId, tool: 'crm.add_to_list' }
    const { organizationId } = run
    expect(await overtaken.add({ organizationId, listId, memberIds, provenance })).toEqual({ kind: 'no_list' })
    const placed = await db.database.kysely
      .selectFrom('public.list_members')
      .selectAll()
      .where('list_id', '=', listId)
      .execute()
    expect(placed).toEqual([])
  })

  test('never holds a member of another organization', async () => {
    const [run, other] = [testRun(), testRun()]
    const listId = await made(run)
    const [theirs = ''] = await people(other.organizationId, 1)
    expect((await call('add_to_list', run, { listId, memberIds: [theirs] })).data).toEqual({
      added: 0,
      missing: [theirs],
    })
    expect(await failure('add_to_list', other, { listId, memberIds: [theirs] })).toBe(NotFoundError)
  })

  test('is the set that any order of adding and removing leaves', async () => {
    const run = testRun()
    const ids = await people(run.organizationId, 4)
    const step = fc.record({ add: fc.boolean(), members: fc.subarray(ids, { minLength: 1 }) })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (steps) => {
        const listId = await made(run, { name: uuidv7() })
        const model = new Set<string>()
        for (const { add, members } of steps) {
          const changing = members.filter((id) => model.has(id) !== add).length
          const answer = await call(add ? 'add_to_list' : 'remove_from_list', run, { listId, memberIds: members })
          expect(answer.data).toEqual(add ? { added: changing, missing: [] } : { removed: changing })
          for (const id of members) {
            if (add) model.add(id)
            else model.delete(id)
          }
          const { size, people } = await content(run, { id: listId })
          expect(people.map(({ id }) => id)).toEqual([...model].toSorted())
          expect(size).toBe(model.size)
        }
      }),
      { numRuns: 25 },
    )
  })

  test('added by eight runs at once, in any order, is one row each', async () => {
    const run = testRun()
    const listId = await made(run)
    const ids = await people(run.organizationId, 20)
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, at) =>
        call('add_to_list', run, { listId, memberIds: at % 2 === 0 ? ids : ids.toReversed() }),
      ),
    )
    const added = answers.map(({ data }) => (data as { added: number }).added)
    expect(added.reduce((sum, count) => sum + count, 0)).toBe(20)
    expect((await content(run, { id: listId })).size).toBe(20)
  })

  test('T18 is changed in batches, whose size is the contract’s', () => {
    for (const name of ['add_to_list', 'remove_from_list']) {
      expect(toolOf(name).spec).toMatchObject({ batchArgument: 'memberIds', maxBatchSize: MAX_MEMBERS })
      expect(() => admitted(toolOf(name), { listId: uuidv7(), memberIds: [] })).toThrow(/memberIds/)
    }
  })
})

describe('what a list says of its origin', () => {
  test('a row of a list and of a membership records the run, its root and the tool', async () => {
    const run = testRun()
    const listId = await made(run)
    const memberIds = await people(run.organizationId, 1)
    const other = testRun({ organizationId: run.organizationId })
    await call('add_to_list', other, { listId, memberIds })
    await call('add_to_list', run, { listId, memberIds })
    const author = [
      'written_by_run',
      'written_by_root_run',
      'written_by_tool',
      'created_by_root_run',
      'trusted',
    ] as const
    const { kysely } = db.database
    const written = (by: TestRun, tool: string) => ({
      written_by_run: by.runId,
      written_by_root_run: by.rootRunId,
      written_by_tool: tool,
      created_by_root_run: by.rootRunId,
      trusted: false,
    })
    expect(await kysely.selectFrom('public.lists').select(author).where('id', '=', listId).execute()).toEqual([
      written(run, 'crm.create_list'),
    ])
    // Who adds a member that is on the list has not put it there.
    expect(
      await kysely.selectFrom('public.list_members').select(author).where('list_id', '=', listId).execute(),
    ).toEqual([written(other, 'crm.add_to_list')])
    await call('remove_from_list', other, { listId, memberIds })
    await call('add_to_list', run, { listId, memberIds })
    expect(
      await kysely.selectFrom('public.list_members').select(author).where('list_id', '=', listId).execute(),
    ).toEqual([written(run, 'crm.add_to_list')])
  })

  test('a list that people made is trusted until a run puts somebody on it', async () => {
    const run = testRun()
    const list = { id: uuidv7(), organization_id: run.organizationId, name: 'Ours', kind: 'person' as const }
    const [jo = '', sam = ''] = await people(run.organizationId, 2)
    const { kysely } = db.database
    await kysely.insertInto('public.lists').values(list).execute()
    const placed = { organization_id: run.organizationId, list_id: list.id, member_id: jo }
    await kysely.insertInto('public.list_members').values(placed).execute()
    expect(await call('get_list', run, { id: list.id })).toMatchObject({
      data: { trusted: true, people: [{ id: jo, trusted: true }] },
      meta: { untrusted: false },
    })
    await call('add_to_list', run, { listId: list.id, memberIds: [jo, sam] })
    expect(await call('get_list', run, { id: list.id })).toMatchObject({
      data: {
        trusted: true,
        people: [
          { id: jo, trusted: true },
          { id: sam, trusted: false },
        ],
      },
      meta: { untrusted: true },
    })
  })
})
