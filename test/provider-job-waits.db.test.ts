import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  startFullEnrichSimulator,
  type FullEnrichSettings,
  type FullEnrichSimulator,
} from '../simulators/fullenrich.ts'
import type { Instrument } from '../src/core.ts'
import { expr, sequence, tool, waitForProviderJob, waitFor } from '../src/runs/workflow/index.ts'
import type { App } from '../src/server/app.ts'
import { FULLENRICH_KEY, providers } from './provider-job-parts.ts'
import { jobApp, jobRows, usageRows } from './provider-jobs.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { STARTER } from './setup/world.ts'
import { workflowScene, type WorkflowScene } from './workflow-scene.ts'

let db: TestDatabase
const simulators: FullEnrichSimulator[] = []

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterEach(async () => {
  for (const simulator of simulators.splice(0)) await simulator.close()
})
afterAll(() => db.close())

interface Scene {
  readonly w: WorkflowScene
  readonly sim: FullEnrichSimulator
  /** Lets time pass, and wakes what is due then. */
  readonly pass: (seconds: number) => Promise<void>
  readonly deliver: (status?: string) => Promise<number>
}

async function open(
  options: { readonly fullenrich?: FullEnrichSettings; readonly instrument?: Instrument } = {},
): Promise<Scene> {
  let ahead = 0
  let app: App | null = null
  const sim = await startFullEnrichSimulator({
    keys: [FULLENRICH_KEY],
    send: async (url, { headers, body }) =>
      app === null ? { status: 0 } : app.request(url, { method: 'POST', headers, body }),
    ...options.fullenrich,
  })
  simulators.push(sim)
  const parts = providers(db.database, { fullenrich: sim.url, parallel: 'http://127.0.0.1:9' })
  const w = await workflowScene({
    database: db.database,
    extraTools: parts.tools,
    jobProviders: parts.providers,
    now: () => new Date(Date.now() + ahead),
    ...(options.instrument === undefined ? {} : { instrument: options.instrument }),
  })
  app = jobApp(w)
  return {
    w,
    sim,
    async pass(seconds) {
      ahead += seconds * 1000
      await db.database.execute(`UPDATE agent.runs SET wake_at = wake_at - interval '${seconds} seconds'`)
      await w.engine.sweep()
      await w.engine.settle()
    },
    async deliver(status) {
      const [batch] = sim.batches
      if (batch === undefined) throw new Error('no batch arrived')
      return sim.deliver(batch, status === undefined ? {} : { status })
    },
  }
}

const submit = tool('submit', {
  tool: 'fullenrich.submit',
  args: { contacts: [{ ref: 'a', firstName: 'Sample', lastName: 'Person', domain: 'freight.test' }] },
})
const wait = waitForProviderJob('wait', { jobId: expr('steps.submit.output.jobId'), timeoutS: 3_600 })
const collect = tool('collect', { tool: 'fullenrich.collect', args: { jobId: expr('steps.submit.output.jobId') } })
const ROOT = sequence('main', [submit, wait, collect])

describe('a workflow that waits for a job', () => {
  test('parks on it, is woken by its callback, and collects what was found', async () => {
    const { w, sim, deliver } = await open()
    await w.publish(ROOT)
    const run = await w.play()
    expect(run).toMatchObject({ status: 'parked' })
    expect(await w.steps(run.id)).toMatchObject({ wait: { state: 'waiting' } })
    expect(await deliver('IN_PROGRESS')).toBe(200)
    expect(await w.goOn(run.id)).toMatchObject({ status: 'parked' })
    expect(await deliver()).toBe(200)
    expect(await w.goOn(run.id)).toMatchObject({ status: 'completed' })
    const steps = await w.steps(run.id)
    expect(steps['wait']?.output).toEqual({ ended: true, state: 'completed' })
    expect(steps['collect']?.output).toMatchObject({ contacts: [{ ref: 'a', email: 'sample.person@freight.test' }] })
    expect(await usageRows(db.database)).toHaveLength(1)
    expect(sim.requests).toHaveLength(1)
  })

  test('T02 does not park when the callback came before the wait was registered', async () => {
    const { w } = await open({ fullenrich: { callsBack: 'before_answer' } })
    await w.publish(ROOT)
    const run = await w.play()
    expect(run).toMatchObject({ status: 'completed' })
    expect((await w.steps(run.id))['wait']).toMatchObject({ attempt: 1, output: { ended: true, state: 'completed' } })
  })

  test('T02 is not left parked by a callback that comes while the run parks', async () => {
    let deliver: (() => Promise<number>) | null = null
    const instrument: Instrument = (port, implementation) =>
      port !== 'runs'
        ? implementation
        : new Proxy(implementation, {
            get(store, verb) {
              const member: unknown = Reflect.get(store, verb, store)
              if (typeof member !== 'function') return member
              return async (...given: unknown[]): Promise<unknown> => {
                const once = verb === 'park' ? deliver : null
                if (verb === 'park') deliver = null
                await once?.()
                return Reflect.apply(member, store, given) as unknown
              }
            },
          })
    const scene = await open({ instrument })
    deliver = () => scene.deliver()
    await scene.w.publish(ROOT)
    expect(await scene.w.play()).toMatchObject({ status: 'completed' })
  })

  test('reads the row once more when its time is over: an event that was lost costs the time and not the result', async () => {
    const { w, deliver, pass } = await open()
    await w.publish(ROOT)
    const run = await w.play()
    await deliver()
    // As if the wake-up had been lost with its process.
    await db.database.execute(`UPDATE agent.runs SET wake_at = now() + interval '1 hour' WHERE status = 'parked'`)
    await pass(3_601)
    expect(await w.run(run.id)).toMatchObject({ status: 'completed' })
    expect((await w.steps(run.id))['wait']?.output).toEqual({ ended: true, state: 'completed' })
  })

  test('goes on without it when its time is over, and a callback that comes later is still paid for', async () => {
    const { w, deliver, pass } = await open()
    await w.publish(
      sequence('main', [
        submit,
        waitForProviderJob('wait', { jobId: expr('steps.submit.output.jobId'), timeoutS: 60 }),
      ]),
    )
    const run = await w.play()
    await pass(61)
    expect(await w.run(run.id)).toMatchObject({ status: 'completed' })
    expect((await w.steps(run.id))['wait']?.output).toEqual({ ended: false, state: 'running' })
    await deliver()
    await w.engine.settle()
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed' }])
    expect(await usageRows(db.database)).toMatchObject([{ run_id: run.id, cost_cents: 5.8 }])
  })

  test('waits no longer than its run may take', async () => {
    const { w, pass } = await open()
    await w.publish(ROOT, { ceilings: { maxDurationS: 100 } })
    const run = await w.play()
    expect(run.wakeAt?.getTime()).toBeLessThanOrEqual(run.deadline.getTime())
    await pass(101)
    expect(await w.run(run.id)).toMatchObject({ status: 'partial', reason: 'max_duration' })
  })

  test('T07 that is cancelled while the job is out has its cost in its tree all the same, once', async () => {
    const { w, deliver } = await open()
    await w.publish(ROOT)
    const run = await w.play()
    await w.runtime.runs.cancel({ organizationId: w.organizationId, runId: run.id, by: STARTER, reason: 'enough' })
    expect(await w.goOn(run.id)).toMatchObject({ status: 'cancelled' })
    expect(await deliver()).toBe(200)
    await w.engine.settle()
    expect(await deliver()).toBe(200)
    await w.engine.settle()
    expect(await usageRows(db.database)).toMatchObject([{ run_id: run.id, root_run_id: run.id }])
  })

  test('fails its step for a job that there is not, of whomever', async () => {
    const { w } = await open()
    for (const jobId of ['nonsense', '0192f0c1-0000-8000-8000-00000000beef']) {
      await w.publish(waitForProviderJob('wait', { jobId, timeoutS: 60 }), {
        slug: jobId.slice(0, 8) === 'nonsense' ? 'one' : 'two',
      })
    }
    for (const slug of ['one', 'two'])
      expect(await w.play(null, slug)).toMatchObject({ status: 'failed', reason: 'not_found' })
    await w.publish(waitForProviderJob('wait', { jobId: expr('input'), timeoutS: 60 }))
    expect(await w.play(7)).toMatchObject({ status: 'failed', reason: 'expression_failed' })
  })

  test('a run that somebody else’s job ends is left alone', async () => {
    const { w, deliver } = await open()
    await w.publish(ROOT)
    await w.publish(waitFor('pause', 600), { slug: 'other' })
    const other = await w.play(null, 'other')
    await w.play()
    const counter = (await w.run(other.id)).wakeCounter
    await deliver()
    await w.engine.settle()
    expect((await w.run(other.id)).wakeCounter).toBe(counter)
  })
})
