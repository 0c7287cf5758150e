import type { SegmentOutcome } from './drain-loop.ts'
import type { RunEnding } from './run-store.ts'
import type { WorkflowOutcome } from './workflow/outcome.ts'

/** An outcome that ends the run, rather than parking it. */
export type FinalOutcome = Exclude<
  SegmentOutcome | WorkflowOutcome,
  { kind: 'needs_approval' | 'in_flight' | 'lane_paused' | 'waits' }
>

/** What an outcome writes on the run. A ceiling is not a failure: the run keeps what it has done. */
export function endingOf(outcome: FinalOutcome): RunEnding {
  switch (outcome.kind) {
    case 'ended':
      return outcome.ending
    case 'completed':
      return { status: 'completed', reason: null, message: null, output: outcome.text }
    case 'cancelled':
      return { status: 'cancelled', reason: 'cancelled', message: outcome.reason, output: null }
    case 'partial':
      return {
        status: 'partial',
        reason: outcome.reason,
        message: 'the run stopped with the work it had done',
        output: null,
      }
    case 'limit_reached':
      return { status: 'partial', reason: outcome.reason, message: 'the run reached a ceiling', output: null }
    case 'failed':
      return { status: 'failed', reason: outcome.code, message: outcome.message, output: null }
  }
}
