import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { aiSdkFramework } from '../src/frameworks/ai-sdk/index.ts'
import { createBailiff, DEFAULT_CEILINGS, internalTool, ok, type Bailiff } from '../src/index.ts'
import { scriptedModel } from '../src/testing/index.ts'
import { testDatabase, type TestDatabase } from './setup/database.ts'

let db: TestDatabase
let written: string[]
beforeEach(async () => {
  db = await testDatabase()
  written = []
})
afterEach(() => db.close())

const BEN = { id: '00000000-0000-4000-8000-00000000000b', name: 'Ben' }

/** A program without an engine: nothing happens to a run unless somebody calls `advance`. */
function serverless(options: { readonly onWrite?: () => void; readonly slug?: string } = {}): Promise<Bailiff> {
  const model = scriptedModel({
    name: 'scripted/notes',
    next: ({ turns }) =>
      turns.length === 0 ? { calls: [{ tool: 'notes.write', args: { text: 'hi' } }] } : { text: 'Done.' },
  })
  return createBailiff({
    database: db.database,
    organization: { slug: options.slug ?? 'acme' },
    tools: [
      internalTool({
        name: 'notes.write',
        description: 'Write a note.',
        input: z.object({ text: z.string() }),
        output: z.object({ count: z.int() }),
        sideEffects: 'write',
        repeatable: false,
        handler: async (_invocation, { text }) => {
          options.onWrite?.()
          return ok({ count: written.push(text) })
        },
      }),
    ],
    rules: [{ name: 'notes need a person', tools: ['notes.write'], effect: 'require_approval' }],
    agents: {
      frameworks: [aiSdkFramework({ maxRetries: 0, resolveModel: () => model })],
      defaultModel: 'scripted/notes',
      definitions: [
        { slug: 'notes', instructions: 'Write.', tools: ['notes.write'], model: null, ceilings: DEFAULT_CEILINGS },
      ],
    },
  })
}

async function approveAll(bailiff: Bailiff): Promise<void> {
  const { items } = await bailiff.approvals.list({ state: 'pending' })
  for (const { id, argumentsHash } of items)
    expect(await bailiff.approvals.approve({ id, argumentsHash, by: BEN })).toMatchObject({ kind: 'answered' })
}

describe('without an engine', () => {
  test('advance alone takes a run over its approval to its end', async () => {
    const bailiff = await serverless()
    const run = await bailiff.runs.start({ agent: 'notes', input: 'go' })
    expect(await bailiff.runs.get(run.id)).toMatchObject({ status: 'queued' })

    expect(await bailiff.advance()).toStrictEqual({ advanced: 1, remaining: 0 })
    expect(await bailiff.runs.get(run.id)).toMatchObject({ status: 'parked' })
    expect(await bailiff.advance()).toStrictEqual({ advanced: 0, remaining: 0 })

    await approveAll(bailiff)
    expect(written).toStrictEqual([])
    expect(await bailiff.advance()).toStrictEqual({ advanced: 1, remaining: 0 })
    expect(await bailiff.runs.get(run.id)).toMatchObject({ status: 'completed', output: 'Done.' })
    expect(written).toStrictEqual(['hi'])
  })

  test('overlapping calls share the runs, and each effect is made once', async () => {
    const bailiff = await serverless()
    const runs = await Promise.all(
      Array.from({ length: 6 }, () => bailiff.runs.start({ agent: 'notes', input: 'go', lane: 'batch' })),
    )
    const everything = async (): Promise<void> => {
      for (;;) {
        const calls = await Promise.all([bailiff.advance(), bailiff.advance(), bailiff.advance()])
        if (calls.every(({ advanced, remaining }) => advanced === 0 && remaining === 0)) return
      }
    }
    await everything()
    await approveAll(bailiff)
    await everything()
    for (const { id } of runs) expect(await bailiff.runs.get(id)).toMatchObject({ status: 'completed' })
    expect(written).toHaveLength(6)
  })

  test('a budget of runs leaves the rest and says so', async () => {
    const bailiff = await serverless()
    for (let count = 0; count < 3; count += 1) await bailiff.runs.start({ agent: 'notes', input: 'go' })
    expect(await bailiff.advance({ runs: 2 })).toStrictEqual({ advanced: 2, remaining: 1 })
    expect(await bailiff.advance({ runs: 2 })).toStrictEqual({ advanced: 1, remaining: 0 })
  })

  test('time that is over ends a segment before its next turn: what was under way is kept, and the rest is due', async () => {
    const over = new AbortController()
    const bailiff = await serverless({ onWrite: () => over.abort() })
    const run = await bailiff.runs.start({ agent: 'notes', input: 'go' })
    await bailiff.advance()
    await approveAll(bailiff)
    expect(await bailiff.advance({ signal: over.signal })).toStrictEqual({ advanced: 1, remaining: 1 })
    expect(await bailiff.runs.get(run.id)).toMatchObject({ status: 'queued', turns: 1, message: null })
    expect(written).toStrictEqual(['hi'])

    expect(await bailiff.advance({ signal: over.signal })).toStrictEqual({ advanced: 0, remaining: 1 })
    expect(await bailiff.advance()).toStrictEqual({ advanced: 1, remaining: 0 })
    expect(await bailiff.runs.get(run.id)).toMatchObject({ status: 'completed', output: 'Done.' })
    expect(written).toStrictEqual(['hi'])
  })

  test('another organization’s runs are left alone', async () => {
    const [acme, other] = [await serverless(), await serverless({ slug: 'other' })]
    await other.runs.start({ agent: 'notes', input: 'go' })
    expect(await acme.advance()).toStrictEqual({ advanced: 0, remaining: 0 })
    expect(await other.advance()).toStrictEqual({ advanced: 1, remaining: 0 })
  })
})

test('a program without agents is told that it has none', async () => {
  const bailiff = await createBailiff({ database: db.database, tools: [] })
  await expect(bailiff.advance()).rejects.toThrow('no agents')
})
