import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { DEFAULT_CEILINGS } from '../src/runs/definition.ts'
import type { LaneOf } from '../src/runs/lane.ts'
import type { RunRow } from '../src/runs/run-store.ts'
import { scriptedTurns, type Script, type ScriptedCall } from '../src/testing/script.ts'
import { internalTool } from '../src/tools/declarations.ts'
import { ok } from '../src/tools/models.ts'
import { runStore } from '../src/storage/run-store.ts'
import { RULES, silence } from './lane-scene.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { APPROVER, STARTER, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const ALLOW_ALL = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const

/** One run at a time, so that a second one has to wait. */
function narrow(options: Partial<WorldOptions> = {}): Promise<World> {
  return world({ database: db.database, settings: ALLOW_ALL, lanes: { interactive: 1, batch: 1 }, ...options })
}

function inBatch(w: World): Promise<RunRow> {
  const { organizationId } = w
  return w.runtime.runs.start({
    organizationId,
    definition: 'outreach',
    input: 'go',
    startedBy: STARTER,
    source: 'api',
    lane: 'batch',
  })
}

const interactive = (w: World): LaneOf => ({ organizationId: w.organizationId, lane: 'interactive' })

async function statuses(w: World, runs: readonly RunRow[]): Promise<readonly string[]> {
  return Promise.all(runs.map(async ({ id }) => (await w.run(id)).status))
}

const holdAll = (database = db.database): Promise<void> =>
  database.execute(
    "UPDATE agent.runs SET held_at = now(), held_reason = 'restored' WHERE status IN ('queued', 'running', 'parked')",
  )

describe('the lane of a run', () => {
  test('is interactive unless its definition or its start says batch', async () => {
    const w = await narrow()
    expect((await w.start()).lane).toBe('interactive')
    expect((await inBatch(w)).lane).toBe('batch')
  })

  test('is never above the one of its definition', async () => {
    const w = await narrow()
    const { organizationId } = w
    const slow = {
      slug: 'slow',
      instructions: 'Wait.',
      tools: [],
      model: null,
      ceilings: DEFAULT_CEILINGS,
      lane: 'batch',
    } as const
    await w.runtime.runs.publish(organizationId, slow, STARTER)
    const start = { organizationId, definition: 'slow', input: 'go', startedBy: STARTER, source: 'api' } as const
    expect((await w.runtime.runs.start(start)).lane).toBe('batch')
    await expect(w.runtime.runs.start({ ...start, lane: 'interactive' })).rejects.toThrow('interactive is above it')
  })
})

describe('a place that becomes free', () => {
  test('wakes the run that waits longest, however the holder left', async () => {
    const w = await narrow({
      settings: {},
      script: ({ turns }) =>
        turns.length === 0 ? { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] } : { text: 'done' },
    })
    const runs = [await w.start('1'), await w.start('2'), await w.start('3')]
    // Each is looked at once by its own start, and parks on its question.
    await w.engine.settle()
    expect(await statuses(w, runs)).toEqual(['parked', 'parked', 'parked'])
    for (const { id } of runs) await w.approve(id)
    await w.engine.settle()
    expect(await statuses(w, runs)).toEqual(['completed', 'completed', 'completed'])
  })

  test('is found by whoever lost its wake-up, through the one before it', async () => {
    const asked: (readonly string[])[] = []
    const w = await narrow({
      onSend: async () => {
        // While the first works, the others ask in vain; nobody wakes them but its end.
        for (const { id } of waiting) await other.engine.wake(id)
        await other.engine.settle()
        asked.push(await statuses(w, waiting))
      },
      script: ({ turns }) =>
        turns.length === 0 ? { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] } : { text: 'done' },
    })
    const other = await narrow({ database: await db.another() })
    const first = await w.start()
    const waiting = [await other.start(), await other.start()]
    await w.engine.settle()
    expect(asked[0]).toEqual(['queued', 'queued'])
    expect(await statuses(w, [first, ...waiting])).toEqual(['completed', 'completed', 'completed'])
  })
})

/** A tool of this name that pauses the interactive lane while a segment is in the middle of its work. */
function pausing(name: string, sideEffects: 'read' | 'write', w: () => World) {
  const tool = {
    name,
    description: 'Pauses the lane.',
    input: z.object({}),
    output: z.object({}),
    handler: async () => {
      await w().runtime.lanes.pause(interactive(w()), APPROVER)
      return ok({})
    },
  }
  return sideEffects === 'read'
    ? internalTool({ ...tool, sideEffects })
    : internalTool({ ...tool, sideEffects, repeatable: false })
}

describe('pausing a lane', () => {
  const turns = (read: readonly ScriptedCall[], write: readonly ScriptedCall[]): Script =>
    scriptedTurns([
      { calls: [{ tool: 'crm.search', args: { query: 'jo' } }, ...read] },
      { calls: [{ tool: 'crm.note', args: { text: 'found' } }, ...write] },
      { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] },
      { text: 'done' },
    ])

  test.each([
    { during: 'a read', script: turns([{ tool: 'ops.look' }], []), searches: 1, notes: 0, modelTurns: 1 },
    // The answers of a write are heard first: left behind, reads among them would have to be made again.
    { during: 'a write', script: turns([], [{ tool: 'ops.halt' }]), searches: 1, notes: 1, modelTurns: 3 },
  ])('during $during, the run leaves at the next boundary, and nothing of it is done twice', async (given) => {
    let asked = 0
    const script: Script = (conversation) => {
      asked += 1
      return given.script(conversation)
    }
    const extraTools = [pausing('ops.look', 'read', () => w), pausing('ops.halt', 'write', () => w)]
    const w: World = await narrow({ script, extraTools })
    const done = () => ({ searches: w.effects.searches.length, notes: w.effects.notes.length, modelTurns: asked })
    const { searches, notes, modelTurns } = given
    const run = await w.start()
    await w.engine.settle()
    // The second time after a sweep, which begins nothing.
    for (let look = 1; look <= 2; look += 1) {
      expect(await w.run(run.id)).toMatchObject({ status: 'queued', turns: modelTurns })
      expect(done()).toEqual({ searches, notes, modelTurns })
      await w.engine.sweep()
      await w.engine.settle()
    }
    expect(w.effects.sent).toEqual([])
    expect(await w.runtime.lanes.list(w.organizationId)).toMatchObject([
      { active: 0, queued: 1, paused: { by: APPROVER } },
      { paused: null },
    ])

    expect(await w.runtime.lanes.resume(interactive(w))).toBe(true)
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'completed', output: 'done', turns: 4 })
    expect(done()).toEqual({ searches: 1, notes: 1, modelTurns: 4 })
    expect(w.effects.sent).toHaveLength(1)
  })

  test('leaves the other lane alone, loses no answer, and resuming wakes everything', async () => {
    const w = await narrow({
      settings: {},
      script: ({ turns }) =>
        turns.length === 0 ? { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] } : { text: 'done' },
    })
    const parked = await w.start()
    await w.engine.settle()
    await w.runtime.lanes.pause(interactive(w), APPROVER)
    const queued = await w.start()
    const batch = await inBatch(w)
    await w.approve(parked.id)
    await w.engine.settle()
    await w.engine.sweep()
    await w.engine.settle()
    expect(await statuses(w, [parked, queued, batch])).toEqual(['parked', 'queued', 'parked'])
    expect(w.effects.sent).toEqual([])
    expect(await w.pending(batch.id)).toHaveLength(1)
    await w.runtime.lanes.resume(interactive(w))
    await w.engine.settle()
    expect(await statuses(w, [parked, queued])).toEqual(['completed', 'parked'])
  })
})

describe('a run that may not begin', () => {
  test('ends when it is cancelled: in a full lane, in a paused one, and while it is held', async () => {
    const w = await narrow()
    const { organizationId } = w
    const runs = [await w.start(), await inBatch(w)]
    await w.runtime.lanes.pause(interactive(w), APPROVER)
    await holdAll()
    const held = await w.run(runs[1]!.id)
    expect(held.heldReason).toBe('restored')
    await db.database.execute(`UPDATE agent.runs SET held_at = NULL WHERE lane = 'interactive'`)
    for (const { id } of runs) await w.runtime.runs.cancel({ organizationId, runId: id, reason: 'no', by: STARTER })
    await w.engine.settle()
    for (const { id } of runs)
      expect(await w.run(id)).toMatchObject({ status: 'cancelled', reason: 'cancelled', message: 'no' })
  })

  test('ends partial at its deadline, found by the sweep, in a paused lane too; a held one does not', async () => {
    const w = await narrow()
    const [run, held] = [await w.start(), await w.start()]
    await w.engine.settle()
    await db.database.execute(
      `UPDATE agent.runs SET status = 'queued', ended_at = NULL, deadline = now() - interval '1 second';
       UPDATE agent.runs SET held_at = now() WHERE id = '${held.id}'`,
    )
    await w.runtime.lanes.pause(interactive(w), APPROVER)
    await w.engine.wake(held.id)
    await w.engine.sweep()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'partial', reason: 'max_duration' })
    expect(await w.run(held.id)).toMatchObject({ status: 'queued' })
  })

  test('is let go by an operator, one or all, and who did it is kept', async () => {
    const w = await narrow()
    const runs = [await w.start(), await w.start(), await w.start()]
    await holdAll()
    await w.engine.settle()
    await w.engine.sweep()
    await w.engine.settle()
    expect(await statuses(w, runs)).toEqual(['queued', 'queued', 'queued'])
    const { organizationId } = w
    const [first] = runs
    const one = { organizationId, runId: first!.id }
    expect(await w.runtime.lanes.release(one, APPROVER)).toEqual([first!.id])
    expect(await w.runtime.lanes.release(one, APPROVER)).toEqual([])
    await w.engine.settle()
    expect(await statuses(w, runs)).toEqual(['completed', 'queued', 'queued'])
    expect(await w.runtime.lanes.release({ organizationId }, STARTER)).toHaveLength(2)
    await w.engine.settle()
    expect(await statuses(w, runs)).toEqual(['completed', 'completed', 'completed'])
    const kept = await db.database.kysely.selectFrom('agent.run_control').select(['run_id', 'released_by']).execute()
    expect(new Map(kept.map((row) => [row.run_id, row.released_by]))).toEqual(
      new Map([
        [runs[0]!.id, APPROVER],
        [runs[1]!.id, STARTER],
        [runs[2]!.id, STARTER],
      ]),
    )
  })

  test('of another organization is not released', async () => {
    const w = await narrow()
    const run = await w.start()
    await holdAll()
    const organizationId = '00000000-0000-4000-8000-0000000000ff'
    expect(await w.runtime.lanes.release({ organizationId, runId: run.id }, APPROVER)).toEqual([])
    expect((await w.run(run.id)).heldAt).not.toBeNull()
  })
})

/** As if so many processes had died, one after the other, while they worked on the run. */
async function abandon(w: World, runId: string, times: number): Promise<void> {
  const store = runStore(db.database)
  for (let nth = 0; nth < times; nth += 1) {
    const begun = await store.begin(runId, randomUUID(), RULES)
    if (begun.kind !== 'begun') throw new Error(`it is ${begun.kind}`)
    expect(begun.segment.abandoned).toBe(nth)
    await silence(db.database, begun.segment)
  }
  await w.engine.wake(runId)
  await w.engine.settle()
}

describe('a run that ends its process each time', () => {
  test('is given up after ten times, told once, and frees its place', async () => {
    const reports: unknown[] = []
    const reporter = { report: (error: unknown, context: object) => void reports.push([String(error), context]) }
    const w = await narrow({ script: () => ({ text: 'done' }), reporter })
    const [bad, good] = [await w.start(), await w.start()]
    await abandon(w, bad.id, 10)
    expect(await w.run(bad.id)).toMatchObject({ status: 'failed', reason: 'internal_error' })
    expect((await w.run(good.id)).status).toBe('completed')
    const said = 'Error: the process ended 10 times in a row while it worked on this run'
    expect(reports).toEqual([[said, { runId: bad.id, organizationId: w.organizationId }]])
  })

  test('goes on after fewer, and starts counting anew when it gets on', async () => {
    const calls = [{ tool: 'email.send', args: { to: 'jo@acme.test' } }]
    const ask = { name: 'ask', tools: ['email.send'], effect: 'require_approval' } as const
    const w = await narrow({ script: ({ turns }) => (turns.length === 0 ? { calls } : { text: 'done' }), rules: [ask] })
    const run = await w.start()
    await abandon(w, run.id, 9)
    expect((await w.run(run.id)).status).toBe('parked')
    await db.database.execute(`UPDATE agent.runs SET status = 'queued' WHERE id = '${run.id}'`)
    await abandon(w, run.id, 9)
    await w.approve(run.id)
    await w.engine.settle()
    expect((await w.run(run.id)).status).toBe('completed')
    expect(w.effects.sent).toHaveLength(1)
  })
})

describe('tries that are spent', () => {
  test('end the run once, are told once, and free its place', async () => {
    const reports: Record<string, string>[] = []
    const w = await narrow({
      script: ({ input }) => (input === 'bad' ? { fail: new Error('the provider is down') } : { text: 'done' }),
      reporter: { report: (_error, context) => void reports.push({ ...context }) },
    })
    const bad = await w.start('bad')
    const good = await w.start()
    for (let nth = 0; nth < 6; nth += 1) {
      await w.engine.wake(bad.id)
      await w.engine.settle()
    }
    expect(await w.run(bad.id)).toMatchObject({ status: 'failed', reason: 'internal_error' })
    expect((await w.run(good.id)).status).toBe('completed')
    expect(reports).toEqual([{ runId: bad.id, organizationId: w.organizationId, failures: '3' }])
  })
})
