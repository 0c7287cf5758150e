import type { Parallel } from 'parallel-web'
import { z } from 'zod'
import type { VendorAccess } from '../vendor/access.ts'
import { bufferedFetch, retryAfterMs } from '../vendor/buffered-fetch.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { troubleOfStatus } from './status-trouble.ts'

export const PARALLEL = 'parallel'

export interface ParallelAttempt {
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * One request through the official SDK, whatever it is for.
 * @throws VendorError
 */
export async function askParallel<T>(
  { access, attempt }: { readonly access: VendorAccess; readonly attempt: ParallelAttempt },
  request: (client: Parallel, options: { readonly headers: Readonly<Record<string, string>> }) => Promise<T>,
): Promise<T> {
  // Loaded with the first request: the SDK is an optional peer of the package.
  const { Parallel: Client } = await import('parallel-web')
  const transport = keptFailure(bufferedFetch({ vendor: PARALLEL, ...attempt }))
  const client = new Client({
    apiKey: access.apiKey,
    baseURL: access.baseUrl,
    // Two by default, after timeouts too: nothing tells the vendor that it is the same request.
    maxRetries: 0,
    // The transport has the deadline, which covers the body as well; this one is only there not to be the default.
    timeout: attempt.timeoutMs + 1_000,
    logLevel: 'off',
    fetch: transport.fetch,
  })
  try {
    // An environment variable of the SDK can replace every header but those of the request.
    return await request(client, { headers: { 'x-api-key': access.apiKey } })
  } catch (error) {
    // The SDK wraps what a transport throws, and drops it where the text looks like a timeout.
    throw transport.failure() ?? failureOf(error, Client)
  }
}

/** A transport that remembers what it threw. */
function keptFailure(transport: typeof fetch): { readonly fetch: typeof fetch; readonly failure: () => unknown } {
  let failure: unknown
  return {
    failure: () => failure,
    async fetch(input, init) {
      try {
        return await transport(input, init)
      } catch (error) {
        failure = error
        throw error
      }
    },
  }
}

/** The body came whole, so what is no failure of the API is a body that the SDK could not read. */
function failureOf(error: unknown, { APIError }: typeof Parallel): unknown {
  if (error instanceof VendorError) return error
  if (error instanceof SyntaxError) return new VendorError({ vendor: PARALLEL, trouble: 'decode' })
  if (!(error instanceof APIError) || error.status === undefined) return error
  const { status, headers } = error
  return new VendorError({
    vendor: PARALLEL,
    trouble: troubleOfStatus(status),
    status,
    retryAfterMs: retryAfterMs(headers?.get('retry-after')),
    requestId: Refusal.safeParse(error.error).data?.error.ref_id ?? null,
  })
}

const Refusal = z.object({ error: z.object({ ref_id: z.string() }) })
