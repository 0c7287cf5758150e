import { checkedAccess, type VendorAccess } from '../vendor/access.ts'
import { bufferedFetch, retryAfterMs } from '../vendor/buffered-fetch.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { firecrawlError } from './firecrawl-trouble.ts'

export interface ScrapeRequest {
  readonly url: string
  /** Milliseconds of the whole request. */
  readonly timeoutMs: number
  /** Milliseconds that a page out of the vendor's cache may be old; 0 reads it anew. */
  readonly maxAgeMs: number
  readonly signal: AbortSignal
}

export interface FirecrawlClient {
  /**
   * One request, whose document is answered as the vendor sent it.
   * @throws VendorError
   */
  scrape(request: ScrapeRequest): Promise<unknown>
}

/** Milliseconds the vendor gets less than we wait, so that it is the one who gives up and says so. */
const HEAD_START_MS = 5_000
/** Milliseconds, the least the vendor takes. */
const LEAST_TIMEOUT_MS = 1_000
/** A long page as text is a few megabytes. */
const MAX_PAGE_BYTES = 16 * 1024 * 1024

/**
 * The official SDK over a transport of our own. By itself the SDK follows redirects with the page's address in its body,
 * reads proxies from the environment, keeps an answer of any size, hides how long to wait, takes no signal, and waits
 * for an answer as long as its clock and not the call's says; all of that is decided in its transport, which its
 * constructor does not offer. What it offers and what would ask twice is switched off.
 *
 * @throws Error for a key or an address no request should be made with
 */
export function firecrawlClient(given: VendorAccess): FirecrawlClient {
  const { apiKey, baseUrl: apiUrl } = checkedAccess('firecrawl', given)
  return {
    async scrape({ url, timeoutMs, maxAgeMs, signal }) {
      // Loaded with the first page: the SDK is an optional dependency of the package.
      const { FirecrawlClient: Sdk, SdkError } = await import('firecrawl')
      // `maxRetries` counts attempts; with 0 the SDK sends nothing at all.
      const sdk = new Sdk({ apiKey, apiUrl, maxRetries: 1, timeoutMs })
      const transport = ownTransport({ timeoutMs, signal })
      install(sdk, transport)
      try {
        const document: unknown = await sdk.scrape(url, scrapeOptions({ timeoutMs, maxAgeMs }))
        if (!transport.used) throw new Error('firecrawl: the SDK asked over a transport of its own; use version 4.42')
        return document
      } catch (error) {
        throw error instanceof SdkError ? firecrawlError(error, transport.retryAfterMs) : error
      }
    },
  }
}

/** Every option that costs or that a page could gain something by is written out; none comes from a model's arguments. */
function scrapeOptions({ timeoutMs, maxAgeMs }: Pick<ScrapeRequest, 'timeoutMs' | 'maxAgeMs'>) {
  return {
    formats: ['markdown' as const],
    onlyMainContent: true,
    removeBase64Images: true,
    // Each page of a PDF is a credit; without a parser a PDF comes as its bytes, for one.
    parsers: [],
    proxy: 'basic' as const,
    maxAge: maxAgeMs,
    timeout: Math.max(LEAST_TIMEOUT_MS, timeoutMs - HEAD_START_MS),
    skipTlsVerification: false,
    // On, it would ask again for up to twenty minutes.
    autoResume: false,
  }
}

/** What the SDK hands its transport, as far as it is used. */
interface SdkRequest {
  readonly baseURL: string
  readonly url: string
  readonly method: string
  readonly headers: { toJSON(): Record<string, string> }
  readonly data: string
}

interface OwnTransport {
  (request: SdkRequest): Promise<unknown>
  used: boolean
  /** Of the answer. */
  retryAfterMs: number | null
}

function ownTransport({ timeoutMs, signal }: Pick<ScrapeRequest, 'timeoutMs' | 'signal'>): OwnTransport {
  const transport: OwnTransport = Object.assign(
    async (config: SdkRequest) => {
      transport.used = true
      const send = bufferedFetch({ vendor: 'firecrawl', timeoutMs, signal, maxBytes: MAX_PAGE_BYTES })
      const { method, data: body } = config
      const response = await send(`${config.baseURL}${config.url}`, {
        method: method.toUpperCase(),
        headers: config.headers.toJSON(),
        body,
      }).catch(tooLargeIsRefused)
      transport.retryAfterMs = retryAfterMs(response.headers.get('retry-after'))
      const { status, statusText } = response
      // The SDK itself tells a success from a failure.
      return { data: await response.text(), status, statusText, headers: {}, config, request: null }
    },
    { used: false, retryAfterMs: null },
  )
  return transport
}

/** Its size is the page's doing: a page somebody made enormous must not end a run. */
function tooLargeIsRefused(error: unknown): never {
  if (!(error instanceof VendorError) || error.trouble !== 'decode') throw error
  throw new VendorError({ vendor: 'firecrawl', trouble: 'refused', status: error.status, cause: error })
}

/** @throws Error before anything is sent, when the SDK is not built as the one this was written for */
function install(sdk: object, adapter: OwnTransport): void {
  const defaults = ['http', 'instance', 'defaults'].reduce<unknown>(
    (holder, name) =>
      (typeof holder === 'object' || typeof holder === 'function') && holder !== null
        ? Reflect.get(holder, name)
        : undefined,
    sdk,
  )
  if (typeof defaults !== 'object' || defaults === null || !('adapter' in defaults)) {
    throw new Error('firecrawl: this version of the SDK takes no transport; use version 4.42')
  }
  defaults.adapter = adapter
}
