import { RetryableUpstreamError, UpstreamUnavailableError } from '../../tools/errors.ts'

/**
 * What became of a request to a vendor, in words that mean the same for all of them.
 *
 * - `rate_limited`, `overloaded`: refused for now, and nothing happened
 * - `transport`, `timeout`, `server`: no usable answer; the vendor may have worked, and may have charged
 * - `refused`: the vendor will not do this, whoever asks and whenever
 * - `authentication`, `payment`, `request`, `decode`, `redirected`: our key, our account, our request, our reading of the
 *   answer or our address of the vendor is wrong
 */
export type VendorTrouble =
  | 'rate_limited'
  | 'overloaded'
  | 'transport'
  | 'timeout'
  | 'server'
  | 'refused'
  | 'authentication'
  | 'payment'
  | 'request'
  | 'decode'
  | 'redirected'

interface VendorErrorParts {
  readonly vendor: string
  readonly trouble: VendorTrouble
  readonly status?: number | null
  /** Milliseconds the vendor asked us to wait. */
  readonly retryAfterMs?: number | null
  /** The vendor's machine code, such as a tag or an error id. Never its text. */
  readonly vendorCode?: string | null | undefined
  /** The vendor's id of the request, for its support. */
  readonly requestId?: string | null | undefined
  /** What the SDK or the network raised. Only its names and codes are kept: SDK errors hold requests, keys included. */
  readonly cause?: unknown
}

/**
 * A request to a vendor that came to nothing. Carries no body, URL, query or key: it may be logged and reported as it is.
 */
export class VendorError extends Error {
  override readonly name = 'VendorError'
  readonly vendor: string
  readonly trouble: VendorTrouble
  readonly status: number | null
  readonly retryAfterMs: number | null
  readonly vendorCode: string | null
  readonly requestId: string | null

  constructor(parts: VendorErrorParts) {
    const { vendor, trouble, status = null, retryAfterMs = null, cause } = parts
    const vendorCode = codeOf(parts.vendorCode)
    const requestId = codeOf(parts.requestId)
    const details = [
      status === null ? '' : `status ${status}`,
      vendorCode ?? '',
      requestId === null ? '' : `request ${requestId}`,
    ]
    const known = details.filter((detail) => detail !== '').join(', ')
    super(
      `${vendor}: ${MEANING[trouble]}${known === '' ? '' : ` (${known})`}`,
      cause === undefined ? {} : { cause: outlineOf(cause) },
    )
    this.vendor = vendor
    this.trouble = trouble
    this.status = status
    this.retryAfterMs = retryAfterMs
    this.vendorCode = vendorCode
    this.requestId = requestId
  }
}

/** For an operator. */
const MEANING: Readonly<Record<VendorTrouble, string>> = {
  rate_limited: 'the rate limit of the account is reached',
  overloaded: 'the vendor takes no more work right now',
  transport: 'the connection failed',
  timeout: 'no answer in time',
  server: 'the vendor failed',
  refused: 'the vendor does not do this',
  authentication: 'the key is not accepted; check the key of this vendor',
  payment: 'the account has no credit left; check its balance and its plan',
  request: 'the request is not accepted; the client and the API disagree',
  decode: 'the answer cannot be read; the client and the API disagree',
  redirected: 'the address answers with a redirect, and a key is never sent on; check the base URL',
}

const NEUTRAL: ReadonlySet<VendorTrouble> = new Set(['rate_limited', 'overloaded', 'transport', 'timeout', 'server'])

/**
 * What a read raises for a trouble. What may pass is retryable, what the vendor refuses is unavailable; a wrong key, an
 * empty account or a client that disagrees with the API is nobody's answer and is raised as it is: a model must not read
 * "nothing found" where an operator has to act.
 */
export function raisedByRead(error: VendorError): Error {
  if (NEUTRAL.has(error.trouble)) return new RetryableUpstreamError(error.message, { cause: error })
  if (error.trouble === 'refused') return new UpstreamUnavailableError(error.message, { cause: error })
  return error
}

/** `TypeError < Error ECONNREFUSED`: what was raised, and what was below it. */
function outlineOf(cause: unknown): string {
  const names: string[] = []
  for (let next: unknown = cause; next instanceof Error && names.length < 4; next = next.cause) {
    const code: unknown = Reflect.get(next, 'code')
    names.push(
      [codeOf(next.name), typeof code === 'string' ? codeOf(code) : null].filter((part) => part !== null).join(' '),
    )
  }
  return names.join(' < ')
}

/** Vendor text in an error is for machines only: short, and nothing a terminal or a log would act on. */
function codeOf(code: string | null | undefined): string | null {
  return typeof code === 'string' && /^[\w.:-]{1,80}$/.test(code) ? code : null
}
