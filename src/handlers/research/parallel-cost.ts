import type { UsageRecord } from '../../tools/invocation.ts'
import type { VendorPriceBook } from '../../usage/vendor-prices.ts'
import type { ParallelMode, ParallelUsage } from './parallel-client.ts'

interface Charge {
  /** That was asked for: dear and cheap modes are counted under one name. */
  readonly mode: ParallelMode
  /** As the answer says; null when it does not. */
  readonly usage: ParallelUsage | null
  readonly maxResults: number
  readonly prices: VendorPriceBook
}

const SEARCH = 'sku_search'
const EXTRA_RESULTS = 'sku_search_additional_results'

/** Results that one search pays for; each further one is charged. */
const INCLUDED_RESULTS = 10

/**
 * Counts as the answer gives them and, where it gives none, those of the request: one search and the results beyond ten.
 * Something counted that has no price here is kept as `unpriced`, for whoever compares with the invoice.
 */
export function parallelUsage({ mode, usage, maxResults, prices }: Charge): UsageRecord {
  const reported = usage?.some(({ name }) => name === SEARCH) === true
  const searches = reported ? countOf(usage, SEARCH) : 1
  const extraResults = reported ? countOf(usage, EXTRA_RESULTS) : Math.max(0, maxResults - INCLUDED_RESULTS)
  const unpriced = (usage ?? []).filter(({ name, count }) => name !== SEARCH && name !== EXTRA_RESULTS && count > 0)
  return {
    provider: 'parallel',
    item: `search.${mode}`,
    quantity: {
      searches,
      extraResults,
      ...(reported ? {} : { estimated: 1 }),
      ...(unpriced.length === 0 ? {} : { unpriced: unpriced.reduce((sum, { count }) => sum + count, 0) }),
    },
    costCents:
      prices.cents('parallel', `search.${mode}`, searches) +
      prices.cents('parallel', 'search.extra_result', extraResults),
  }
}

function countOf(usage: ParallelUsage, sku: string): number {
  return usage.filter(({ name }) => name === sku).reduce((sum, { count }) => sum + count, 0)
}
