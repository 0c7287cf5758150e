import type { ErrorCode } from '../tools/errors.ts'

/**
 * What the invoker saw happen to a call that held a claim, most specific first. `timeout_before` is a deadline that
 * had passed before the handler ran: nothing outside saw the call, although it too is a timeout.
 */
export type Observed =
  | 'ok'
  | 'business_failure'
  | 'invalid_output'
  | 'retryable_upstream'
  | 'unavailable'
  | 'connection'
  | 'timeout_before'
  | 'timeout_during'
  | 'outcome_unknown'
  | 'raised'
  | 'raised_after_handler'

/**
 * `complete` stores the answer, `hold` leaves the claim to its lease because nothing is known. `release` says that this
 * attempt did nothing: the claim is forgotten, unless it was taken over from a worker that may have done something. Then
 * it stays, with its lease over, for the next attempt or for a person.
 */
export type ClaimEnding = 'complete' | 'release' | 'hold'

const ENDINGS: Readonly<Record<Observed, ClaimEnding>> = {
  ok: 'complete',
  business_failure: 'complete',
  invalid_output: 'complete',
  retryable_upstream: 'release',
  unavailable: 'complete',
  connection: 'release',
  timeout_before: 'release',
  timeout_during: 'hold',
  outcome_unknown: 'hold',
  raised: 'release',
  raised_after_handler: 'hold',
}

/** The table of claim endings. A claim is never released after an effect may have happened. */
export function endingOfClaim(observed: Observed): ClaimEnding {
  return ENDINGS[observed]
}

/** What the model reads; null when the segment ends and it reads nothing. `business_failure` and `connection` name their own code. */
export function codeOf(observed: Observed, named: ErrorCode | null): ErrorCode | null {
  switch (observed) {
    case 'ok':
    case 'raised':
    case 'raised_after_handler':
      return null
    case 'business_failure':
    case 'connection':
      return named
    case 'invalid_output':
    case 'retryable_upstream':
    case 'unavailable':
      return observed
    case 'timeout_before':
    case 'timeout_during':
    case 'outcome_unknown':
      return 'timeout'
  }
}
