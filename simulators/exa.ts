import { createHash } from 'node:crypto'
import { z } from 'zod'
import { startVendorServer, type VendorAnswer, type VendorRequest, type VendorServer } from './vendor-server.ts'

/** One search as it arrived, after it was found acceptable. */
export interface ExaSearchRequest {
  readonly query: string
  readonly category: string | null
  readonly numResults: number
  readonly contents: Readonly<Record<string, unknown>>
}

/** A result in the vendor's words. `entities` go out only for people and companies, page text only when it was ordered. */
export interface ExaSearchResult {
  readonly id: string
  readonly url: string
  readonly title: string | null
  readonly author?: string | null
  readonly publishedDate?: string
  readonly score?: number
  readonly text?: string
  readonly highlights?: readonly string[]
  readonly entities?: readonly unknown[]
}

export interface ExaSimulatorSettings {
  /** 0 takes a free port. */
  readonly port?: number
  /** Keys that are accepted; any unless given. */
  readonly keys?: readonly string[]
  /** What is found; people made up from the words of the query unless given. */
  readonly find?: (search: ExaSearchRequest) => readonly ExaSearchResult[]
  /** What `costDollars` says; `reported` unless given. */
  readonly cost?: () => 'reported' | 'missing' | 'free'
}

export interface ExaSimulator extends VendorServer {
  /** Searches that the vendor charges for, whether or not their answer arrived. */
  readonly charged: () => number
}

/** Answers `POST /search` as Exa does. Everybody it finds is made up. */
export async function startExaSimulator(settings: ExaSimulatorSettings = {}): Promise<ExaSimulator> {
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

const Body = z.object({
  query: z.string().min(1),
  category: z.enum(['company', 'publication', 'news', 'personal site', 'financial report', 'people']).optional(),
  type: z.enum(['auto', 'fast', 'instant', 'deep-lite', 'deep', 'deep-reasoning', 'neural', 'keyword']).optional(),
  numResults: z.int().min(1).default(10),
  contents: z.record(z.string(), z.unknown()).default({}),
  includeDomains: z.array(z.string()).optional(),
  excludeDomains: z.array(z.string()).optional(),
})

const MAX_RESULTS = 100

/** Filters that people and companies cannot be searched with. */
const PAGE_FILTERS = [
  'excludeDomains',
  'startPublishedDate',
  'endPublishedDate',
  'startCrawlDate',
  'endCrawlDate',
  'includeText',
  'excludeText',
]

function answerOf(request: VendorRequest, settings: ExaSimulatorSettings): VendorAnswer {
  if (request.method !== 'POST' || request.path !== '/search') return refusal(404, 'NOT_FOUND')
  const key = keyOf(request)
  if (key === null || settings.keys?.includes(key) === false) return refusal(401, 'INVALID_API_KEY')
  const parsed = Body.safeParse(request.body)
  if (!parsed.success) return refusal(400, 'INVALID_REQUEST_BODY')
  const { query, category = null, numResults, contents } = parsed.data
  if (numResults > MAX_RESULTS) return refusal(400, 'NUM_RESULTS_EXCEEDED')
  const ofEntities = category === 'people' || category === 'company'
  const given = Object.keys(request.body as object)
  if (ofEntities && PAGE_FILTERS.some((name) => given.includes(name))) return refusal(400, 'INVALID_REQUEST_BODY')
  const search = { query, category, numResults, contents }
  const found = (settings.find ?? madeUpPeople)(search).slice(0, numResults)
  const body = {
    requestId: hashOf(query).slice(0, 32),
    resolvedSearchType: 'neural',
    results: found.map((result) => shown(result, { ofEntities, contents })),
    ...costOf(settings.cost?.() ?? 'reported', numResults),
  }
  return { status: 200, body }
}

function keyOf({ headers }: VendorRequest): string | null {
  const named = headers['x-api-key']
  if (typeof named === 'string' && named !== '') return named
  return /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1] ?? null
}

function refusal(status: number, tag: string): VendorAnswer {
  return { status, body: { requestId: hashOf(tag).slice(0, 32), error: `Refused: ${tag}`, tag } }
}

interface Shown {
  readonly ofEntities: boolean
  readonly contents: Readonly<Record<string, unknown>>
}

function shown({ entities, text, highlights, ...result }: ExaSearchResult, { ofEntities, contents }: Shown): object {
  const ordered = (name: string): boolean => (contents[name] ?? false) !== false
  return {
    ...result,
    ...(ofEntities && entities !== undefined ? { entities } : {}),
    ...(ordered('text') && text !== undefined ? { text } : {}),
    ...(ordered('highlights') && highlights !== undefined ? { highlights } : {}),
  }
}

function costOf(cost: 'reported' | 'missing' | 'free', numResults: number): object {
  if (cost === 'missing') return {}
  const total = cost === 'free' ? 0 : 0.007 + 0.001 * Math.max(0, numResults - 10)
  return { costDollars: { total } }
}

const FIRST = ['Sample', 'Robin', 'Noor', 'Ines', 'Mika', 'Tomas', 'Ayo', 'Lena', 'Ravi', 'Sofia']
const LAST = ['Person', 'Example', 'Testa', 'Muster', 'Voorbeeld', 'Ejemplo', 'Exemple', 'Esimerk', 'Sample', 'Doe']

/** The same people for the same words, every time. */
function madeUpPeople({ query, numResults }: ExaSearchRequest): ExaSearchResult[] {
  const company = /\bat ([^,(]+)/.exec(query)?.[1]?.trim() ?? 'Example Trading'
  const location = /\bbased in ([^,]+)/.exec(query)?.[1]?.trim() ?? 'Utrecht'
  const title =
    /^(?!people)[^,(]+/
      .exec(query)?.[0]
      .replace(/ or similar.*$/, '')
      .trim() ?? 'Head of Operations'
  return Array.from({ length: Math.min(numResults, 3) }, (_, index) =>
    samplePerson({ name: nameFor(query, index), title, company, location }),
  )
}

function nameFor(query: string, index: number): string {
  const digest = Buffer.from(hashOf(query), 'hex')
  // Neighbours differ, so that nobody is found twice.
  const first = FIRST[((digest[0] ?? 0) + index) % FIRST.length]
  const last = LAST[((digest[1] ?? 0) + index) % LAST.length]
  return `${first} ${last}`
}

export interface SamplePerson {
  readonly name: string
  readonly title: string
  readonly company: string
  readonly location: string
}

/** A person as Exa describes one; the address of the profile leads nowhere. */
export function samplePerson({ name, title, company, location }: SamplePerson): ExaSearchResult {
  const id = hashOf(`${name} ${company}`).slice(0, 12)
  const url = `https://www.linkedin.com/in/sample-person-${id}`
  return {
    id: url,
    url,
    title: `${name} | ${title} at ${company}`,
    author: null,
    publishedDate: '2026-05-02T00:00:00.000Z',
    score: 0.31,
    text: `${name} works as ${title} at ${company} in ${location}.`,
    highlights: [`${title}, ${company}, ${location}`],
    entities: [
      {
        id: `https://exa.ai/library/person/${id}`,
        type: 'person',
        version: 1,
        properties: {
          name,
          location,
          workHistory: [
            { title, location, dates: { from: '2023-01-01', to: null }, company: { id: null, name: company } },
          ],
        },
      },
    ],
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
