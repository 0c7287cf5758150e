import { ERROR_CODES } from './errors.ts'
import type { ErrorCode } from './errors.ts'
import type { StoredResponse } from './invoker.ts'
import type { JsonValue } from './json.ts'
import type { ToolResult, ToolResultMeta, ToolStop } from './models.ts'
import { stripInvisible } from './invisible.ts'

/** Characters of an error message a model reads. */
export const MAX_ERROR_MESSAGE = 1000

export interface Failure {
  readonly code: ErrorCode
  readonly message: string
  readonly stop: ToolStop | null
  /** Set when the message quotes text from outside. */
  readonly untrusted?: boolean
}

/** A refusal or failure as a value. Whether a retry helps is a property of the code, never a caller's choice. */
export function failure({ code, message, stop, untrusted = false }: Failure): ToolResult {
  const { retryable, title } = ERROR_CODES[code]
  const said = clipMessage(message)
  return {
    ok: false,
    data: null,
    error: { code, message: said === '' ? title : said, retryable },
    meta: { truncated: false, untrusted, ...(stop === 'budget_exhausted' ? { partialReason: stop } : {}) },
    stop,
  }
}

export function success(data: JsonValue, meta: ToolResultMeta): ToolResult {
  return { ok: true, data, error: null, meta, stop: null }
}

/** What a person's "it arrived" stands for: the effect happened, and its answer is lost. */
export function emptySuccess(): ToolResult {
  return success(null, { truncated: false, untrusted: false })
}

/**
 * Stands for a journalled answer that was erased with the person it was about. The call was made and is not made again; a
 * conflict is what a model takes for settled, where a code that something is unavailable would send it looking for another
 * way to the same effect.
 */
export function erasedAnswer(): ToolResult {
  return failure({
    code: 'conflict',
    message:
      'this call was already made; what it answered has been erased, and it is not made again. Do not try it in another way.',
    stop: null,
  })
}

/** A journalled answer read back: what happened then, marked so that nobody takes it for something that happened now. */
export function replayed({ result, completedAt }: StoredResponse): ToolResult {
  return { ...result, meta: { ...result.meta, replayedFrom: completedAt.toISOString() }, stop: null }
}

function clipMessage(message: string): string {
  const clean = stripInvisible(message.toWellFormed()).trim()
  if (clean.length <= MAX_ERROR_MESSAGE) return clean
  return `${clean
    .slice(0, MAX_ERROR_MESSAGE - 3)
    .toWellFormed()
    .replace(/\ufffd$/, '')}...`
}
