import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Instrument } from '../src/core.ts'
import { agent, expr, map, parallel, sequence, tool, waitForSignal } from '../src/runs/workflow/index.ts'
import { withCrashPoints, type CrashPoint } from '../src/testing/crash-points.ts'
import type { Script } from '../src/testing/script.ts'
import { internalTool } from '../src/tools/declarations.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { STARTER } from './setup/world.ts'
import { workflowScene, type WorkflowScene } from './workflow-scene.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(() => empty(db.database))

/** Raised at the point where a process dies, and by everything it would still have done. */
class Died extends Error {
  override readonly name = 'Died'
}

/** One process: it dies when it reaches its nth point, and does nothing after that. */
class Life {
  readonly points: CrashPoint[] = []
  readonly #dieAt: number
  dead = false

  constructor(dieAt: number) {
    this.#dieAt = dieAt
  }

  /** Ports whose writes matter to a workflow; reads and clocks stand beside them. */
  readonly instrument: Instrument = (port, implementation) => {
    if (!['steps', 'children', 'ledger', 'runs'].includes(port)) return implementation
    return withCrashPoints((point) => this.#reach(point))(port, implementation)
  }

  breathe(): void {
    if (this.dead) throw new Died()
  }

  #reach(point: CrashPoint): void {
    this.breathe()
    if (!MATTERS.test(point)) return
    this.points.push(point)
    if (this.points.length !== this.#dieAt) return
    this.dead = true
    throw new Died()
  }
}

const MATTERS = /^(steps\.record|children\.start|ledger\.(claim|close)|runs\.(park|end|recordTurn|create)):/

/** A receiver outside of the process, which takes each key once. */
function receiver() {
  const taken: string[] = []
  const seen = new Set<string>()
  const declare = (life: Life) =>
    internalTool({
      name: 'test.write',
      description: 'Write to the receiver.',
      input: z.object({ text: z.string() }),
      output: z.object({ text: z.string() }),
      sideEffects: 'write',
      repeatable: false,
      downstreamKey: true,
      handler: async (_invocation, { text }, { idempotencyKey }) => {
        life.breathe()
        if (!seen.has(idempotencyKey ?? '')) taken.push(text)
        seen.add(idempotencyKey ?? '')
        return ok({ text })
      },
    })
  return { taken, declare }
}

const write = (id: string, text: string) => tool(id, { tool: 'test.write', args: { text: expr(text) } })

const ROOT = sequence('main', [
  write('first', '"first"'),
  parallel('both', [
    map('each', { over: '["x", "y"]', as: 'x', node: write('item', 'x'), fanoutConcurrency: 2, maxItems: 2 }),
    agent('child', { definition: 'outreach', input: 'in the child' }),
  ]),
  waitForSignal('go', { name: 'go', timeoutS: 600 }),
  write('last', 'steps.go.output.payload'),
])

/** A boundary, then the claim: before and after each. */
const POINTS_TO_FIRST_CLAIM = 4

const EXPECTED = ['first', 'in the child', 'last', 'x', 'y']

const writing: Script = ({ input, turns }) =>
  turns.length === 0 ? { calls: [{ tool: 'test.write', args: { text: input } }] } : { text: 'done' }

async function live(life: Life, declare: ReturnType<typeof receiver>['declare']): Promise<WorkflowScene> {
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined }
  return workflowScene({
    database: db.database,
    script: writing,
    extraTools: [declare(life)],
    agentTools: ['test.write'],
    instrument: life.instrument,
    logger: quiet,
    reporter: { report: () => undefined },
  })
}

/** A process that died is found out by its silence, and its claims by their age; here both are over at once. */
async function timePasses(): Promise<void> {
  await db.admin.execute(`
    UPDATE agent.runs SET begun_at = now() - interval '1 hour', wake_at = NULL WHERE status IN ('running', 'queued');
    UPDATE agent.run_heartbeats SET beat_at = now() - interval '1 hour';
    UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second' WHERE status = 'processing'`)
}

/** Plays the workflow in a process that dies at a point, and to its end in the processes after it. */
async function play(dieAt: number) {
  await empty(db.database)
  const { taken, declare } = receiver()
  const life = new Life(dieAt)
  const scene = await live(life, declare)
  await scene.publish(ROOT)
  const id = await startOn(scene)
  await scene.engine.settle().catch((error: unknown) => {
    if (!(error instanceof Died)) throw error
  })
  for (let lives = 0; lives < 3; lives += 1) {
    await timePasses()
    const next = await live(new Life(0), declare)
    await next.engine.sweep()
    await next.engine.settle()
    const run = await next.run(id)
    if (run.endedAt !== null) return { run, taken, points: life.points, died: life.dead, scene: next }
  }
  throw new Error(`the run did not end after the death at ${life.points.at(-1) ?? 'no point'}`)
}

async function startOn(scene: WorkflowScene): Promise<string> {
  const { organizationId, runtime } = scene
  const request = { organizationId, definition: 'flow', input: null, startedBy: STARTER, source: 'api' } as const
  const { id } = await runtime.runs.start(request)
  await runtime.runs.signal({ organizationId, runId: id, name: 'go', payload: 'last', by: STARTER })
  return id
}

describe('a process that dies at any point of a workflow', { timeout: 300_000 }, () => {
  test('leaves nothing undone and nothing done twice: steps, items, the child, and the signal', async () => {
    const whole = await play(0)
    expect([whole.run.status, whole.taken.toSorted()]).toEqual(['completed', EXPECTED])
    // The points come in nearly the same order every time; one that is not reached is a whole life.
    const count = whole.points.length
    expect(count).toBeGreaterThan(30)
    let deaths = 0
    // The first two belong to the start of the run, before anything can be lost.
    for (let point = 3; point <= count; point += 1) {
      const { run, taken, points, died } = await play(point)
      const at = `died at ${point}, ${points.at(-1)}`
      expect([at, run.status, taken.toSorted()]).toEqual([at, 'completed', EXPECTED])
      if (died) deaths += 1
    }
    expect(deaths).toBeGreaterThan(count - 6)
  })

  test('waits for the lease of a call that a dead process may still be making, and makes it then', async () => {
    const { taken, declare } = receiver()
    const life = new Life(2 + POINTS_TO_FIRST_CLAIM)
    const scene = await live(life, declare)
    await scene.publish(write('only', '"once"'))
    const id = await startOn(scene)
    await scene.engine.settle().catch(() => undefined)
    expect(life.points.at(-1)).toBe('ledger.claim:after')
    await db.admin.execute(`UPDATE agent.runs SET begun_at = now() - interval '1 hour';
      UPDATE agent.run_heartbeats SET beat_at = now() - interval '1 hour'`)
    const next = await live(new Life(0), declare)
    await next.engine.sweep()
    await next.engine.settle()
    const waiting = await next.run(id)
    expect([waiting.status, await next.steps(id)]).toMatchObject(['parked', { only: { state: 'waiting' } }])
    expect(taken).toEqual([])
    await db.admin.execute(`UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second';
      UPDATE agent.run_steps SET wait = jsonb_set(wait, '{until}', '"2020-01-01T00:00:00Z"'); UPDATE agent.runs SET wake_at = now()`)
    await next.engine.sweep()
    await next.engine.settle()
    expect([(await next.run(id)).status, taken]).toEqual(['completed', ['once']])
  })
})
