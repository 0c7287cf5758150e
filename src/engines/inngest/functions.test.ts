import { InngestTestEngine } from '@inngest/test'
import { Inngest } from 'inngest'
import { expect, test } from 'vitest'
import type { EngineWork } from '../../runs/engine.ts'
import type { AdvanceOutcome } from '../../runs/executor.ts'
import { segmentSlots } from '../../runs/segment-slots.ts'
import { advanceRun } from './advance-run.ts'
import { sweepFunction } from './clock.ts'
import { wakeEvent } from './events.ts'
import { jobFunctions } from './jobs.ts'

/*
 * With Inngest's own test engine, as far as it goes: it cannot answer `waitForEvent`, retries nothing and runs no failure
 * function. Those are in test/inngest/, against the served handler.
 */

const SILENT = { info: () => undefined, warn: () => undefined, error: () => undefined }
const client = new Inngest({
  id: 'bailiff',
  isDev: true,
  checkpointing: false,
  aiMetadata: false,
  logger: { ...SILENT, debug: () => undefined },
})
const events: [ReturnType<typeof wakeEvent>] = [wakeEvent({ runId: 'r', organizationId: 'acme', lane: 'batch' })]

const working = (work: Partial<EngineWork>): EngineWork => ({
  advance: () => Promise.resolve({ kind: 'idle' }),
  sweep: () => Promise.resolve([]),
  look: () => Promise.resolve(null),
  gaveUp: () => Promise.resolve(),
  jobs: {},
  crons: [],
  ...work,
})

function advancing(work: Partial<EngineWork>): InngestTestEngine {
  const parts = { client, logger: SILENT, slots: segmentSlots(1), perLane: 1, wake: () => Promise.resolve() }
  return new InngestTestEngine({ function: advanceRun({ ...parts, work: working(work) }), events })
}

test('segments follow each other until the run is idle', async () => {
  const outcomes: AdvanceOutcome[] = [{ kind: 'again' }, { kind: 'again' }, { kind: 'idle' }]
  const advanced: string[] = []
  const { result } = await advancing({
    async advance(runId) {
      advanced.push(runId)
      return outcomes[advanced.length - 1] ?? { kind: 'idle' }
    },
  }).execute()
  expect(result).toEqual({ rounds: 3 })
  expect(advanced).toEqual(['r', 'r', 'r'])
})

test('a run that waits is waited for by its own wake-up, until its time', async () => {
  const until = new Date('2026-03-01T13:00:00.000Z')
  const engine = advancing({
    advance: () => Promise.resolve({ kind: 'at', at: until }),
    look: () => Promise.resolve({ organizationId: 'acme', lane: 'batch', waitsUntil: until }),
  })
  await expect(engine.executeStep('wait-1.1')).resolves.toMatchObject({
    step: {
      op: 'WaitForEvent',
      name: 'platform/agentic.run.wake.v1',
      opts: { timeout: until.toISOString(), if: 'async.data.data.runId == event.data.data.runId' },
    },
  })
})

test('a run that is idle and waits for a later try is waited for as well', async () => {
  const until = new Date('2026-03-01T13:00:00.000Z')
  const engine = advancing({
    look: () => Promise.resolve({ organizationId: 'acme', lane: 'batch', waitsUntil: until }),
  })
  await expect(engine.executeStep('wait-1.1')).resolves.toMatchObject({ step: { op: 'WaitForEvent' } })
})

test('a fault leaves as its kind', async () => {
  const { error } = await advancing({
    advance: () => Promise.reject(new TypeError('password=hunter2')),
  }).execute()
  expect(JSON.stringify(error)).toContain('TypeError; the log has the details')
  expect(JSON.stringify(error)).not.toContain('hunter2')
})

test('a sweep wakes what is due', async () => {
  const woken: string[] = []
  const sweep = sweepFunction({
    client,
    logger: SILENT,
    work: working({ sweep: () => Promise.resolve(['a', 'b']) }),
    wakeAll: async (runIds) => void woken.push(...runIds),
  })
  const { result } = await new InngestTestEngine({ function: sweep }).execute()
  expect(result).toBe(2)
  expect(woken).toEqual(['a', 'b'])
})

test('a job reads its payload from the envelope', async () => {
  const ran: unknown[] = []
  const [settle] = jobFunctions({
    client,
    logger: SILENT,
    work: working({
      jobs: {
        settle: {
          retries: 3,
          run: async (payload, attempt) => void ran.push([payload, attempt]),
          onFinalFailure: () => Promise.resolve(),
        },
      },
    }),
  })
  if (settle === undefined) throw new Error('no function')
  const event = { name: 'platform/agentic.job.settle.v1', data: { data: { job_id: 'j1' } } }
  await new InngestTestEngine({ function: settle, events: [event] }).execute()
  expect(ran).toEqual([[{ job_id: 'j1' }, 1]])
})
