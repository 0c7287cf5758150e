import type { Actor } from '../../tools/invocation.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { Segment } from '../run-store.ts'

export interface NewSignal {
  readonly id: string
  readonly organizationId: string
  readonly runId: string
  readonly name: string
  readonly payload: JsonValue
  readonly by: Actor
}

/** Signals sent to runs. The row is the truth: one that comes before anybody waits is found by the wait. */
export interface SignalStore {
  /** Keeps the signal and wakes the run, together; false when the run has ended. */
  send(signal: NewSignal): Promise<boolean>
  /** Takes the oldest open signal of a name for a step, or the one it took before; null when there is none. @throws SegmentLost */
  take(segment: Segment, name: string, path: string): Promise<{ readonly payload: JsonValue } | null>
}
