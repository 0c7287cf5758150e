import { bufferedFetch } from '../vendor/buffered-fetch.ts'
import { checkedAccess, type VendorAccess } from '../vendor/access.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { type NylasAnswer, type NylasRefusal, refusalOf, takenOf, VENDOR, withoutAnswer } from './nylas-wire.ts'

/** How long one request may take, its body included. */
export interface Attempt {
  readonly timeoutMs: number
  /** Of the call the request belongs to. */
  readonly signal: AbortSignal
}

interface Person {
  readonly email: string
  readonly name?: string
}

/** A message as the SDK takes it; metadata keys are the API's own. */
export interface NylasMessage {
  readonly from?: Person[]
  readonly to: Person[]
  readonly subject: string
  readonly body: string
  readonly isPlaintext: boolean
  readonly customHeaders: { readonly name: string; readonly value: string }[]
  readonly metadata: { readonly key1: string }
}

export interface NylasSend {
  readonly grantId: string
  /** At most 256 visible characters. */
  readonly idempotencyKey: string
  readonly message: NylasMessage
}

/** What is known about a grant: `listed` when the key was accepted and the grant is there, whatever its state. */
export type GrantReading =
  | { readonly kind: 'listed'; readonly valid: boolean }
  | { readonly kind: 'missing' }
  | { readonly kind: 'key_refused'; readonly error: VendorError }
  | { readonly kind: 'unknown'; readonly error: VendorError }

export interface NylasClient {
  /** Makes one request; resolves for everything a server or a network can do. */
  send(request: NylasSend, attempt: Attempt): Promise<NylasAnswer>
  grant(grantId: string, attempt: Attempt): Promise<GrantReading>
}

/** Bytes of an answer. It repeats the message, and 20,000 characters are at most 120,000 bytes of JSON. */
const MAX_ANSWER_BYTES = 1024 * 1024

/** @throws Error when the access holds no key that could be sent: the SDK would send `Bearer undefined` */
export function nylasClient(given: VendorAccess): NylasClient {
  const access = checkedAccess(VENDOR, given)
  return {
    async send({ grantId, idempotencyKey, message }, attempt) {
      const exchange = await exchangeOver(access, attempt)
      try {
        const payload: unknown = await exchange.sdk.messages.send({
          identifier: grantId,
          requestBody: message,
          overrides: { headers: { 'Idempotency-Key': idempotencyKey } },
        })
        return takenOf(payload, exchange.status() ?? 0) ?? unreadable(exchange.status())
      } catch (raised) {
        return answerTo(raised, exchange)
      }
    },
    async grant(grantId, attempt) {
      const exchange = await exchangeOver(access, attempt)
      try {
        const { data }: { readonly data?: { readonly grantStatus?: string } } = await exchange.sdk.grants.find({
          grantId,
        })
        return data === undefined
          ? readingOf(unreadable(exchange.status()))
          : { kind: 'listed', valid: data.grantStatus === 'valid' }
      } catch (raised) {
        return readingOf(answerTo(raised, exchange))
      }
    },
  }
}

/** An error answer, on its way through the SDK. */
class Refused extends Error {
  override readonly name = 'Refused'
  readonly refusal: NylasRefusal
  constructor(refusal: NylasRefusal) {
    super('refused')
    this.refusal = refusal
  }
}

type Sdk = Awaited<ReturnType<typeof loadSdk>>['prototype']

/** Loaded with the first message: nylas is an optional dependency of the package. */
async function loadSdk() {
  const loaded = await import('nylas')
  // The typings describe a CommonJS module, whose default would be one level further down; what loads is the class.
  return loaded.default as unknown as typeof loaded.default.default
}

/** The part of the SDK's HTTP client that sends; the second half is private in its typings. */
interface Transport {
  newRequest(options: unknown): Promise<Request>
  sendRequest(options: unknown): Promise<Response>
}

interface Exchange {
  readonly sdk: Sdk
  readonly signal: AbortSignal
  /** Whether anything can have left. */
  readonly begun: () => boolean
  /** Of the answer; null before there is one. */
  readonly status: () => number | null
}

/**
 * The SDK with a transport that ends in time, made for one request. Its own follows a redirect to another origin with the
 * whole message in its body, stops its clock when the headers arrive, and forgets the status of an error that is no
 * JSON; it has no option for any of them. A version whose client looks different is refused rather than let loose.
 */
async function exchangeOver(access: VendorAccess, { timeoutMs, signal }: Attempt): Promise<Exchange> {
  const Nylas = await loadSdk()
  const sdk = new Nylas({ apiKey: access.apiKey, apiUri: access.baseUrl })
  const transport = sdk.apiClient as unknown as Transport
  if (typeof transport.newRequest !== 'function' || typeof transport.sendRequest !== 'function') {
    throw new Error('This version of nylas has another HTTP client than the one its transport is replaced in')
  }
  const fetchOnce = bufferedFetch({ vendor: VENDOR, timeoutMs, signal, maxBytes: MAX_ANSWER_BYTES })
  let begun = false
  let status: number | null = null
  transport.sendRequest = async (options) => {
    const request = await transport.newRequest(options)
    begun = true
    const response = await fetchOnce(request)
    status = response.status
    if (response.ok) return response
    throw new Refused(refusalOf({ status, headers: response.headers, text: await response.text() }))
  }
  return { sdk, signal, begun: () => begun, status: () => status }
}

/** @throws what was raised before anything could leave: a fault of this code */
function answerTo(raised: unknown, { signal, begun, status }: Exchange): NylasAnswer {
  if (!begun()) throw raised
  if (raised instanceof Refused) return raised.refusal
  if (raised instanceof VendorError) {
    if (raised.trouble !== 'redirected') return withoutAnswer(raised)
    const status = raised.status ?? 0
    return { kind: 'refused', status, type: null, replayed: false, retryAfterMs: null, error: raised }
  }
  if (signal.aborted) return { kind: 'lost', error: new VendorError({ vendor: VENDOR, trouble: 'timeout' }) }
  // What the SDK raises about a body it cannot read quotes the body, so it goes no further.
  return unreadable(status())
}

function unreadable(status: number | null): NylasAnswer {
  return { kind: 'lost', error: new VendorError({ vendor: VENDOR, trouble: 'decode', status }) }
}

function readingOf(answer: NylasAnswer): GrantReading {
  if (answer.kind === 'taken') throw new Error('a grant was read and a message was taken')
  if (answer.kind === 'refused' && answer.status === 401) return { kind: 'key_refused', error: answer.error }
  if (answer.kind === 'refused' && answer.status === 404) return { kind: 'missing' }
  return { kind: 'unknown', error: answer.error }
}
