import type { VendorPriceBook } from '../../usage/vendor-prices.ts'
import { checkedAccess, type VendorAccess } from '../vendor/access.ts'
import { type ExaPerson, type ExaResult, searchExaPeople } from './exa-client.ts'
import { exaQueryText } from './exa-query.ts'
import type { FoundPeople, FoundPerson, PeopleProvider } from './people-provider.ts'
import { webAddress } from './vendor-text.ts'

export interface ExaPeopleOptions {
  readonly access: VendorAccess
  readonly prices: VendorPriceBook
}

/**
 * People search of Exa.
 * @throws Error for a key or a base URL that cannot work, or when a search has no price
 */
export function exaPeople({ access, prices }: ExaPeopleOptions): PeopleProvider {
  const checked = checkedAccess('exa', access)
  estimatedCents(prices, 1)
  return {
    name: 'exa',
    vendor: 'exa',
    async search(query, attempt) {
      const numResults = query.limit
      const { results, dollars } = await searchExaPeople(
        { query: exaQueryText(query), numResults },
        { access: checked, attempt },
      )
      return { candidates: results.map(foundPerson), usage: usageOf({ dollars, numResults, prices }) }
    },
  }
}

/** Results that one search pays for; each further one is charged. */
const INCLUDED_RESULTS = 10

interface Charge {
  /** As the answer says; null when it does not. */
  readonly dollars: number | null
  readonly numResults: number
  readonly prices: VendorPriceBook
}

/** What an answer says it cost, otherwise what the request costs by the price book. */
export function usageOf({ dollars, numResults, prices }: Charge): FoundPeople['usage'] {
  const asked = { searches: 1, resultsAsked: numResults }
  if (dollars !== null) return { item: 'search', quantity: asked, costCents: centsOf(dollars) }
  return {
    item: 'search',
    quantity: { ...asked, estimated: 1 },
    costCents: estimatedCents(prices, numResults),
  }
}

/** To a millionth of a cent, which is what usage rows keep: 0.007 dollars are 0.7 cents, not 0.7000000000000001. */
function centsOf(dollars: number): number {
  return Math.round(dollars * 100_000_000) / 1_000_000
}

function estimatedCents(prices: VendorPriceBook, numResults: number): number {
  const extra = Math.max(0, numResults - INCLUDED_RESULTS)
  return prices.cents('exa', 'search', 1) + prices.cents('exa', 'search.extra_result', extra)
}

function foundPerson(result: ExaResult): FoundPerson {
  const { person } = result
  const job = currentJob(person)
  const linkedinUrl = profileAddress(result.url)
  return {
    name: person?.name ?? (linkedinUrl === null ? null : nameInTitle(result.title)) ?? result.author ?? null,
    title: job?.title ?? null,
    company: job?.company?.name ?? null,
    location: person?.location ?? null,
    linkedinUrl,
    sourceUrl: result.url,
    snippet: result.highlights?.join('\n') ?? null,
  }
}

/** The first job that has not ended; somebody whose jobs have all ended has none. */
function currentJob(person: ExaPerson | null) {
  return person?.workHistory?.find(({ dates }) => (dates?.to ?? null) === null) ?? null
}

/** A personal profile without the query that says who looked at it; null for company pages, posts and other sites. */
function profileAddress(text: string): string | null {
  const address = webAddress(text)
  if (address === null) return null
  const { hostname, pathname } = new URL(address)
  const isLinkedin = hostname === 'linkedin.com' || hostname.endsWith('.linkedin.com')
  return isLinkedin && /^\/in\/[^/]+/.test(pathname) ? `https://${hostname}${pathname}` : null
}

/** The page of a profile is called by the person's name, then what they do. A name from any other page would be a guess. */
function nameInTitle(title: string | null | undefined): string | null {
  const name = title?.split(/ [|–—-] /, 1)[0]?.trim() ?? ''
  return name === '' ? null : name
}
