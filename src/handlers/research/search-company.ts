import { z } from 'zod'
import { vendorTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { ok } from '../../tools/models.ts'
import type { VendorPriceBook } from '../../usage/vendor-prices.ts'
import { checkedAccess, type VendorAccess } from '../vendor/access.ts'
import { type RetryBudget, readFromVendor, timeoutFor } from '../vendor/retry-budget.ts'
import { domain, line } from './arguments.ts'
import { isCountryCode } from './country.ts'
import { type ParallelMode, type ParallelResult, type ParallelSearch, searchParallel } from './parallel-client.ts'
import { parallelUsage } from './parallel-cost.ts'
import { clippedLine, clippedText, webAddress } from './vendor-text.ts'

const Input = z
  .object({
    company: line(100).optional().describe('Name of the company.'),
    domain: domain().optional().describe('Domain of the company, such as "example.com".'),
    focus: line(200).optional().describe('What to find out about it, in a few words. A general picture unless given.'),
    country: z
      .string()
      .regex(/^[A-Za-z]{2}$/)
      .refine(isCountryCode, 'is no ISO 3166-1 alpha-2 code; the one of the United Kingdom is GB')
      .optional()
      .describe('ISO 3166-1 alpha-2 code of the country to search from.'),
  })
  .refine(({ company, domain: host }) => company !== undefined || host !== undefined, 'needs a company or a domain')

type In = z.output<typeof Input>

const Page = z.object({
  title: z.string().nullable(),
  url: z.string(),
  /** YYYY-MM-DD. */
  publishedOn: z.string().nullable(),
  excerpts: z.array(z.string()),
})

export interface SearchCompanyOptions {
  readonly access: VendorAccess
  readonly prices: VendorPriceBook
  /** How thorough and how dear each search is; `basic` unless given. The deployment's choice, not a model's. */
  readonly mode?: ParallelMode
  readonly budget?: RetryBudget
}

/** Three requests of 20 s and two pauses: 70 s at worst. */
export const SEARCH_COMPANY_BUDGET: RetryBudget = {
  attempts: 3,
  attemptMs: 20_000,
  backoffMs: 1_000,
  maxPauseMs: 5_000,
}

const MAX_RESULTS = 10

/** Characters of all excerpts together: a third of what an answer may hold in bytes, since a character can take several. */
const MAX_CHARS = 10_000

/**
 * Searches the web for a company, with Parallel.
 * @throws Error for a key or a base URL that cannot work, or a mode that has no price
 */
export function searchCompanyTool(options: SearchCompanyOptions): ToolDeclaration<'research.search_company'> {
  const { prices, mode = 'basic', budget = SEARCH_COMPANY_BUDGET } = options
  const access = checkedAccess('parallel', options.access)
  parallelUsage({ mode, usage: null, maxResults: MAX_RESULTS, prices })
  return vendorTool({
    name: 'research.search_company',
    description:
      'Search the web for a company: what it does, its size and place, recent news, or what the focus says. Answers pages with excerpts. Each call is charged.',
    input: Input,
    output: z.array(Page),
    sideEffects: 'read',
    egress: true,
    metered: true,
    retry: 'none',
    vendors: ['parallel'],
    timeoutS: timeoutFor(budget),
    maxResults: MAX_RESULTS,
    handler: {
      async execute(_invocation, args, { signal, meter }) {
        const search = companySearch(args, mode)
        const answer = await readFromVendor((attempt) => searchParallel(search, { access, attempt }), {
          budget,
          signal,
        })
        await meter.record(parallelUsage({ mode, usage: answer.usage, maxResults: MAX_RESULTS, prices }))
        return ok(answer.results.flatMap(boundedPage).slice(0, MAX_RESULTS), { untrusted: true })
      },
    },
  })
}

/** Characters of one query; the API only asks for a few words. */
const MAX_QUERY = 200

/** The request for a company, in words built from the bounded arguments. */
export function companySearch({ company, domain: host, focus, country }: In, mode: ParallelMode): ParallelSearch {
  const named = company !== undefined && host !== undefined ? `${company} (${host})` : (company ?? host ?? '')
  const short = company ?? host ?? ''
  const queries = [
    `${short} company profile`,
    `${short} ${focus ?? 'recent news'}`,
    ...(company === undefined || host === undefined ? [] : [`${host} about`]),
  ]
  return {
    objective:
      focus === undefined
        ? `Find out what the company ${named} does, how large it is, where it is and what is new about it.`
        : `Find out about the company ${named}: ${focus}`,
    queries: queries.map((query) => query.slice(0, MAX_QUERY).trim()),
    mode,
    maxResults: MAX_RESULTS,
    maxChars: MAX_CHARS,
    country: country ?? null,
  }
}

/** A page whose address cannot be opened cannot be checked by anybody either. */
function boundedPage({ url, title, publish_date, excerpts }: ParallelResult): z.output<typeof Page>[] {
  const address = webAddress(url)
  if (address === null) return []
  const texts = (excerpts ?? []).slice(0, 5).map((excerpt) => clippedText(excerpt, 2_000))
  return [
    {
      title: clippedLine(title, 300),
      url: address,
      publishedOn: /^\d{4}-\d{2}-\d{2}$/.test(publish_date ?? '') ? (publish_date ?? null) : null,
      excerpts: texts.filter((text) => text !== null),
    },
  ]
}
