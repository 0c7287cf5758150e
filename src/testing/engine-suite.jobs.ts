import assert from 'node:assert/strict'
import type { DurableJob } from '../runs/engine.ts'
import { EngineWorkError } from '../runs/engine-work.ts'
import type { JsonValue } from '../tools/json.ts'
import { EngineStage, type EngineCase } from './engine-stage.ts'

const SECRET = 'password=hunter2'

interface JobRecord {
  readonly tries: { readonly payload: JsonValue; readonly attempt: number; readonly at: Date }[]
  readonly failures: { readonly payload: JsonValue; readonly fault: Error }[]
}

interface JobPlan {
  readonly retries?: number
  /** Raises to fail the try. */
  readonly work?: (payload: JsonValue, attempt: number) => void
}

/** The same job in every engine of a stage, and one record of it. */
function recorded({ retries = 3, work }: JobPlan = {}): {
  readonly record: JobRecord
  of(stage: EngineStage): DurableJob
} {
  const record: JobRecord = { tries: [], failures: [] }
  return {
    record,
    of: (stage) => ({
      retries,
      async run(payload, attempt) {
        record.tries.push({ payload, attempt, at: stage.scene.now() })
        stage.changed()
        work?.(payload, attempt)
      },
      async onFinalFailure(payload, fault) {
        record.failures.push({ payload, fault })
        stage.changed()
      },
    }),
  }
}

const attempts = ({ tries }: JobRecord): number[] => tries.map(({ attempt }) => attempt)

export const JOBS: readonly EngineCase[] = [
  {
    name: 'a job runs with its payload, once when it succeeds',
    async run(make) {
      const job = recorded()
      const payload = { job_id: 'j1', nested: [1, null, 'ü'] }
      await EngineStage.play(
        make,
        (stage) => ({ jobs: { settle: job.of(stage) } }),
        async (stage) => {
          await stage.engine.enqueue('settle', payload)
          await stage.until('the job runs', () => job.record.tries.length > 0)
          await stage.settled()
          assert.deepEqual(
            job.record.tries.map((tried) => tried.payload),
            [payload],
          )
          assert.deepEqual(attempts(job.record), [1])
          assert.deepEqual(job.record.failures, [])
        },
      )
    },
  },
  {
    name: 'a job that fails is tried again with a counted attempt, and its success ends it',
    async run(make) {
      const job = recorded({
        work(_payload, attempt) {
          if (attempt < 3) throw new Error(SECRET)
        },
      })
      await EngineStage.play(
        make,
        (stage) => ({ jobs: { settle: job.of(stage) } }),
        async (stage) => {
          await stage.engine.enqueue('settle', null)
          await stage.until('the third try', () => job.record.tries.length === 3)
          await stage.settled()
          assert.deepEqual(attempts(job.record), [1, 2, 3])
          assert.deepEqual(job.record.failures, [])
        },
      )
    },
  },
  {
    name: 'three retries, then one report with the payload and without the text of the fault',
    async run(make) {
      const job = recorded({
        work() {
          throw new RangeError(SECRET)
        },
      })
      await EngineStage.play(
        make,
        (stage) => ({ jobs: { settle: job.of(stage) } }),
        async (stage) => {
          await stage.engine.enqueue('settle', { job_id: 'j1' })
          await stage.until('the failure is told', () => job.record.failures.length > 0)
          await stage.settled()
          assert.deepEqual(attempts(job.record), [1, 2, 3, 4])
          const [failure, ...more] = job.record.failures
          assert.deepEqual(more, [])
          assert.deepEqual(failure?.payload, { job_id: 'j1' })
          assert.match(failure.fault.message, /RangeError/)
          assert(!failure.fault.message.includes(SECRET), 'the text of the fault is told')
        },
      )
    },
  },
  {
    name: 'a job without retries is tried once',
    async run(make) {
      const job = recorded({
        retries: 0,
        work() {
          throw new Error(SECRET)
        },
      })
      await EngineStage.play(
        make,
        (stage) => ({ jobs: { settle: job.of(stage) } }),
        async (stage) => {
          await stage.engine.enqueue('settle', 1)
          await stage.until('the failure is told', () => job.record.failures.length > 0)
          assert.deepEqual(attempts(job.record), [1])
        },
      )
    },
  },
  {
    name: 'two jobs with one id are one, also when the first is done; without ids they are two',
    async run(make) {
      const job = recorded()
      const payloads = (): JsonValue[] => job.record.tries.map(({ payload }) => payload)
      await EngineStage.play(
        make,
        (stage) => ({ jobs: { settle: job.of(stage) } }),
        async (stage) => {
          const last = stage.scene.engines.at(-1) ?? stage.engine
          await stage.engine.enqueue('settle', 'first', { id: 'event:1' })
          await last.enqueue('settle', 'second', { id: 'event:1' })
          await stage.until('one runs', () => payloads().includes('first'))
          await last.enqueue('settle', 'third', { id: 'event:1' })
          await stage.engine.enqueue('settle', 'other', { id: 'event:2' })
          await stage.engine.enqueue('settle', 'plain')
          await stage.engine.enqueue('settle', 'plain')
          await stage.until('the others run', () => payloads().length >= 4)
          await stage.settled()
          assert.deepEqual(
            payloads()
              .map(String)
              .toSorted((a, b) => a.localeCompare(b)),
            ['first', 'other', 'plain', 'plain'],
          )
        },
      )
    },
  },
  {
    name: 'a job for later runs then, and not before',
    async run(make) {
      const job = recorded()
      await EngineStage.play(
        make,
        (stage) => ({ jobs: { settle: job.of(stage) } }),
        async (stage) => {
          const at = new Date(stage.scene.now().getTime() + 2000)
          await stage.engine.enqueue('settle', null, { at })
          await stage.until('the job runs', () => job.record.tries.length > 0)
          assert((job.record.tries[0]?.at ?? new Date(0)) >= at, 'it ran before its time')
        },
      )
    },
  },
  {
    name: 'a job that fails holds no other up',
    async run(make) {
      const job = recorded({
        work(payload) {
          if (payload === 'bad') throw new Error(SECRET)
        },
      })
      await EngineStage.play(
        make,
        (stage) => ({ jobs: { settle: job.of(stage) } }),
        async (stage) => {
          await stage.engine.enqueue('settle', 'bad')
          for (let index = 0; index < 6; index += 1) await stage.engine.enqueue('settle', index)
          const done = (): number => job.record.tries.filter(({ payload }) => payload !== 'bad').length
          await stage.until('the others run', () => done() === 6)
        },
      )
    },
  },
  {
    name: 'a job that nobody has is refused where it is asked for, an inherited name too',
    async run(make) {
      await EngineStage.play(
        make,
        () => ({}),
        async (stage) => {
          for (const name of ['settle', 'constructor'])
            await assert.rejects(stage.engine.enqueue(name, null), EngineWorkError)
        },
      )
    },
  },
  {
    name: 'work that no engine could do is refused at the start, every fault of it named',
    async run(make) {
      const job = recorded({ retries: 21 })
      const stage = new EngineStage(await make())
      const cron = { name: 'hourly', every: '61 * * * *', run: () => Promise.resolve() }
      try {
        await assert.rejects(
          stage.engine.start({
            advance: () => Promise.resolve({ kind: 'idle' }),
            sweep: () => Promise.resolve([]),
            look: () => Promise.resolve(null),
            gaveUp: () => Promise.resolve(),
            jobs: { 'Not a name': job.of(stage) },
            crons: [cron, { ...cron, every: 60 }],
          }),
          (error) =>
            error instanceof EngineWorkError &&
            ['Not a name', 'retries', '61', 'two crons'].every((text) => error.message.includes(text)),
        )
      } finally {
        await stage.scene.close()
      }
    },
  },
]
