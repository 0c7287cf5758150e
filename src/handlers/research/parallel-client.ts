import type { Parallel } from 'parallel-web'
import { z } from 'zod'
import type { VendorAccess } from '../vendor/access.ts'
import { bufferedFetch, retryAfterMs } from '../vendor/buffered-fetch.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { troubleOfStatus } from './status-trouble.ts'

const VENDOR = 'parallel'

/** From cheap and quick to dear and thorough. The API takes the last one when none is named. */
export const PARALLEL_MODES = ['turbo', 'fast', 'basic', 'advanced'] as const
export type ParallelMode = (typeof PARALLEL_MODES)[number]

const Result = z.object({
  url: z.string(),
  title: z.string().nullish(),
  publish_date: z.string().nullish(),
  excerpts: z.array(z.string()).nullish(),
})

const Usage = z.array(z.object({ name: z.string(), count: z.int().nonnegative() }))

const Answer = z.object({
  results: z.array(Result).max(100),
  // What was counted is no part of what was found: counts that cannot be read are unknown, and the answer stands.
  usage: Usage.nullish().catch(null),
})

export type ParallelResult = z.output<typeof Result>
export type ParallelUsage = z.output<typeof Usage>

export interface ParallelAnswer {
  readonly results: readonly ParallelResult[]
  /** Null when the answer does not say. */
  readonly usage: ParallelUsage | null
}

export interface ParallelSearch {
  readonly objective: string
  /** Two or three, of a few words each. */
  readonly queries: readonly string[]
  readonly mode: ParallelMode
  readonly maxResults: number
  /** Characters of all excerpts together. */
  readonly maxChars: number
  /** ISO 3166-1 alpha-2; the whole world when null. */
  readonly country: string | null
}

interface Attempt {
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * One search, one request.
 * @throws VendorError
 */
export async function searchParallel(
  search: ParallelSearch,
  { access, attempt }: { readonly access: VendorAccess; readonly attempt: Attempt },
): Promise<ParallelAnswer> {
  // Loaded with the first search: the SDK is an optional peer of the package.
  const { Parallel: Client } = await import('parallel-web')
  const transport = keptFailure(bufferedFetch({ vendor: VENDOR, ...attempt }))
  const client = new Client({
    apiKey: access.apiKey,
    baseURL: access.baseUrl,
    // Two by default, after timeouts too: nothing tells the vendor that it is the same search.
    maxRetries: 0,
    // The transport has the deadline, which covers the body as well; this one is only there not to be the default.
    timeout: attempt.timeoutMs + 1_000,
    logLevel: 'off',
    fetch: transport.fetch,
  })
  // An environment variable of the SDK can replace every header but those of the request.
  const headers = { 'x-api-key': access.apiKey }
  try {
    return readable(await client.search(bodyOf(search), { headers }))
  } catch (error) {
    // The SDK wraps what a transport throws, and drops it where the text looks like a timeout.
    throw transport.failure() ?? failureOf(error, Client)
  }
}

function bodyOf({ objective, queries, mode, maxResults, maxChars, country }: ParallelSearch): Parallel.SearchParams {
  return {
    objective,
    search_queries: [...queries],
    mode,
    max_chars_total: maxChars,
    advanced_settings: { max_results: maxResults, ...(country === null ? {} : { location: country.toLowerCase() }) },
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
  if (error instanceof SyntaxError) return new VendorError({ vendor: VENDOR, trouble: 'decode' })
  if (!(error instanceof APIError) || error.status === undefined) return error
  const { status, headers } = error
  return new VendorError({
    vendor: VENDOR,
    trouble: troubleOfStatus(status),
    status,
    retryAfterMs: retryAfterMs(headers?.get('retry-after')),
    requestId: Refusal.safeParse(error.error).data?.error.ref_id ?? null,
  })
}

const Refusal = z.object({ error: z.object({ ref_id: z.string() }) })

function readable(body: unknown): ParallelAnswer {
  const { data, error } = Answer.safeParse(body)
  if (data === undefined) throw new VendorError({ vendor: VENDOR, trouble: 'decode', cause: error })
  return { results: data.results, usage: data.usage ?? null }
}
