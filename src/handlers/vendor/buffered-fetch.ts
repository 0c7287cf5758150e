import { VendorError } from './vendor-error.ts'

export interface BufferedFetchOptions {
  readonly vendor: string
  /** Milliseconds for the whole request, its body included. */
  readonly timeoutMs: number
  /** Ends the request as well; of the call it belongs to. */
  readonly signal: AbortSignal
  /** Bytes of an answer; 4 MiB unless given. */
  readonly maxBytes?: number
}

/** Larger than any documented answer of the vendors here, and small enough to hold a few of in memory. */
const MAX_BYTES = 4 * 1024 * 1024

/**
 * A `fetch` for vendor SDKs that take one. It resolves when the *whole* body is here, so that one deadline covers both
 * (several SDKs stop their clock when the headers arrive), follows no redirect (some send the key along to wherever it
 * points), and holds no answer that is larger than expected.
 *
 * @throws VendorError `timeout`, `transport`, `redirected`, or `decode` for an answer over the size
 */
export function bufferedFetch(options: BufferedFetchOptions): typeof globalThis.fetch {
  const { vendor, timeoutMs, signal, maxBytes = MAX_BYTES } = options
  return async (input, init) => {
    const clock = AbortSignal.timeout(timeoutMs)
    const given = init?.signal ?? null
    const signals = given === null ? [clock, signal] : [clock, signal, given]
    try {
      const response = await fetch(input, { ...init, redirect: 'manual', signal: AbortSignal.any(signals) })
      if (response.status >= 300 && response.status < 400 && response.status !== 304) {
        await response.body?.cancel()
        throw new VendorError({ vendor, trouble: 'redirected', status: response.status })
      }
      const body = await readBody(response, { vendor, maxBytes })
      const { status, statusText, headers } = response
      // A status that allows no body refuses even an empty one.
      return new Response(body.length === 0 ? null : body, { status, statusText, headers: bufferedHeaders(headers) })
    } catch (cause) {
      if (cause instanceof VendorError) throw cause
      // The call's own end, by its deadline or by a cancel, is not the vendor's doing.
      signal.throwIfAborted()
      throw new VendorError({ vendor, trouble: clock.aborted ? 'timeout' : 'transport', cause })
    }
  }
}

/** The body is decoded by now: what described its transport no longer fits. */
function bufferedHeaders(headers: Headers): Headers {
  const kept = new Headers(headers)
  for (const name of ['content-encoding', 'content-length', 'transfer-encoding']) kept.delete(name)
  return kept
}

async function readBody(
  response: Response,
  { vendor, maxBytes }: { readonly vendor: string; readonly maxBytes: number },
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength
    if (size > maxBytes) throw new VendorError({ vendor, trouble: 'decode', status: response.status })
    chunks.push(chunk)
  }
  return new Uint8Array(Buffer.concat(chunks, size))
}

/** Milliseconds of a `Retry-After` header in either of its forms; null when there is none or it says nothing. */
export function retryAfterMs(header: string | null | undefined, now: number = Date.now()): number | null {
  if (header === null || header === undefined) return null
  const text = header.trim()
  if (/^\d{1,6}$/.test(text)) return Number(text) * 1000
  const at = /[a-z]/i.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(at) ? null : Math.max(0, at - now)
}
