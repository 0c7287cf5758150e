import { createHash } from 'node:crypto'
import { startVendorServer, type VendorAnswer, type VendorRequest, type VendorServer } from './vendor-server.ts'

export interface HunterSettings {
  /** Keys that are accepted; any that is no empty text unless given. */
  readonly keys?: readonly string[]
  readonly port?: number
}

export interface HunterSimulator extends VendorServer {
  /** Credits taken so far: one for each answered address and each company found, lost answers included. */
  credits(): number
}

/**
 * Stands in for Hunter's `/v2/email-finder` and `/v2/companies/find` on loopback. Answers are made up from the request
 * and are the same every time; addresses are at the domain asked for when that is one nobody can own (`.test`, `.example`,
 * `example.com`), and otherwise at one under `.test`. People named Nobody and domains that start with `unknown` are not found.
 */
export async function startHunterSimulator(settings: HunterSettings = {}): Promise<HunterSimulator> {
  const { keys, port = 0 } = settings
  let credits = 0
  const server = await startVendorServer({
    port,
    behaviour(request) {
      const refusal = refusedKey(request, keys)
      if (refusal !== null) return refusal
      const { answer, charged } = answerTo(request)
      credits += charged
      return answer
    },
  })
  return {
    ...server,
    credits: () => credits,
    reset() {
      credits = 0
      server.reset()
    },
  }
}

/** The body of an error, as the vendor writes it. */
export function hunterErrors(id: string, code: number, details = ''): unknown {
  return { errors: [{ id, code, details }] }
}

/** The body of a found address, every field there; `part` replaces some of them. */
export function hunterEmail(part: Readonly<Record<string, unknown>> = {}): unknown {
  return {
    data: {
      first_name: 'Sample',
      last_name: 'Person',
      email: 'sample.person@example.com',
      score: 92,
      domain: 'example.com',
      accept_all: false,
      position: 'Head of Operations',
      twitter: null,
      linkedin_url: null,
      phone_number: null,
      company: 'Sample Freight',
      sources: [source('example.com')],
      verification: { date: '2026-06-02', status: 'valid' },
      ...part,
    },
    meta: { params: {} },
  }
}

/** The body of a company, every field there; `part` replaces some of them. */
export function hunterCompany(part: Readonly<Record<string, unknown>> = {}): unknown {
  return {
    data: {
      id: '00000000-0000-4000-8000-000000000001',
      name: 'Sample Freight',
      legalName: null,
      domain: 'example.com',
      domainAliases: [],
      site: { phoneNumbers: [], emailAddresses: [] },
      category: { sector: 'Industrials', industryGroup: 'Transportation', industry: 'Logistics', subIndustry: null },
      tags: ['logistics'],
      description: 'Carrier.',
      foundedYear: 2010,
      location: 'Utrecht, NL',
      timeZone: 'Europe/Amsterdam',
      geo: { city: 'Utrecht', state: null, country: 'Netherlands', countryCode: 'NL', lat: 52.09, lng: 5.12 },
      logo: null,
      linkedin: { handle: 'company/sample' },
      twitter: { handle: null },
      type: 'private',
      ticker: null,
      phone: null,
      metrics: { employees: '11-50', annualRevenue: null, raised: null },
      tech: ['nginx'],
      techCategories: [],
      parent: { domain: null },
      ...part,
    },
    meta: { domain: 'example.com' },
  }
}

function refusedKey({ headers, query }: VendorRequest, keys: readonly string[] | undefined): VendorAnswer | null {
  const header = headers['x-api-key']
  const bearer = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1]
  const key = (typeof header === 'string' ? header : undefined) ?? bearer ?? query.get('api_key') ?? ''
  const known = key !== '' && (keys === undefined || keys.includes(key))
  return known
    ? null
    : { status: 401, body: hunterErrors('authentication_failed', 401, 'No user found for the API key') }
}

interface Priced {
  readonly answer: VendorAnswer
  readonly charged: number
}

function answerTo({ method, path, query }: VendorRequest): Priced {
  if (method === 'GET' && path === '/v2/email-finder') return emailFinder(query)
  if (method === 'GET' && path === '/v2/companies/find') return companyFinder(query)
  return free(404, hunterErrors('not_found', 404, 'The requested resource does not exist.'))
}

function emailFinder(query: URLSearchParams): Priced {
  const company = query.get('company')
  const domain = query.get('domain') ?? (company === null ? null : `${slug(company)}.test`)
  const [first = '', ...rest] = query.get('full_name')?.split(/\s+/) ?? []
  const firstName = query.get('first_name') ?? first
  const lastName = query.get('last_name') ?? rest.join(' ')
  if (domain === null) return free(400, hunterErrors('wrong_params', 400, 'You are missing the domain parameter'))
  if (firstName === '' || lastName === '')
    return free(400, hunterErrors('wrong_params', 400, 'You are missing the name of the person'))
  if (firstName === 'Nobody') return free(200, hunterEmail({ ...NOBODY, domain }))
  const at = ownable(domain) ? `${slug(domain)}.test` : domain
  const pick = digest(`${firstName} ${lastName} ${at}`)
  const acceptAll = pick % 4 === 0
  return paid(
    hunterEmail({
      first_name: firstName,
      last_name: lastName,
      email: `${slug(firstName)}.${slug(lastName)}@${at}`,
      score: 70 + (pick % 30),
      domain: at,
      accept_all: acceptAll,
      position: POSITIONS[pick % POSITIONS.length],
      company: company ?? nameOf(at),
      sources: [source(at)],
      verification: acceptAll
        ? { date: '2026-06-02', status: 'accept_all' }
        : { date: pick % 3 === 0 ? null : '2026-06-02', status: pick % 3 === 0 ? null : 'valid' },
    }),
  )
}

function companyFinder(query: URLSearchParams): Priced {
  const domain = query.get('domain')
  if (domain === null) return free(400, hunterErrors('wrong_params', 400, 'You are missing the domain parameter'))
  if (domain.startsWith('unknown'))
    return free(404, hunterErrors('not_found', 404, 'We could not find a company for this domain'))
  const pick = digest(domain)
  const name = nameOf(domain)
  return paid(
    hunterCompany({
      name,
      domain,
      description: `${name} plans and runs freight by road and rail.`,
      foundedYear: 1950 + (pick % 70),
      linkedin: { handle: `company/${slug(name)}` },
      // The two forms that are described for it.
      metrics: { employees: pick % 2 === 0 ? '51-200' : 120, annualRevenue: null, raised: null },
    }),
  )
}

const NOBODY = {
  first_name: null,
  last_name: null,
  email: null,
  score: null,
  accept_all: null,
  position: null,
  company: null,
  sources: [],
  verification: { date: null, status: null },
}

const POSITIONS = ['Head of Operations', 'Purchasing Manager', 'Logistics Planner', 'Managing Director']

function source(domain: string) {
  return {
    domain,
    uri: `https://${domain}/team`,
    extracted_on: '2026-01-05',
    last_seen_on: '2026-06-01',
    still_on_page: true,
  }
}

/** Somebody could have registered it, and no made-up address may be theirs. */
function ownable(domain: string): boolean {
  return !/\.(test|example|invalid)$|^example\.(com|net|org)$/i.test(domain)
}

function nameOf(domain: string): string {
  const label = domain.split('.')[0] ?? domain
  return `${label.slice(0, 1).toUpperCase()}${label.slice(1)}`
}

function slug(text: string): string {
  const plain = text.normalize('NFKD').toLowerCase()
  return plain.replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '') || 'x'
}

function digest(text: string): number {
  return createHash('sha256').update(text.toLowerCase()).digest().readUInt16BE(0)
}

function free(status: number, body: unknown): Priced {
  return { answer: { status, body }, charged: 0 }
}

function paid(body: unknown): Priced {
  return { answer: { status: 200, body }, charged: 1 }
}
