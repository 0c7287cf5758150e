import type { Parallel } from 'parallel-web'
import { z } from 'zod'
import type { VendorAccess } from '../vendor/access.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { askParallel, PARALLEL, type ParallelAttempt } from './parallel-sdk.ts'

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

/**
 * One search, one request.
 * @throws VendorError
 */
export async function searchParallel(
  search: ParallelSearch,
  to: { readonly access: VendorAccess; readonly attempt: ParallelAttempt },
): Promise<ParallelAnswer> {
  return askParallel(to, async (client, options) => readable(await client.search(bodyOf(search), options)))
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

function readable(body: unknown): ParallelAnswer {
  const { data, error } = Answer.safeParse(body)
  if (data === undefined) throw new VendorError({ vendor: PARALLEL, trouble: 'decode', cause: error })
  return { results: data.results, usage: data.usage ?? null }
}
