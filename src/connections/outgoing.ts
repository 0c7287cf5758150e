import { lookup as systemLookup } from 'node:dns/promises'
import { Agent, fetch as undiciFetch, type Response } from 'undici'
import { ValidationError } from '../tools/errors.ts'
import {
  allowancesOf,
  hostOf,
  isPrivateName,
  isPublicAddress,
  literalOf,
  type Allowance,
  type Destination,
} from './outgoing-address.ts'

export interface OutgoingOptions {
  /** Destinations that are let out although they are not public, such as a mail server of one's own. */
  readonly allow?: readonly Allowance[]
  /** Addresses of a name; the system's resolver unless given. */
  readonly resolve?: (host: string) => Promise<readonly string[]>
}

/** Why a destination is refused; for a person, and harmless for a model to read. */
export type OutgoingRefusal =
  | 'is not an address of the web'
  | 'carries credentials'
  | 'names a port that nothing is asked on'
  | 'is not a public address'
  | 'cannot be found'

export interface OutgoingRequest {
  readonly method?: 'GET' | 'HEAD' | 'POST'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal?: AbortSignal
  /** Milliseconds for everything: names, redirects, the whole body. 10,000 unless given. */
  readonly timeoutMs?: number
  /** Bytes of the answer. 1 MiB unless given. */
  readonly maxBytes?: number
  /** Redirects of a GET or HEAD that are followed, each checked like the first address. None unless given. */
  readonly maxRedirects?: number
}

export interface OutgoingResponse {
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer
  /** Where it came from in the end. */
  readonly url: string
}

/**
 * The one check of every address that a user, a model or a vendor can influence: http(s) only, no credentials, usual
 * ports, and no host that is, or resolves to, anything but public addresses.
 */
export interface OutgoingGuard {
  /**
   * For an address that somebody else will visit. A name that cannot be resolved here is left to them; one that resolves
   * to a private address is refused all the same.
   * @throws ValidationError saying what is wrong with it
   */
  checkTarget(url: string): Promise<void>
  /**
   * The address to open a connection to, for a host and port of somebody's settings. Connect to this and not to the name:
   * a second look-up may answer something else.
   * @throws ValidationError
   */
  addressOf(destination: Destination): Promise<string>
  /**
   * Asks, connecting only to addresses that were checked, and answers what came whole. Headers that may identify somebody
   * are not sent on to another origin; a body never is.
   * @throws ValidationError when this address, or one it redirects to, is refused
   * @throws OutgoingFailure
   */
  fetch(url: string, request?: OutgoingRequest): Promise<OutgoingResponse>
}

/** The request was allowed and did not work out. */
export class OutgoingFailure extends Error {
  override readonly name = 'OutgoingFailure'
  readonly kind: 'timeout' | 'transport' | 'too_large' | 'too_many_redirects'
  constructor(kind: OutgoingFailure['kind'], cause?: unknown) {
    super(`an outgoing request failed: ${kind.replaceAll('_', ' ')}`, cause === undefined ? {} : { cause })
    this.kind = kind
  }
}

const WEB_PORTS = new Set([80, 443])
const TIMEOUT_MS = 10_000
const MAX_BYTES = 1024 * 1024
const MAX_URL_LENGTH = 2_048

type Found = { readonly kind: 'ok'; readonly addresses: readonly string[] } | Refused
type Refused = { readonly kind: 'refused'; readonly why: OutgoingRefusal }

const refused = (why: OutgoingRefusal): Refused => ({ kind: 'refused', why })

/** @throws Error when an allowance cannot be read */
export function outgoingGuard(options: OutgoingOptions = {}): OutgoingGuard {
  const allowed = allowancesOf(options.allow ?? [])
  const resolve = options.resolve ?? resolveBySystem

  /** Every address has to pass: a name that answers a public and a private one is how a check is got around. */
  async function find(destination: Destination): Promise<Found> {
    const { host } = destination
    const named = allowed.names(destination)
    const literal = literalOf(host)
    if (literal === null && !named && isPrivateName(host)) return refused('is not a public address')
    const addresses = literal === null ? await resolve(host) : [literal]
    if (addresses.length === 0) return refused('cannot be found')
    const fine = (address: string): boolean => named || isPublicAddress(address) || allowed.holds(address)
    return addresses.every(fine) ? { kind: 'ok', addresses } : refused('is not a public address')
  }

  async function judge(text: string): Promise<Found & { readonly url: URL | null }> {
    const url = text.length > MAX_URL_LENGTH ? null : URL.parse(text)
    if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:') || url.hostname === '')
      return { ...refused('is not an address of the web'), url: null }
    if (url.username !== '' || url.password !== '') return { ...refused('carries credentials'), url }
    const destination = { host: hostOf(url), port: portOf(url) }
    if (!WEB_PORTS.has(destination.port) && !allowed.names(destination))
      return { ...refused('names a port that nothing is asked on'), url }
    return { ...(await find(destination)), url }
  }

  return {
    async checkTarget(url) {
      const found = await judge(url)
      if (found.kind === 'refused' && found.why !== 'cannot be found') throw refusal(found)
    },

    async addressOf({ host, port }) {
      const found = await find({ host: host.toLowerCase().replace(/\.$/, ''), port })
      if (found.kind === 'refused') throw refusal(found)
      return found.addresses[0] ?? ''
    },

    fetch: (url, request = {}) => ask(judge, url, request),
  }
}

function refusal({ why }: Refused): ValidationError {
  return new ValidationError(`This address ${why}.`)
}

function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port)
  return url.protocol === 'https:' ? 443 : 80
}

/** A name that has no address and a resolver that is out of order look the same from here, and both lead nowhere. */
async function resolveBySystem(host: string): Promise<readonly string[]> {
  try {
    return (await systemLookup(host, { all: true, verbatim: true })).map(({ address }) => address)
  } catch {
    return []
  }
}

type Judge = (url: string) => Promise<Found & { readonly url: URL | null }>

async function ask(judge: Judge, first: string, request: OutgoingRequest): Promise<OutgoingResponse> {
  const clock = AbortSignal.timeout(request.timeoutMs ?? TIMEOUT_MS)
  const signal = request.signal === undefined ? clock : AbortSignal.any([clock, request.signal])
  let next = first
  let headers = { ...request.headers }
  try {
    for (let redirects = 0; ; redirects += 1) {
      const found = await judge(next)
      signal.throwIfAborted()
      if (found.kind === 'refused' || found.url === null)
        throw refusal(found.kind === 'refused' ? found : refused('cannot be found'))
      const { url, addresses } = found
      const answered = await askOnce(url, { ...request, headers, signal, addresses })
      const to = request.method === 'POST' ? null : redirectOf(answered, url)
      if (to === null) return answered
      if (redirects >= (request.maxRedirects ?? 0)) throw new OutgoingFailure('too_many_redirects')
      if (to.origin !== url.origin) headers = harmless(headers)
      next = to.href
    }
  } catch (error) {
    if (error instanceof ValidationError || error instanceof OutgoingFailure) throw error
    request.signal?.throwIfAborted()
    throw new OutgoingFailure(clock.aborted ? 'timeout' : 'transport', error)
  }
}

type Attempt = Omit<OutgoingRequest, 'signal'> & {
  readonly signal: AbortSignal
  /** Checked; nothing else is connected to. */
  readonly addresses: readonly string[]
}

async function askOnce(url: URL, attempt: Attempt): Promise<OutgoingResponse> {
  const { method = 'GET', headers = {}, body, signal, addresses, maxBytes = MAX_BYTES } = attempt
  // An agent of its own for each request: a kept connection would outlive the check it was made under.
  const agent = new Agent({ connect: { lookup: pinned(addresses) }, pipelining: 0 })
  try {
    const response = await undiciFetch(url, {
      method,
      headers,
      signal,
      redirect: 'manual',
      dispatcher: agent,
      ...(body === undefined ? {} : { body }),
    })
    const { status } = response
    return {
      status,
      headers: new Headers([...response.headers]),
      body: await bodyOf(response, maxBytes),
      url: url.href,
    }
  } finally {
    await agent.destroy()
  }
}

async function bodyOf(response: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength
    if (size > maxBytes) throw new OutgoingFailure('too_large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, size)
}

const REDIRECTS = new Set([301, 302, 303, 307, 308])

function redirectOf({ status, headers }: OutgoingResponse, from: URL): URL | null {
  const location = headers.get('location')
  return REDIRECTS.has(status) && location !== null ? URL.parse(location, from.href) : null
}

/** A key may travel under any name, so what is harmless is listed and not what is not. */
const HARMLESS = new Set(['accept', 'accept-language', 'user-agent'])

function harmless(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => HARMLESS.has(name.toLowerCase())))
}

/** Answers the checked addresses, whatever name is asked for. */
function pinned(addresses: readonly string[]) {
  const all = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
  return (
    _host: string,
    options: { readonly all?: boolean | undefined },
    done: (error: Error | null, found: string | typeof all, family?: number) => void,
  ): void => {
    const [first] = all
    if (options.all === true) done(null, all)
    else done(first === undefined ? new Error('no address') : null, first?.address ?? '', first?.family ?? 4)
  }
}
