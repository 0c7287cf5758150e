import { setTimeout as pause } from 'node:timers/promises'
import { VendorError, raisedByRead } from './vendor-error.ts'

/** How often and how long one tool call may ask its vendor. All of it fits into the tool's timeout. */
export interface RetryBudget {
  /** Requests in all. */
  readonly attempts: number
  /** Milliseconds of one request, its body included. */
  readonly attemptMs: number
  /** Milliseconds between two requests, unless the vendor asks for more. */
  readonly backoffMs: number
  /** Milliseconds of the longest pause; a vendor that asks for a longer one is not asked again in this call. */
  readonly maxPauseMs: number
}

/** Milliseconds a call can take when everything goes as slowly as the budget lets it. */
export function worstCaseMs({ attempts, attemptMs, maxPauseMs }: RetryBudget): number {
  return attempts * attemptMs + (attempts - 1) * maxPauseMs
}

/** Milliseconds a handler may take beside its requests: reading the answer and writing the usage row. */
export const HANDLER_MARGIN_MS = 2_000

/** Seconds to declare as the timeout of a tool with this budget. */
export function timeoutFor(budget: RetryBudget): number {
  return Math.ceil((worstCaseMs(budget) + HANDLER_MARGIN_MS) / 1000)
}

/**
 * Asks a vendor for something that is only read. A request is repeated only when the vendor said that it did nothing
 * (429, 503): no search or scrape endpoint takes an idempotency key, and a request whose answer was lost may be charged.
 *
 * @throws RetryableUpstreamError the budget is used up, or the outcome of a request is unknown
 * @throws UpstreamUnavailableError the vendor will not do this
 * @throws VendorError an operator has to act
 */
export async function readFromVendor<T>(
  request: (attempt: { readonly timeoutMs: number; readonly signal: AbortSignal }) => Promise<T>,
  { budget, signal }: { readonly budget: RetryBudget; readonly signal: AbortSignal },
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await request({ timeoutMs: budget.attemptMs, signal })
    } catch (error) {
      if (!(error instanceof VendorError)) throw error
      const waitMs = error.retryAfterMs ?? budget.backoffMs * attempt
      const again = REFUSED_FOR_NOW.has(error.trouble) && attempt < budget.attempts && waitMs <= budget.maxPauseMs
      if (!again) throw raisedByRead(error)
      await pause(waitMs, undefined, { signal })
    }
  }
}

const REFUSED_FOR_NOW: ReadonlySet<VendorError['trouble']> = new Set(['rate_limited', 'overloaded'])
