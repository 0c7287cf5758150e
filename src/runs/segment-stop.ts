import { CancelRequested, ReadHeld } from '../tools/invoker.ts'
import type { ToolResult } from '../tools/models.ts'
import type { SegmentStop, StopSlot } from './session.ts'

/** The first stop wins: a refusal that follows from it must not rename the reason the run ends for. */
export function stopSlot(): StopSlot {
  let current: SegmentStop | null = null
  return {
    get current() {
      return current
    },
    record(stop) {
      current ??= stop
    },
  }
}

/**
 * What a run does about a refusal the invoker marked. Read by the drain loop and by the reads inside a framework's loop
 * alike, so that one refusal ends one run one way. The code is never read: a remote tool may answer `budget_exhausted`
 * about a vendor's budget.
 */
export function stopOfResult(result: ToolResult): SegmentStop | null {
  switch (result.stop) {
    case null:
      return null
    case 'budget_exhausted':
      return { kind: 'ceiling', reason: 'budget_exhausted' }
    case 'fault':
      return {
        kind: 'failed',
        code: result.error?.code ?? 'internal_error',
        message: result.error?.message ?? '',
        error: null,
      }
  }
}

/** What a segment does about an exception of a read. A framework would hand each of these to the model as a text. */
export function stopOfError(error: unknown): SegmentStop {
  if (error instanceof CancelRequested) return { kind: 'cancelled', reason: error.reason }
  if (error instanceof ReadHeld)
    return { kind: 'failed', code: 'read_tool_needs_approval', message: error.message, error: null }
  return { kind: 'failed', code: 'internal_error', message: 'a platform fault ended the segment', error }
}
