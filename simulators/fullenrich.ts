import { createHash, createHmac } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { startVendorServer, type VendorAnswer, type VendorRequest, type VendorServer } from './vendor-server.ts'

export interface FullEnrichSettings {
  /** 0 takes a free port. */
  readonly port?: number
  /** Keys that are accepted, the first of which signs; any unless given, and then the one of the request signs. */
  readonly keys?: readonly string[]
  /**
   * When a batch calls back by itself: before its submit is answered, so many milliseconds after it, or never. Never
   * unless given: a test says when.
   */
  readonly callsBack?: 'before_answer' | { readonly afterMs: number } | 'never'
  /** How a callback is sent; over HTTP unless given. */
  readonly send?: SendCallback
  /** What a batch comes to; made up from its contacts unless given. */
  readonly outcome?: (batch: FullEnrichBatch) => FullEnrichOutcome
}

export type SendCallback = (url: string, request: SignedCallback) => Promise<{ readonly status: number }>

export interface SignedCallback {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array<ArrayBuffer>
}

export interface FullEnrichContact {
  readonly first_name?: string | undefined
  readonly last_name?: string | undefined
  readonly domain?: string | undefined
  readonly company_name?: string | undefined
  readonly linkedin_url?: string | undefined
  readonly custom?: Readonly<Record<string, string>> | undefined
}

export interface FullEnrichBatch {
  readonly id: string
  readonly name: string
  readonly webhookUrl: string | null
  readonly contacts: readonly FullEnrichContact[]
  /** Signs its callbacks. */
  readonly key: string
}

export interface FullEnrichOutcome {
  readonly status: string
  readonly credits?: number
  readonly data: readonly unknown[]
}

/** What is different about one callback. */
export interface CallbackTwist {
  readonly status?: string
  /** Signs with this key instead. */
  readonly key?: string
  /** In place of the batch's. */
  readonly name?: string
  readonly id?: string
  readonly url?: string
  /** Pads the body to so many bytes. */
  readonly bytes?: number
  /** Changes the body before it is signed. */
  readonly body?: (body: Readonly<Record<string, unknown>>) => unknown
}

export interface FullEnrichSimulator extends VendorServer {
  /** In the order in which they came. */
  readonly batches: readonly FullEnrichBatch[]
  /** Credits of what was found so far, whether or not anybody heard of it. */
  credits(): number
  callback(batch: FullEnrichBatch, twist?: CallbackTwist): SignedCallback
  /** Sends a callback and answers the status it met. */
  deliver(batch: FullEnrichBatch, twist?: CallbackTwist): Promise<number>
}

const PATH = '/contact/enrich/bulk'

/**
 * Stands in for FullEnrich's bulk enrichment on loopback: takes batches, and calls back when it is told to. Addresses are
 * made up from the names; at the domain asked for when that is one nobody can own, and else at example.com. People named
 * Nobody are not found.
 */
export async function startFullEnrichSimulator(settings: FullEnrichSettings = {}): Promise<FullEnrichSimulator> {
  const { callsBack = 'never', send = overHttp, outcome = madeUp } = settings
  const batches: FullEnrichBatch[] = []
  const closing = new AbortController()
  const callback = (batch: FullEnrichBatch, twist: CallbackTwist = {}): SignedCallback =>
    signedCallback(batch, outcome(batch), twist)
  const deliver = async (batch: FullEnrichBatch, twist: CallbackTwist = {}): Promise<number> => {
    const url = twist.url ?? batch.webhookUrl
    if (url === null) throw new Error('the batch has no callback')
    return (await send(url, callback(batch, twist))).status
  }
  const later = async (batch: FullEnrichBatch, afterMs: number): Promise<void> => {
    await delay(afterMs, undefined, { signal: closing.signal, ref: false })
    await deliver(batch)
  }
  const server = await startVendorServer({
    port: settings.port ?? 0,
    async behaviour(request) {
      const refused = refusal(request, settings.keys)
      if (refused !== null) return refused
      if (request.method === 'GET') return statusOf(request, batches, outcome)
      const batch = batchOf(request, settings.keys)
      if ('status' in batch) return batch
      batches.push(batch)
      if (callsBack === 'before_answer') await deliver(batch)
      else if (callsBack !== 'never') later(batch, callsBack.afterMs).catch(() => undefined)
      return { status: 200, body: { enrichment_id: batch.id } }
    },
  })
  return {
    ...server,
    batches,
    callback,
    deliver,
    credits: () => batches.reduce((sum, batch) => sum + creditsOf(outcome(batch)), 0),
    reset() {
      batches.length = 0
      server.reset()
    },
    async close() {
      closing.abort()
      await server.close()
    },
  }
}

async function overHttp(url: string, { headers, body }: SignedCallback): Promise<{ readonly status: number }> {
  const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual' })
  await response.body?.cancel()
  return { status: response.status }
}

function refusal({ headers, path }: VendorRequest, keys: readonly string[] | undefined): VendorAnswer | null {
  if (path !== PATH && !path.startsWith(`${PATH}/`)) return { status: 404, body: { code: 'error.not_found' } }
  const { authorization } = headers
  if (authorization === undefined) return complaint(401, 'error.authorization.not_set')
  const key = /^Bearer (\S+)$/.exec(authorization)?.[1]
  if (key === undefined) return complaint(401, 'error.authorization.not_bearer')
  return keys?.includes(key) === false ? complaint(401, 'error.api.key') : null
}

function complaint(status: number, code: string): VendorAnswer {
  return { status, body: { code, message: `refused: ${code}` } }
}

const Contact = z.strictObject({
  first_name: z.string().optional(),
  last_name: z.string().optional(),
  domain: z.string().optional(),
  company_name: z.string().optional(),
  linkedin_url: z.string().optional(),
  enrich_fields: z.array(z.enum(['contact.work_emails', 'contact.personal_emails', 'contact.phones'])).min(1),
  custom: z.record(z.string(), z.string().max(100)).optional(),
})

const Body = z.strictObject({
  name: z.string().min(1),
  webhook_url: z
    .string()
    .regex(/^https?:\/\//)
    .optional(),
  data: z.array(Contact).min(1).max(100),
})

/** The batch, or the refusal of what the vendor does not take. */
function batchOf(request: VendorRequest, keys: readonly string[] | undefined): FullEnrichBatch | VendorAnswer {
  const { data, error } = Body.safeParse(request.body)
  if (data === undefined) return complaint(400, `error.enrichment.${error.issues[0]?.path.join('.') ?? 'body'}`)
  const lacking = data.data.some(
    ({ first_name: first, last_name: last, domain, company_name: company, linkedin_url: profile }) =>
      profile === undefined && (!first || !last || (domain === undefined && company === undefined)),
  )
  if (lacking) return complaint(400, 'error.enrichment.domain.empty')
  const key = keys?.[0] ?? request.headers.authorization?.slice('Bearer '.length) ?? ''
  const id = idOf(`${data.name}:${request.raw.toString('base64')}`)
  return { id, name: data.name, webhookUrl: data.webhook_url ?? null, contacts: data.data, key }
}

function statusOf(
  { path }: VendorRequest,
  batches: readonly FullEnrichBatch[],
  outcome: (batch: FullEnrichBatch) => FullEnrichOutcome,
): VendorAnswer {
  const batch = batches.find(({ id }) => path === `${PATH}/${id}`)
  if (batch === undefined) return complaint(404, 'error.enrichment.not_found')
  const { status, ...rest } = bodyOf(batch, outcome(batch))
  return { status: status === 'CREDITS_INSUFFICIENT' ? 402 : 200, body: { status, ...rest } }
}

function bodyOf(batch: FullEnrichBatch, outcome: FullEnrichOutcome) {
  const { status, data } = outcome
  return { id: batch.id, name: batch.name, status, cost: { credits: creditsOf(outcome) }, data }
}

function creditsOf({ credits, data }: FullEnrichOutcome): number {
  if (credits !== undefined) return credits
  return data.filter((row) => /"(DELIVERABLE|HIGH_PROBABILITY|CATCH_ALL)"/i.test(JSON.stringify(row))).length
}

/** With a letter beyond ASCII and odd white space, so that whoever checks the signature of what was parsed gets it wrong. */
function signedCallback(batch: FullEnrichBatch, outcome: FullEnrichOutcome, twist: CallbackTwist): SignedCallback {
  const usual = bodyOf(batch, outcome)
  const named = {
    ...usual,
    id: twist.id ?? usual.id,
    name: twist.name ?? usual.name,
    status: twist.status ?? usual.status,
  }
  const text = `${JSON.stringify(twist.body === undefined ? named : twist.body(named), null, 1)}  \n`
  const body = new Uint8Array(Buffer.from(padded(text, twist.bytes ?? 0), 'utf8'))
  const signature = createHmac('sha1', twist.key ?? batch.key)
    .update(body)
    .digest('hex')
  return { headers: { 'content-type': 'application/json', 'x-signature-sha1': signature }, body }
}

/** JSON allows white space behind it. */
function padded(text: string, bytes: number): string {
  return text + ' '.repeat(Math.max(0, bytes - Buffer.byteLength(text, 'utf8')))
}

function madeUp({ contacts }: FullEnrichBatch): FullEnrichOutcome {
  return { status: 'FINISHED', data: contacts.map(rowOf) }
}

/** A row as the vendor writes it: some names change on the way from the request. */
export function rowOf(contact: FullEnrichContact): Record<string, unknown> {
  const { first_name: first = 'Sample', last_name: last = 'Person', custom } = contact
  const found = last === 'Nobody' ? null : { email: addressOf(first, last, contact.domain), status: 'DELIVERABLE' }
  return {
    input: {
      first_name: first,
      last_name: last,
      full_name: `${first} ${last}`,
      company_domain: contact.domain ?? '',
      company_name: contact.company_name ?? '',
      professional_network_url: contact.linkedin_url ?? '',
    },
    custom: custom ?? {},
    contact_info: {
      most_probable_work_email: found,
      most_probable_personal_email: null,
      most_probable_phone: null,
      work_emails: found === null ? [] : [found],
      personal_emails: [],
      phones: [],
    },
    profile: { full_name: `${first} ${last}`, headline: 'Größe counts' },
  }
}

function addressOf(first: string, last: string, domain: string | undefined): string {
  const owned = domain === undefined || !/(^|\.)(test|example|example\.com)$/.test(domain)
  const name = `${first}.${last}`.toLowerCase().replaceAll(/[^a-z.]/g, '')
  return `${name === '.' ? 'sample.person' : name}@${owned ? 'example.com' : domain}`
}

function idOf(text: string): string {
  const hex = createHash('sha256').update(text).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
