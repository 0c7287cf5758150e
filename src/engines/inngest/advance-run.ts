import type { GetStepTools, Inngest, InngestFunction } from 'inngest'
import { NonRetriableError } from 'inngest'
import { ADVANCE_TRIES } from '../../runs/engine-work.ts'
import type { SegmentSlots } from '../../runs/segment-slots.ts'
import { dataOf, RUN_WAKE, RUN_WAKE_LATER, wakeOf } from './events.ts'
import { keepingFaults, lastFault, type FunctionParts } from './function-parts.ts'

export interface AdvanceRunParts extends FunctionParts {
  readonly slots: SegmentSlots
  readonly perLane: number
  readonly wake: (runId: string) => Promise<void>
}

type Step = GetStepTools<Inngest>

/** Inngest ends a function run at a thousand steps. A round takes three, and two for each time its wait was over too early. */
const MAX_ROUNDS = 100
/** Doublings of a second: an hour. */
const MAX_DOUBLINGS = 12

/**
 * One wake-up: segments until the run is idle or waits. While it waits, a newer wake-up ends this function run, since it
 * has started one of its own; so a run is waited for once. Whatever happens here twice, the run's row decides.
 */
export function advanceRun(parts: AdvanceRunParts): InngestFunction.Any {
  const { client, work, wake, perLane } = parts
  return client.createFunction(
    {
      id: 'advance-run',
      name: 'Advance a run',
      triggers: [{ event: RUN_WAKE }, { event: RUN_WAKE_LATER }],
      concurrency: [
        { key: 'event.data.data.runId', limit: 1 },
        { key: 'event.data.data.organizationId + "/" + event.data.data.lane', limit: perLane },
      ],
      retries: (ADVANCE_TRIES - 1) as 4,
      checkpointing: false,
      async onFailure({ event, error }) {
        const failed = wakeOf(event.data.event)
        if (failed !== null) await work.gaveUp(failed.runId, lastFault(error))
      },
    },
    async ({ event, step }) => {
      const wakeUp = wakeOf(event)
      if (wakeUp === null) throw new NonRetriableError(`not a wake-up: ${typeof dataOf(event)}`)
      const { runId, at } = wakeUp
      if (at !== undefined) await step.sleepUntil('at', new Date(at))
      for (let round = 1; round <= MAX_ROUNDS; round += 1) {
        const outcome = await step.run(`advance-${round}`, () => oneSegment(parts, runId))
        if (outcome === 'idle') return { rounds: round }
        if (outcome === 'at' && (await waitOut(parts, step, { runId, round })) === 'superseded')
          return { rounds: round, superseded: true }
      }
      await step.run('go-on', () => wake(runId))
      return { rounds: MAX_ROUNDS }
    },
  )
}

async function oneSegment({ work, slots, logger }: AdvanceRunParts, runId: string): Promise<'idle' | 'again' | 'at'> {
  if (!(await slots.enter())) throw new NotServing()
  try {
    return await keepingFaults({ logger, what: { runId } }, async () => {
      const { kind } = await work.advance(runId)
      if (kind !== 'idle') return kind
      // A segment that failed has given the run back with a pause before the next try; the minute's sweep would be late.
      const waitsUntil = (await work.look(runId))?.waitsUntil ?? null
      return waitsUntil === null ? 'idle' : 'at'
    })
  } finally {
    slots.leave()
  }
}

/**
 * Reads the run before it registers the wait and again after the time: an event that was sent before the wait stood, or
 * was lost, is seen in the row. One that says the same time again after that time is read by a clock behind the server's:
 * each further wait for it is twice as long, or a second of difference would use up a thousand steps.
 */
async function waitOut(
  { work, logger }: AdvanceRunParts,
  step: Step,
  { runId, round }: { readonly runId: string; readonly round: number },
): Promise<'due' | 'superseded'> {
  let before: string | null = null
  let repeats = 0
  for (let read = 1; ; read += 1) {
    const until = await step.run(`look-${round}.${read}`, () =>
      keepingFaults(
        { logger, what: { runId } },
        async () => (await work.look(runId))?.waitsUntil?.toISOString() ?? null,
      ),
    )
    if (until === null) return 'due'
    repeats = until === before ? Math.min(repeats + 1, MAX_DOUBLINGS) : 0
    before = until
    const newer = await step.waitForEvent(`wait-${round}.${read}`, {
      event: RUN_WAKE,
      timeout: new Date(Date.parse(until) + (repeats === 0 ? 0 : 1000 * 2 ** repeats)),
      if: 'async.data.data.runId == event.data.data.runId',
    })
    if (newer !== null) return 'superseded'
  }
}

/** This process takes no more work; Inngest asks again. */
class NotServing extends Error {
  override readonly name = 'NotServing'
  constructor() {
    super('NotServing; the log has the details')
  }
}
