/** What each stable code means. Nothing outside this table reaches a model; every property of a code is derived from its row. */
interface CodeRow {
  /** HTTP status when the code leaves through the API. */
  readonly status: number
  /** Whether the same call may succeed if it is made again. */
  readonly retryable: boolean
  /** Problem title, for a person. */
  readonly title: string
}

export const ERROR_CODES = {
  denied: { status: 403, retryable: false, title: 'Refused by policy' },
  rejected: { status: 403, retryable: false, title: 'Rejected by a person' },
  not_found: { status: 404, retryable: false, title: 'Not found' },
  invalid_input: { status: 422, retryable: false, title: 'Invalid input' },
  invalid_output: { status: 502, retryable: false, title: 'The tool answered off its contract' },
  conflict: { status: 409, retryable: false, title: 'Conflict' },
  internal_error: { status: 500, retryable: false, title: 'Internal error' },
  budget_exhausted: { status: 402, retryable: false, title: 'Budget exhausted' },
  batch_too_large: { status: 413, retryable: false, title: 'Batch too large' },
  tool_unavailable: { status: 404, retryable: false, title: 'Tool unavailable' },
  tool_changed: { status: 409, retryable: false, title: 'Tool contract changed' },
  unavailable: { status: 503, retryable: false, title: 'Unavailable' },
  retryable_upstream: { status: 503, retryable: true, title: 'Upstream failed, try again' },
  timeout: { status: 504, retryable: false, title: 'Timed out' },
  connection_required: { status: 424, retryable: false, title: 'Connection required' },
  connection_expired: { status: 424, retryable: false, title: 'Connection expired' },
  connection_revoked: { status: 424, retryable: false, title: 'Connection revoked' },
  connection_ambiguous: { status: 424, retryable: false, title: 'Connection ambiguous' },
} as const satisfies Record<string, CodeRow>

export type ErrorCode = keyof typeof ERROR_CODES

/**
 * Business failures an internal handler may raise. The invoker turns them into values by *exact class*: a wrapper or a
 * subclass is a platform fault, because a base class caught by `instanceof` would hide a database outage from the run.
 */
export class NotFoundError extends Error {
  override readonly name = 'NotFoundError'
}
export class ValidationError extends Error {
  override readonly name = 'ValidationError'
}
export class ConflictError extends Error {
  override readonly name = 'ConflictError'
}

/** A vendor refused for now (429, transport fault, provider timeout) and nothing happened: the claim is released. */
export class RetryableUpstreamError extends Error {
  override readonly name = 'RetryableUpstreamError'
}

/** A vendor cannot do this at all: a stable answer, remembered like any other. */
export class UpstreamUnavailableError extends Error {
  override readonly name = 'UpstreamUnavailableError'
}

/** The answer was lost after the effect may have been committed. The claim is held; nobody knows. */
export class OutcomeUnknownError extends Error {
  override readonly name = 'OutcomeUnknownError'
}

export type ConnectionErrorCode = Extract<ErrorCode, `connection_${string}`>

/** Raised by the connection resolver, after the claim and before the handler. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError'
  readonly code: ConnectionErrorCode
  constructor(code: ConnectionErrorCode, message: string) {
    super(message)
    this.code = code
  }
}
