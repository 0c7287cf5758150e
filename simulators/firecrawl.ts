import { z } from 'zod'
import { startVendorServer, type VendorAnswer, type VendorRequest, type VendorServer } from './vendor-server.ts'

export interface FirecrawlSettings {
  /** Keys that are accepted; any that is no empty text unless given. */
  readonly keys?: readonly string[]
  /** Text for `agent_hints`, which the vendor addresses to agents. */
  readonly hints?: readonly string[]
  readonly port?: number
}

export interface FirecrawlSimulator extends VendorServer {
  /** Credits taken so far, from pages whose answer was lost as well. */
  credits(): number
}

/** Options of `/v2/scrape` that are understood; another one is refused, as the vendor does. */
const Options = z.strictObject({
  url: z.string().refine(hasPublicName, 'URL must have a valid top-level domain'),
  formats: z.array(z.union([z.string(), z.looseObject({ type: z.string() })])).default(['markdown']),
  onlyMainContent: z.boolean().default(true),
  removeBase64Images: z.boolean().default(true),
  parsers: z.array(z.string()).default(['pdf']),
  proxy: z.enum(['basic', 'enhanced', 'auto']).default('auto'),
  maxAge: z.int().min(0).default(172_800_000),
  timeout: z.int().min(1_000).max(300_000).default(60_000),
  skipTlsVerification: z.boolean().default(true),
  origin: z.string().default('api'),
})

type Options = z.output<typeof Options>

/** Pages of every PDF here. */
const PDF_PAGES = 3

/**
 * Stands in for Firecrawl's `POST /v2/scrape` on loopback. Pages are made up from the address asked for. Some names do what
 * such a page does at the vendor: hosts under `.invalid` do not resolve, `blocked.test` is on its blocklist,
 * `expired.test` has a bad certificate; a path that ends in `.zip` is no page, in `.pdf` a document, in `/missing` not
 * there.
 */
export async function startFirecrawlSimulator(settings: FirecrawlSettings = {}): Promise<FirecrawlSimulator> {
  const { keys, hints, port = 0 } = settings
  let credits = 0
  const server = await startVendorServer({
    port,
    behaviour(request) {
      const refusal = refusedRequest(request, keys)
      if (refusal !== null) return refusal
      const options = Options.safeParse(request.body)
      if (!options.success)
        return failure(400, { code: 'BAD_REQUEST', error: 'Bad Request', details: options.error.issues })
      const unreadable = unreadableTarget(new URL(options.data.url))
      if (unreadable !== null) return unreadable
      const data = scraped(options.data)
      credits += data.metadata.creditsUsed
      return { status: 200, body: { success: true, data, ...(hints === undefined ? {} : { agent_hints: hints }) } }
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

function refusedRequest({ method, path, headers }: VendorRequest, keys: readonly string[] | undefined) {
  if (method !== 'POST' || path !== '/v2/scrape') return failure(404, { error: 'Not found' })
  const key = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1]
  if (key === undefined) return failure(401, { error: 'Unauthorized: Token missing' })
  if (keys !== undefined && !keys.includes(key)) return failure(401, { error: 'Unauthorized: Invalid token' })
  return null
}

function unreadableTarget({ hostname, pathname }: URL): VendorAnswer | null {
  // The one failure that comes with 200.
  if (hostname.endsWith('.invalid'))
    return failure(200, { code: 'SCRAPE_DNS_RESOLUTION_ERROR', error: 'DNS resolution failed' })
  if (hostname === 'blocked.test') return failure(403, { error: 'This website is not supported.' })
  if (hostname === 'expired.test') return failure(500, { code: 'SCRAPE_SSL_ERROR', error: 'A certificate error' })
  if (pathname.endsWith('.zip'))
    return failure(500, { code: 'SCRAPE_UNSUPPORTED_FILE_ERROR', error: 'The file type is not supported' })
  return null
}

function scraped({ url, formats, parsers }: Options) {
  const { hostname, pathname } = new URL(url)
  const pdf = pathname.endsWith('.pdf')
  const missing = pathname.endsWith('/missing')
  const parsed = pdf && parsers.includes('pdf')
  const json = formats.some((format) => typeof format === 'object' && format.type === 'json')
  return {
    markdown: pdf && !parsed ? Buffer.from(`%PDF-1.7 ${url}`).toString('base64') : pageText(hostname, missing),
    metadata: {
      title: missing ? 'Not found' : `${nameOf(hostname)}: ${pathname}`,
      description: missing ? null : `What ${nameOf(hostname)} says about itself.`,
      language: 'en',
      sourceURL: url,
      url,
      statusCode: missing ? 404 : 200,
      contentType: pdf ? 'application/pdf' : 'text/html; charset=utf-8',
      scrapeId: '00000000-0000-4000-8000-000000000001',
      proxyUsed: 'basic',
      cacheState: 'miss',
      creditsUsed: 1 + (json ? 4 : 0) + (parsed ? PDF_PAGES - 1 : 0),
      ...(pdf ? { numPages: PDF_PAGES } : {}),
    },
    warning: null,
  }
}

function pageText(hostname: string, missing: boolean): string {
  if (missing) return ''
  const name = nameOf(hostname)
  return [
    `# ${name}`,
    `${name} plans and runs freight by road and rail for makers of machines.`,
    '## Contact',
    `Write to info@${nameOf(hostname).toLowerCase()}.test.`,
  ].join('\n\n')
}

function nameOf(hostname: string): string {
  const label = hostname.replace(/^www\./, '').split('.')[0] ?? hostname
  return `${label.slice(0, 1).toUpperCase()}${label.slice(1)}`
}

function hasPublicName(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && /\.[a-z0-9-]{2,}$/i.test(url.hostname)
}

function failure(status: number, body: Readonly<Record<string, unknown>>): VendorAnswer {
  return { status, body: { success: false, ...body } }
}
