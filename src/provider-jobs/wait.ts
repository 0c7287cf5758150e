import { shownState, type EndState, type JobRecord } from './job.ts'
import { isTerminal } from './transition.ts'

/** What a wait for a job is decided on, read from the row. */
export interface JobWaitGround {
  /** Null for a job that there is not, or not for this organization. */
  readonly job: Pick<JobRecord, 'state'> | null
  readonly now: Date
  /** When the wait is over whatever became of the job. */
  readonly until: Date
}

export type JobWaitDecision =
  | { readonly kind: 'ended'; readonly state: EndState }
  | { readonly kind: 'waits'; readonly until: Date }
  | { readonly kind: 'timed_out'; readonly state: 'running' }
  | { readonly kind: 'unknown_job' }

/**
 * Whether a run goes on. Asked before the wait is registered, because the callback may have come since the job was
 * submitted and no event is sent twice; and asked again when the time is over, because an event may have been lost.
 */
export function decideJobWait({ job, now, until }: JobWaitGround): JobWaitDecision {
  if (job === null) return { kind: 'unknown_job' }
  if (isTerminal(job.state)) return { kind: 'ended', state: job.state }
  if (now >= until) return { kind: 'timed_out', state: shownState(job.state) as 'running' }
  return { kind: 'waits', until }
}

/** No wait outlives its run. */
export function jobWaitUntil(request: {
  readonly from: Date
  readonly timeoutS: number
  readonly deadline: Date
}): Date {
  const { from, timeoutS, deadline } = request
  return new Date(Math.min(from.getTime() + timeoutS * 1000, deadline.getTime()))
}
