import { endingOf } from './run-ending.ts'
import type { BeginOutcome, RunEnding, RunStore } from './run-store.ts'

export type WaitingRun = Extract<BeginOutcome, { kind: 'waiting' }>

interface Ender {
  readonly store: Pick<RunStore, 'fail'>
  readonly now: () => Date
  readonly onChange: (organizationId: string, runId: string) => void
  readonly wake: (runId: string) => Promise<void>
}

/**
 * A run that may not begin can still end: to stop needs no place in a lane, and a paused lane keeps nobody from it. A held
 * run ends by a person's cancel alone, since its time ran while nobody could let it go.
 */
export async function endIfOver(waiting: WaitingRun, { store, now, onChange, wake }: Ender): Promise<void> {
  const ending = endingIfOver(waiting, now())
  if (ending === null) return
  const ended = await store.fail(waiting.run.id, ending)
  if (ended === null) return
  onChange(ended.organizationId, ended.id)
  if (ended.parentRunId !== null) await wake(ended.parentRunId)
}

function endingIfOver({ run, cancel, why }: WaitingRun, now: Date): RunEnding | null {
  if (cancel !== null) return endingOf({ kind: 'cancelled', reason: cancel.reason })
  if (why !== 'held' && now >= run.deadline) return endingOf({ kind: 'limit_reached', reason: 'max_duration' })
  return null
}
