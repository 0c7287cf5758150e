import type { SegmentOutcome } from '../drain-loop.ts'
import type { RunEnding } from '../run-store.ts'

/** How one segment of a workflow run ended. */
export type WorkflowOutcome =
  | Extract<SegmentOutcome, { kind: 'cancelled' | 'failed' | 'lane_paused' }>
  /** Nothing to do now; look again then. */
  | { readonly kind: 'waits'; readonly until: Date }
  | { readonly kind: 'ended'; readonly ending: RunEnding }
