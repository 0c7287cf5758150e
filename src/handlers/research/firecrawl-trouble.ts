import { VendorError, type VendorTrouble } from '../vendor/vendor-error.ts'
import { troubleOfStatus } from './status-trouble.ts'

/** What the SDK's error says of a scrape that came to nothing. */
export interface FirecrawlFailure {
  readonly message: string
  readonly status?: number | undefined
  readonly code?: string | undefined
  readonly details?: unknown
  readonly chargeId?: string | undefined
  /** Set when the account has to accept something before it may go on. */
  readonly requiresAction?: unknown
}

/** Codes about the page and not about us: whoever asks, and with the options used here, gets the same again. */
const UNREADABLE_TARGETS: ReadonlySet<string> = new Set([
  'SCRAPE_DNS_RESOLUTION_ERROR',
  'SCRAPE_DOCUMENT_ANTIBOT_ERROR',
  'SCRAPE_MEDIA_ACCESS_DENIED',
  'SCRAPE_SSL_ERROR',
  'SCRAPE_UNSUPPORTED_FILE_ERROR',
])

/** Codes of a 403 that is about the account. */
const ACCOUNT_CODES: ReadonlySet<string> = new Set(['AGENT_INDEX_ONLY'])

/**
 * Status first, code second. Two things are not what their status says: a name that does not resolve comes as a 200 with
 * `success: false`, and a page nobody can read as a 500.
 *
 * The vendor's sentence is read for one thing, how long to wait, and only when the header does not say it.
 *
 * @param retryAfterMs of the answer's header
 */
export function firecrawlError(failure: FirecrawlFailure, retryAfterMs: number | null): VendorError {
  const { status = null, code = null, chargeId = null } = failure
  return new VendorError({
    vendor: 'firecrawl',
    trouble: troubleOf(failure),
    status,
    retryAfterMs: retryAfterMs ?? waitInText(failure.message),
    vendorCode: code,
    // The one trace of a failure that was charged: its amount is said nowhere, and the vendor's invoice is found by it.
    requestId: chargeId,
  })
}

function troubleOf(failure: FirecrawlFailure): VendorTrouble {
  const { status, code = '' } = failure
  // Asked again, it may be charged again.
  if (failure.chargeId !== undefined && (status === 429 || status === 503)) return 'server'
  if (UNREADABLE_TARGETS.has(code) || code.startsWith('SCRAPE_PDF_')) return 'refused'
  if (status === 403) return isAboutAccount(failure) ? 'authentication' : 'refused'
  if (status === 400 && complainsOfUrl(failure.details)) return 'refused'
  // A success that the SDK did not take for one cannot be read: no JSON, or `success: false` without a code known here.
  return status === undefined ? 'decode' : troubleOfStatus(status)
}

function isAboutAccount({ code = '', requiresAction }: FirecrawlFailure): boolean {
  return ACCOUNT_CODES.has(code) || requiresAction !== undefined
}

/** Every complaint names the field `url`: an address this vendor does not take, such as one without a top-level domain. */
function complainsOfUrl(details: unknown): boolean {
  if (!Array.isArray(details) || details.length === 0) return false
  return details.every((issue: unknown) => {
    const path: unknown = typeof issue === 'object' && issue !== null && 'path' in issue ? issue.path : null
    return Array.isArray(path) && path[0] === 'url'
  })
}

function waitInText(message: string): number | null {
  const seconds = /retry after (\d{1,6})s/.exec(message.slice(0, 500))?.[1]
  return seconds === undefined ? null : Number(seconds) * 1000
}
