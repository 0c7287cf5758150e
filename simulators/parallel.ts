import { createHash } from 'node:crypto'
import { z } from 'zod'
import { startVendorServer, type VendorAnswer, type VendorRequest, type VendorServer } from './vendor-server.ts'

/** One search as it arrived, after it was found acceptable. */
export interface ParallelSearchRequest {
  readonly objective: string | null
  readonly queries: readonly string[]
  readonly mode: string
  readonly maxResults: number
}

/** A result in the vendor's words. */
export interface ParallelSearchResult {
  readonly url: string
  readonly title?: string | null
  readonly publish_date?: string | null
  readonly excerpts: readonly string[]
}

export interface ParallelSimulatorSettings {
  /** 0 takes a free port. */
  readonly port?: number
  /** Keys that are accepted; any unless given. */
  readonly keys?: readonly string[]
  /** What is found; pages made up from the first query unless given. */
  readonly find?: (search: ParallelSearchRequest) => readonly ParallelSearchResult[]
  /** What `usage` says instead of the counts: null, or counts of one's own. */
  readonly usage?: (counts: readonly ParallelSku[]) => unknown
}

export interface ParallelSku {
  readonly name: string
  readonly count: number
}

export interface ParallelSimulator extends VendorServer {
  /** Searches that the vendor charges for, whether or not their answer arrived. */
  readonly charged: () => number
}

/** Answers `POST /v1/search` as Parallel does. Every page it finds is made up. */
export async function startParallelSimulator(settings: ParallelSimulatorSettings = {}): Promise<ParallelSimulator> {
  let charged = 0
  const server = await startVendorServer({
    port: settings.port ?? 0,
    behaviour: (request) => {
      const answer = answerOf(request, settings)
      if (answer.status === 200) charged += 1
      return answer
    },
  })
  const reset = (): void => {
    charged = 0
    server.reset()
  }
  return { ...server, reset, charged: () => charged }
}

/** Refuses what it does not know, as the API does for fields of its older form. */
const Body = z.strictObject({
  search_queries: z.array(z.string().min(1)).min(1),
  objective: z.string().nullish(),
  mode: z.enum(['turbo', 'fast', 'basic', 'advanced']).nullish(),
  max_chars_total: z.int().positive().nullish(),
  client_model: z.string().nullish(),
  session_id: z.string().nullish(),
  advanced_settings: z
    .strictObject({
      max_results: z.int().positive().nullish(),
      location: z
        .string()
        .regex(/^[a-z]{2}$/i)
        .nullish(),
      source_policy: z.unknown().optional(),
      fetch_policy: z.unknown().optional(),
      excerpt_settings: z.unknown().optional(),
    })
    .nullish(),
})

const INCLUDED_RESULTS = 10

function answerOf(request: VendorRequest, settings: ParallelSimulatorSettings): VendorAnswer {
  if (request.method !== 'POST' || request.path !== '/v1/search') return refusal(404, 'Not found')
  const key = request.headers['x-api-key']
  if (typeof key !== 'string' || key === '' || settings.keys?.includes(key) === false) {
    return refusal(401, 'Invalid API key')
  }
  const parsed = Body.safeParse(request.body)
  if (!parsed.success) return refusal(422, 'Request validation error')
  const { search_queries: queries, objective, mode, max_chars_total: maxChars, ...rest } = parsed.data
  const maxResults = rest.advanced_settings?.max_results ?? INCLUDED_RESULTS
  const search = { objective: objective ?? null, queries, mode: mode ?? 'advanced', maxResults }
  const found = (settings.find ?? madeUpPages)(search).slice(0, maxResults)
  const counts = countsOf(maxResults)
  const id = hashOf(queries.join('\n')).slice(0, 32)
  const body = {
    search_id: `search_${id}`,
    session_id: rest.session_id ?? `session_${id}`,
    results: withinTotal(found, maxChars ?? null),
    warnings: null,
    usage: settings.usage === undefined ? counts : settings.usage(counts),
  }
  return { status: 200, body }
}

function refusal(status: number, message: string): VendorAnswer {
  return { status, body: { type: 'error', error: { ref_id: `search_${hashOf(message).slice(0, 32)}`, message } } }
}

/** One name for a search of every mode. */
function countsOf(maxResults: number): ParallelSku[] {
  const additional = Math.max(0, maxResults - INCLUDED_RESULTS)
  const search = { name: 'sku_search', count: 1 }
  return additional === 0 ? [search] : [search, { name: 'sku_search_additional_results', count: additional }]
}

/** The characters of all excerpts together stay within what was ordered. */
function withinTotal(results: readonly ParallelSearchResult[], total: number | null): ParallelSearchResult[] {
  let left = total ?? Number.POSITIVE_INFINITY
  return results.map((result) => {
    const excerpts = result.excerpts.map((excerpt) => {
      const kept = excerpt.slice(0, left)
      left -= kept.length
      return kept
    })
    return { ...result, excerpts: excerpts.filter((excerpt) => excerpt !== '') }
  })
}

/** The same pages for the same words, every time. */
function madeUpPages({ queries }: ParallelSearchRequest): ParallelSearchResult[] {
  const company = (queries[0] ?? '').replace(/ company profile$/, '')
  const site = `https://example.com/${encodeURIComponent(company.toLowerCase().replaceAll(/\s+/g, '-'))}`
  return [
    {
      url: `${site}/about`,
      title: `About ${company}`,
      publish_date: null,
      excerpts: [`${company} is a trading company of ${20 + (sizeOf(company) % 400)} people in Utrecht.`],
    },
    {
      url: `${site}/news`,
      title: `${company} opens a second warehouse`,
      publish_date: '2026-03-11',
      excerpts: [`${company} opened a second warehouse and is looking for a head of operations.`],
    },
  ]
}

function sizeOf(company: string): number {
  return Buffer.from(hashOf(company), 'hex').readUInt16BE()
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
