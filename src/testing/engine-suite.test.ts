import { describe, expect, test } from 'vitest'
import type { DurableEngine, EngineWork } from '../runs/engine.ts'
import { engineSuite, type EngineScene, type EngineSceneFactory } from './engine-suite.ts'
import { manualEngine, type ManualEngine } from './manual-engine.ts'

/** What an engine with one fault does differently. */
type Fault = (engine: ManualEngine) => Partial<DurableEngine>

const manualScene =
  (fault: Fault = () => ({})): EngineSceneFactory =>
  async () => {
    let clock = Date.UTC(2026, 2, 1)
    const now = (): Date => new Date(clock)
    const engines: ManualEngine[] = []
    const make = (): DurableEngine => {
      const engine = manualEngine({ now })
      engines.push(engine)
      // A prototype keeps what is not replaced.
      return Object.assign(wrapped(engine), fault(engine))
    }
    const scene: EngineScene = {
      engines: [make()],
      another: async () => make(),
      concurrency: 1,
      tickS: 1,
      now,
      async pump() {
        for (const engine of engines) {
          // What is raised here is what the case made fail.
          for (const turn of [() => engine.settle(), () => engine.sweep(), () => engine.tick()])
            await turn().catch(() => undefined)
        }
        clock += 400
        await new Promise((resolve) => setImmediate(resolve))
      },
      close: async () => undefined,
    }
    return scene
  }

function wrapped(engine: ManualEngine): DurableEngine {
  return {
    name: engine.name,
    start: (work) => engine.start(work),
    wake: (runId, at) => engine.wake(runId, at),
    enqueue: (name, payload, options) => engine.enqueue(name, payload, options),
    stop: (graceMs) => engine.stop(graceMs),
  }
}

describe('the manual engine', () => {
  test.for(engineSuite)('$name', (one) => expect(one.run(manualScene())).resolves.toBeUndefined())
})

const working =
  (change: (work: EngineWork) => Partial<EngineWork>): Fault =>
  (engine) => ({ start: (work) => engine.start({ ...work, ...change(work) }) })

const FAULTS: Readonly<Record<string, readonly [fault: Fault, found: string]>> = {
  'forgets wake-ups': [() => ({ wake: async () => undefined }), 'a run that is woken is advanced'],
  'takes again for done': [
    working((work) => ({ advance: async (runId) => (await work.advance(runId), { kind: 'idle' }) })),
    'a run that says again',
  ],
  'wakes early what was to come later': [
    (engine) => ({ wake: (runId) => engine.wake(runId) }),
    'a wake-up for later comes then',
  ],
  'never sweeps': [working(() => ({ sweep: async () => [] })), 'a run whose wake-up was lost'],
  'swallows what an advance throws': [
    working((work) => ({
      advance: (runId) => work.advance(runId).catch(() => ({ kind: 'idle' as const })),
    })),
    'an advance that throws is tried again',
  ],
  'gives up without a word': [working(() => ({ gaveUp: async () => undefined })), 'tries that are spent'],
  'tells the text of a fault': [
    working((work) => ({
      gaveUp: (runId, fault) => work.gaveUp(runId, new Error(`${fault.message} password=hunter2`)),
    })),
    'tries that are spent',
  ],
  'does not count attempts': [
    working((work) => ({ jobs: onJobs(work, (job) => ({ ...job, run: (payload) => job.run(payload, 1) })) })),
    'a job that fails is tried again with a counted attempt',
  ],
  'tells a final failure twice': [
    working((work) => ({
      jobs: onJobs(work, (job) => ({
        ...job,
        async onFinalFailure(payload, fault) {
          await job.onFinalFailure(payload, fault)
          await job.onFinalFailure(payload, fault)
        },
      })),
    })),
    'three retries, then one report',
  ],
  'has a try too many': [
    working((work) => ({ jobs: onJobs(work, (job) => ({ ...job, retries: job.retries + 1 })) })),
    'a job without retries is tried once',
  ],
  'knows no ids': [
    (engine) => ({ enqueue: (name, payload) => engine.enqueue(name, payload) }),
    'two jobs with one id are one',
  ],
  'takes jobs that nobody has': [() => ({ enqueue: async () => undefined }), 'a job that nobody has is refused'],
  'runs a tick twice': [
    working((work) => ({
      crons: work.crons.map((cron) => ({
        ...cron,
        run: async (tick: Date) => {
          await cron.run(tick)
          await cron.run(tick)
        },
      })),
    })),
    'a cron runs once for each tick',
  ],
  'does not wait at a stop': [(engine) => ({ stop: async () => void engine.stop(0) }), 'a stop waits for the segment'],
  'goes on after a stop': [() => ({ stop: async () => undefined }), 'a stopped engine takes nothing more'],
}

function onJobs(work: EngineWork, change: (job: EngineWork['jobs'][string]) => EngineWork['jobs'][string]) {
  return Object.fromEntries(Object.entries(work.jobs).map(([name, job]) => [name, change(job)]))
}

describe('an engine with one fault is found out', () => {
  test.for(Object.entries(FAULTS))('one that %s', async ([, [fault, found]]) => {
    const cases = engineSuite.filter(({ name }) => name.startsWith(found))
    expect(cases).toHaveLength(1)
    for (const one of cases) await expect(one.run(manualScene(fault))).rejects.toThrow(Error)
  })
})
