import type { Segment } from '../run-store.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { StepError, StepRow, StepState, StepWait } from './step.ts'

/** What the boundary between two nodes is decided on. */
export interface Ground {
  readonly cancelled: { readonly reason: string | null } | null
  readonly lanePaused: boolean
  /** Cost of the run tree, in cents. */
  readonly spentCents: number
  /** Cost of the organization's day (UTC) and its ceiling; null where it set none. */
  readonly day: { readonly spentCents: number; readonly maxCents: number } | null
  /** Moves with everything that gives a waiting step a reason to look again. */
  readonly wakeCounter: number
  /** Tool calls of the runs that steps of this one started. */
  readonly childToolCalls: number
}

/** A question that a step asked. */
export interface StepQuestion {
  readonly id: string
  readonly pauseId: string | null
  /** Nobody answered it yet, and there is still time. */
  readonly open: boolean
}

export interface StoredSteps {
  readonly steps: readonly StepRow[]
  readonly questions: readonly StepQuestion[]
}

/** One step as it is from now on. */
export interface StepChange {
  readonly path: string
  readonly node: string
  readonly kind: string
  readonly state: Exclude<StepState, 'skipped'>
  readonly attempt: number
  readonly output: JsonValue
  readonly error: StepError | null
  readonly wait: StepWait | null
  readonly childRunId: string | null
  readonly startedAt: Date
  readonly spanId: string
  readonly parentSpanId: string
}

/** The rows of a workflow run's steps. Written by the segment that owns the run, and by nobody else. */
export interface StepStore {
  load(segment: Segment): Promise<StoredSteps>
  /** The questions alone, which people answer while the segment works. */
  questions(segment: Segment): Promise<readonly StepQuestion[]>
  /**
   * Writes what changed, steps and their spans together, and reads what the next boundary is decided on: one statement.
   * `ownToolCalls` counts the calls of the run itself. @throws SegmentLost
   */
  record(segment: Segment, changes: readonly StepChange[], ownToolCalls: number): Promise<Ground>
}
