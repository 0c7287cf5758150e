import { createHash } from 'node:crypto'
import { z } from 'zod'
import { nylasOutbox, type NylasOutbox } from './nylas-outbox.ts'
import { startVendorServer, type VendorAnswer, type VendorRequest, type VendorServer } from './vendor-server.ts'

/** A mailbox that somebody granted to the application. */
export interface NylasGrant {
  readonly email: string
  /** `invalid` has expired: nothing can be sent until its owner connects it again. */
  readonly status: 'valid' | 'invalid'
  /** Whether the owner let the application send. */
  readonly maySend: boolean
}

/** What the mail provider behind a grant does with the next message. */
export type ProviderEvent =
  /** Takes the message for later. */
  | { readonly kind: 'queued' }
  /** Takes it, and the answer names no message. */
  | { readonly kind: 'no_id' }
  /** Takes it, and something on the way turns the first answer into a page. */
  | { readonly kind: 'garbled' }
  /** Takes it once the request has been asked about this often. */
  | { readonly kind: 'slow'; readonly conflicts: number }
  | { readonly kind: 'refused' }
  /** Takes it for the first recipient only. */
  | { readonly kind: 'partial' }
  | { readonly kind: 'throttled'; readonly retryAfterS: number }
  | { readonly kind: 'timed_out'; readonly sent: boolean }
  /** No longer accepts the grant, which Nylas has not noticed yet. */
  | { readonly kind: 'unauthorized' }

/** One message that left, whether or not anybody was told. */
export interface DeliveredMail {
  readonly grantId: string
  readonly idempotencyKey: string | null
  readonly from: string
  readonly to: readonly string[]
  readonly subject: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
  readonly metadata: Readonly<Record<string, string>>
}

export interface NylasSettings {
  readonly apiKey?: string
  /** By grant id. */
  readonly grants?: Readonly<Record<string, NylasGrant>>
  /** Milliseconds; of the hour for which an answer is stored. */
  readonly now?: () => number
  /** Every delivered message becomes one `.eml` file in it. */
  readonly outboxDir?: string
  /** 0 takes a free port. */
  readonly port?: number
}

export interface NylasSimulator extends VendorServer {
  readonly apiKey: string
  readonly delivered: readonly DeliveredMail[]
  /** For the next messages that reach the provider, one each. */
  provider(...events: readonly ProviderEvent[]): void
  /** Adds or changes a grant. */
  grant(id: string, part: Partial<NylasGrant>): void
}

export const NYLAS_KEY = 'nyk_v0_simulator'
export const NYLAS_GRANT = '7d5b1a2c-0000-4000-8000-000000000002'

const KEPT_MS = 3_600_000
const USUAL: NylasGrant = { email: 'team@mailbox.test', status: 'valid', maySend: true }

/** An answer stored under one key of one grant. */
interface Stored {
  readonly hash: string
  readonly answer: VendorAnswer
  readonly until: number
}

interface Running {
  readonly hash: string
  /** Called for every request that met it. */
  readonly asked: () => void
}

interface Office {
  readonly settings: Required<Pick<NylasSettings, 'apiKey' | 'now'>>
  readonly outbox: NylasOutbox | null
  readonly grants: Map<string, NylasGrant>
  readonly stored: Map<string, Stored>
  readonly running: Map<string, Running>
  readonly events: ProviderEvent[]
  readonly delivered: DeliveredMail[]
  answered: number
}

/**
 * Nylas v3 as far as a send needs it. What left is counted apart from what was answered, so that a test can lose the
 * answer and prove that one message went out. Answers of the provider are stored under the idempotency key, errors too;
 * what the API refuses before it looks at the key is not.
 */
export async function startNylasSimulator(settings: NylasSettings = {}): Promise<NylasSimulator> {
  const { apiKey = NYLAS_KEY, grants = { [NYLAS_GRANT]: USUAL }, now = Date.now, outboxDir } = settings
  const office: Office = {
    settings: { apiKey, now },
    outbox: outboxDir === undefined ? null : nylasOutbox(outboxDir),
    grants: new Map(Object.entries(grants)),
    stored: new Map(),
    running: new Map(),
    events: [],
    delivered: [],
    answered: 0,
  }
  const server = await startVendorServer({ behaviour: (request) => answer(office, request), port: settings.port ?? 0 })
  return {
    ...server,
    apiKey,
    delivered: office.delivered,
    provider: (...events) => void office.events.push(...events),
    grant: (id, part) => void office.grants.set(id, { ...USUAL, ...office.grants.get(id), ...part }),
    reset() {
      server.reset()
      office.stored.clear()
      office.running.clear()
      office.events.length = 0
      office.delivered.length = 0
    },
  }
}

const ROUTE = /^\/v3\/grants\/([^/]+)(\/messages\/send)?$/

async function answer(office: Office, request: VendorRequest): Promise<VendorAnswer> {
  const [, id = '', send] = ROUTE.exec(request.path) ?? []
  if (request.headers.authorization !== `Bearer ${office.settings.apiKey}`) {
    return problem(401, { type: 'token.unauthorized_access', message: 'Bearer token invalid' })
  }
  const grantId = decodeURIComponent(id)
  const grant = office.grants.get(grantId)
  if (grant === undefined) return problem(404, { type: 'api.not_found_error', message: 'Grant not found' })
  const reply =
    send === undefined
      ? read(grantId, grant)
      : await underKey(office, request, () => post(office, request, { grantId, grant }))
  return stamped(office, reply)
}

function stamped(office: Office, { status, body, headers = {} }: VendorAnswer): VendorAnswer {
  office.answered += 1
  const id = `5fa64c92-0000-4000-8000-${String(office.answered).padStart(12, '0')}`
  const own = typeof body === 'object' && body !== null ? { request_id: id, ...body } : body
  return { status, body: own, headers: { 'x-request-id': id, 'x-fastly-id': id, ...headers } }
}

function read(grantId: string, { email, status, maySend }: NylasGrant): VendorAnswer {
  const scope = maySend ? ['mail.read', 'mail.send'] : ['mail.read']
  return { status: 200, body: { data: { id: grantId, provider: 'google', grant_status: status, email, scope } } }
}

/** Idempotency as documented: one answer for each grant and key, for an hour, whatever it was. */
async function underKey(
  office: Office,
  { headers, raw, path }: VendorRequest,
  work: () => Promise<Posted>,
): Promise<VendorAnswer> {
  const key = headers['idempotency-key']
  if (typeof key !== 'string') return (await work()).answer
  if (key.length > 256) return problem(400, { type: 'api.invalid_idempotency_key', message: 'The key is too long' })
  const slot = `${path} ${key}`
  const hash = createHash('sha256').update(raw).digest('hex')
  const now = office.settings.now()
  const stored = office.stored.get(slot)
  if (stored !== undefined && stored.until > now) {
    if (stored.hash !== hash) return reused()
    return { ...stored.answer, headers: { ...stored.answer.headers, 'idempotent-response': 'true' } }
  }
  const running = office.running.get(slot)
  if (running !== undefined) {
    running.asked()
    return running.hash === hash
      ? problem(409, { type: 'api.concurrent_idempotent_request', message: 'In flight' })
      : reused()
  }
  const asked = new EventTarget()
  office.running.set(slot, { hash, asked: () => void asked.dispatchEvent(new Event('asked')) })
  const event = office.events[0]
  if (event?.kind === 'slow') await askedTimes(asked, event.conflicts)
  const { answer: first, kept = first } = await work()
  office.stored.set(slot, { hash, answer: kept, until: now + KEPT_MS })
  office.running.delete(slot)
  return first
}

function askedTimes(asked: EventTarget, times: number): Promise<void> {
  return new Promise((resolve) => {
    let count = 0
    asked.addEventListener('asked', () => {
      count += 1
      if (count >= times) resolve()
    })
  })
}

function reused(): VendorAnswer {
  return problem(409, { type: 'api.invalid_idempotent_request', message: 'The key was used with another payload' })
}

const Person = z.object({ email: z.string(), name: z.string().optional() })

const Message = z.object({
  from: z.array(Person).min(1).optional(),
  to: z.array(Person).min(1),
  subject: z.string().default(''),
  body: z.string().default(''),
  custom_headers: z.array(z.object({ name: z.string(), value: z.string() })).default([]),
  metadata: z.record(z.string(), z.string()).default({}),
})

type Message = z.output<typeof Message>

interface Posted {
  readonly answer: VendorAnswer
  /** What is stored, where it differs from what was answered. */
  readonly kept?: VendorAnswer
}

interface Mailbox {
  readonly grantId: string
  readonly grant: NylasGrant
}

async function post(office: Office, request: VendorRequest, mailbox: Mailbox): Promise<Posted> {
  const parsed = Message.safeParse(request.body)
  if (!parsed.success) return { answer: problem(400, { type: 'invalid_request_error', message: 'to is required' }) }
  if (mailbox.grant.status === 'invalid') return { answer: UNAUTHORIZED }
  if (!mailbox.grant.maySend) {
    return {
      answer: problem(403, { type: 'insufficient_scopes', message: 'missing provider scopes required to send email' }),
    }
  }
  const event = office.events.shift()
  const failure = failureFor(event)
  const reached = reachedBy(event, parsed.data)
  if (reached.length > 0) await deliver(office, request, { mailbox, message: parsed.data, to: reached })
  const success = successOf(mailbox, parsed.data, event)
  if (event?.kind === 'garbled') return { answer: PAGE, kept: success }
  return { answer: failure ?? success }
}

const UNAUTHORIZED = problem(401, {
  type: 'unauthorized',
  message: 'Unauthorized',
  provider_error: { error: 'invalid_grant' },
})
const PAGE: VendorAnswer = {
  status: 200,
  body: '<!doctype html><h1>Bad gateway</h1>',
  headers: { 'content-type': 'text/html' },
}

/** Null for what the provider took. */
function failureFor(event: ProviderEvent | undefined): VendorAnswer | null {
  switch (event?.kind) {
    case 'refused':
      return problem(422, { type: 'api.provider_error', message: 'Message refused', provider_error: { code: 550 } })
    case 'partial':
      return problem(402, { type: 'api.provider_error', message: 'Sending to at least one recipient failed' })
    case 'throttled':
      return {
        ...problem(429, { type: 'rate_limit_error', message: 'Slow down', provider_error: { code: 429 } }),
        headers: { 'retry-after': String(event.retryAfterS) },
      }
    case 'timed_out':
      return problem(504, { type: 'api.provider_error', message: 'Provider request timed out.' })
    case 'unauthorized':
      return UNAUTHORIZED
    default:
      return null
  }
}

function reachedBy(event: ProviderEvent | undefined, { to }: Message): string[] {
  const everybody = to.map(({ email }) => email)
  if (event?.kind === 'partial') return everybody.slice(0, 1)
  if (event?.kind === 'timed_out') return event.sent ? everybody : []
  return failureFor(event) === null ? everybody : []
}

interface Outgoing {
  readonly mailbox: Mailbox
  readonly message: Message
  readonly to: readonly string[]
}

async function deliver(office: Office, { headers }: VendorRequest, { mailbox, message, to }: Outgoing): Promise<void> {
  const key = headers['idempotency-key']
  const from = message.from?.[0]?.email ?? mailbox.grant.email
  const custom = Object.fromEntries(message.custom_headers.map(({ name, value }) => [name, value]))
  const { subject, body, metadata } = message
  office.delivered.push({
    grantId: mailbox.grantId,
    idempotencyKey: typeof key === 'string' ? key : null,
    from,
    to,
    subject,
    body,
    headers: custom,
    metadata,
  })
  const at = new Date(office.settings.now())
  await office.outbox?.file({ from, to, subject, text: body, messageId: idOf(mailbox, message), headers: custom, at })
}

function successOf(mailbox: Mailbox, message: Message, event: ProviderEvent | undefined): VendorAnswer {
  const { grantId } = mailbox
  const { to, subject, body } = message
  const named = event?.kind === 'no_id' ? {} : { id: idOf(mailbox, message) }
  if (event?.kind === 'queued') return { status: 202, body: { grant_id: grantId, schedule_id: 'schedule-1' } }
  const data = {
    ...named,
    object: 'message',
    grant_id: grantId,
    thread_id: 'thread-1',
    subject,
    body,
    to,
    folders: ['SENT'],
  }
  return { status: 200, body: { grant_id: grantId, data } }
}

/** The same message has the same id, so that what a demo shows does not change from run to run. */
function idOf({ grantId }: Mailbox, message: Message): string {
  return createHash('sha256').update(grantId).update(JSON.stringify(message)).digest('hex').slice(0, 16)
}

interface Problem {
  readonly type: string
  readonly message: string
  /** What the mail provider said, where it is its refusal. */
  readonly provider_error?: object
}

function problem(status: number, error: Problem): VendorAnswer {
  return { status, body: { error } }
}
