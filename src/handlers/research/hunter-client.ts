import { checkedAccess, type VendorAccess } from '../vendor/access.ts'
import { bufferedFetch, retryAfterMs } from '../vendor/buffered-fetch.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { hunterComplaint, hunterError } from './hunter-trouble.ts'

export interface HunterRequest {
  readonly path: '/email-finder' | '/companies/find'
  readonly query: Readonly<Record<string, string>>
  /** Milliseconds of the whole request. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** `missing` is the vendor saying that it knows nothing, and never a failure. */
export type HunterAnswer = { readonly kind: 'answered'; readonly data: unknown } | { readonly kind: 'missing' }

/** Asks Hunter. A deployment may bring a client of its own; tools refuse one that makes its answers up. */
export interface HunterClient {
  /** Set on a client that reaches no vendor. */
  readonly dryRun?: boolean
  /**
   * One request. Strict: whatever is neither an answer nor a miss raises, a wrong request and an unreadable body too.
   * @throws VendorError
   */
  get(request: HunterRequest): Promise<HunterAnswer>
}

/**
 * A client of the public API, which has no official SDK. The key goes in a header: addresses end up in logs.
 *
 * @throws Error for a key or an address no request should be made with
 */
export function hunterClient(given: VendorAccess): HunterClient {
  const { apiKey, baseUrl } = checkedAccess('hunter', given)
  return {
    async get({ path, query, timeoutMs, signal }) {
      const send = bufferedFetch({ vendor: 'hunter', timeoutMs, signal })
      const response = await send(`${baseUrl}${path}?${new URLSearchParams(query).toString()}`, {
        headers: { accept: 'application/json', 'x-api-key': apiKey },
      })
      const { status } = response
      const body = jsonOf(await response.text())
      if (status === 200) return { kind: 'answered', data: dataOf(body) }
      // A 404 of something else on the way, or of a wrong base URL, must not read as "nobody knows this person".
      if (status === 404 && hunterComplaint(body) !== null) return { kind: 'missing' }
      throw hunterError({ status, body, retryAfterMs: retryAfterMs(response.headers.get('retry-after')) })
    },
  }
}

/** @throws VendorError `decode` for a success without a readable envelope */
function dataOf(body: unknown): unknown {
  if (typeof body === 'object' && body !== null && 'data' in body) return body.data
  throw new VendorError({ vendor: 'hunter', trouble: 'decode', status: 200 })
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}
