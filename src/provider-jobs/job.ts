import type { JsonObject, JsonValue } from '../tools/json.ts'

export const JOB_STATES = ['submitted', 'running', 'completed', 'failed', 'cancelled'] as const
export type JobState = (typeof JOB_STATES)[number]
export type EndState = Extract<JobState, 'completed' | 'failed' | 'cancelled'>

/** One piece of work at a vendor, as stored. The row is the truth: whatever is sent about it only wakes somebody. */
export interface ProviderJob {
  /** Ours, derived from the call; what waits, events and tools correlate on. Never the vendor's id. */
  readonly id: string
  readonly organizationId: string
  readonly rootRunId: string
  /** The run that submitted. */
  readonly runId: string
  /** Span of the call that submitted. */
  readonly toolCallId: string
  readonly provider: string
  /** Null while it is not known that the vendor took the job. It may have: a request whose answer was lost is not repeated. */
  readonly providerJobId: string | null
  readonly contactRefs: readonly string[]
  readonly state: JobState
  /** What the vendor answered, or a {@link ResultRef} where that was too large to stand here. */
  readonly result: JsonValue | null
  /** As the vendor reported it. */
  readonly cost: JsonObject | null
  /** Null until the cost is settled. */
  readonly usageId: string | null
  readonly submittedAt: Date
  readonly updatedAt: Date
  readonly terminalAt: Date | null
}

/** A job without what the vendor answered, which is up to 32 KiB and of interest to whoever collects alone. */
export type JobRecord = Omit<ProviderJob, 'result'>

/** A job before anything was asked of the vendor. */
export type NewJob = Pick<
  ProviderJob,
  'id' | 'organizationId' | 'rootRunId' | 'runId' | 'toolCallId' | 'provider' | 'contactRefs'
>

/** Names a job together with whose it is. */
export interface JobKey {
  readonly organizationId: string
  readonly provider: string
  readonly id: string
}

/** The three that a reader tells apart: an end that somebody chose is no failure, and must not be retried like one. */
export function shownState(state: JobState): 'running' | EndState {
  return state === 'submitted' ? 'running' : state
}
