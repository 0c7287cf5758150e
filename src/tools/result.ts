import { ERROR_CODES, type ErrorCode } from './errors.ts'
import type { StoredResponse } from './invoker.ts'
import type { ToolResult, ToolStop } from './models.ts'
import { plainText } from './plain-text.ts'

/** What a refusal or a failure says. Only the invoker builds one; a handler raises. */
export interface Failure {
  readonly code: ErrorCode
  readonly message: string
  readonly stop: ToolStop | null
}

const MAX_MESSAGE = 1_000

export function failure({ code, message, stop }: Failure): ToolResult {
  return {
    ok: false,
    data: null,
    error: { code, message: plainText(message).slice(0, MAX_MESSAGE), retryable: ERROR_CODES[code].retryable },
    meta: { truncated: false, untrusted: false, ...(stop === 'budget_exhausted' ? { partialReason: 'budget_exhausted' } : {}) },
    stop,
  }
}

/** A stored answer, told as the replay it is: the effect happened then, not now. */
export function replayed({ result, completedAt }: StoredResponse): ToolResult {
  return { ...result, meta: { ...result.meta, replayedFrom: completedAt.toISOString() } }
}

/** The answer of a call that a person knows to have arrived although its own answer was lost. */
export function emptySuccess(): ToolResult {
  return { ok: true, data: null, error: null, meta: { truncated: false, untrusted: false }, stop: null }
}
