/** What one unit of a vendor's product costs. */
export interface VendorPrice {
  readonly vendor: string
  /** The product, as usage rows name it. */
  readonly item: string
  /** What is counted. */
  readonly unit: 'request' | 'result' | 'credit' | 'message'
  /** Cents for one unit; fractions are usual. */
  readonly cents: number
  /** Where the price was read. */
  readonly source: string
  /** ISO date on which it was read. */
  readonly asOf: string
}

export interface VendorPriceBook {
  /**
   * Cents for `count` units.
   * @throws Error when the item has no price: a paid call that nothing can be charged for must not be made
   */
  cents(vendor: string, item: string, count: number): number
  list(): readonly VendorPrice[]
}

/**
 * List prices, for the plans named in `source`. A deployment with another plan gives its own: only the vendor's invoice
 * is right.
 */
export const LIST_PRICES: readonly VendorPrice[] = [
  price('exa', 'search', {
    unit: 'request',
    cents: 0.7,
    source: 'exa.ai/pricing: $7 per 1,000 searches with contents',
  }),
  price('exa', 'search.extra_result', {
    unit: 'result',
    cents: 0.1,
    source: 'exa.ai/pricing: $1 per 1,000 results over 10',
  }),
  price('parallel', 'search.turbo', { unit: 'request', cents: 0.1, source: 'docs.parallel.ai pricing: $1 per 1,000' }),
  price('parallel', 'search.fast', { unit: 'request', cents: 0.1, source: 'docs.parallel.ai pricing: $1 per 1,000' }),
  price('parallel', 'search.basic', { unit: 'request', cents: 0.5, source: 'docs.parallel.ai pricing: $5 per 1,000' }),
  price('parallel', 'search.advanced', {
    unit: 'request',
    cents: 0.5,
    source: 'docs.parallel.ai pricing: $5 per 1,000',
  }),
  price('parallel', 'search.extra_result', {
    unit: 'result',
    cents: 0.1,
    source: 'docs.parallel.ai pricing: $1 per 1,000 additional results',
  }),
  price('firecrawl', 'scrape', {
    unit: 'credit',
    cents: 0.083,
    source: 'firecrawl.dev/pricing: Standard, $83 for 100,000 credits',
  }),
  price('hunter', 'email-finder', {
    unit: 'credit',
    cents: 2.45,
    source: 'hunter.io/pricing: Starter, $49 for 2,000 credits',
  }),
  price('hunter', 'company-enrichment', {
    unit: 'credit',
    cents: 2.45,
    source: 'hunter.io/pricing: Starter, $49 for 2,000 credits',
  }),
  price('fullenrich', 'work-email', {
    unit: 'credit',
    cents: 5.8,
    source: 'fullenrich.com/pricing: Starter, $29 for 500 credits',
  }),
  ...[
    ['lite', 0.5],
    ['base', 1],
    ['core', 2.5],
    ['core2x', 5],
    ['pro', 10],
    ['ultra', 30],
    ['ultra2x', 60],
    ['ultra4x', 120],
    ['ultra8x', 240],
  ].map(([processor, cents]) =>
    price('parallel', `task.${processor}`, {
      unit: 'request',
      cents: Number(cents),
      source: `docs.parallel.ai pricing: $${Number(cents) * 10} per 1,000 runs`,
    }),
  ),
  price('nylas', 'send', { unit: 'message', cents: 0, source: 'nylas.com/pricing: charged by connected account' }),
]

function price(vendor: string, item: string, rest: Omit<VendorPrice, 'vendor' | 'item' | 'asOf'>): VendorPrice {
  return { vendor, item, ...rest, asOf: '2026-12-01' }
}

/** @throws RangeError for a price that is no number of at least 0 */
export function vendorPriceBook(own: readonly VendorPrice[] = []): VendorPriceBook {
  const prices = new Map([...LIST_PRICES, ...own].map((entry) => [keyOf(entry.vendor, entry.item), entry]))
  for (const { vendor, item, cents } of prices.values()) {
    if (!Number.isFinite(cents) || cents < 0)
      throw new RangeError(`the price of ${vendor} ${item} is no number of at least 0`)
  }
  return {
    cents(vendor, item, count) {
      const found = prices.get(keyOf(vendor, item))
      if (found === undefined) throw new Error(`${vendor} ${item} has no price; add one to the price book`)
      return found.cents * count
    },
    list: () => [...prices.values()],
  }
}

function keyOf(vendor: string, item: string): string {
  return `${vendor}:${item}`
}
