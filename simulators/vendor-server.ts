import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'

/** One request as the vendor saw it. */
export interface VendorRequest {
  readonly method: string
  /** Path without the query. */
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
  /** Parsed JSON; null when there was no body or it was no JSON. */
  readonly body: unknown
  readonly raw: Buffer
}

export interface VendorAnswer {
  readonly status: number
  /** Sent as JSON. */
  readonly body: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** What goes wrong with one request. */
export type VendorFault =
  /** Answers as usual, later. Milliseconds. */
  | { readonly kind: 'latency'; readonly ms: number }
  /** Answers this instead; the vendor has done nothing. A string is sent as it is, as plain text. */
  | {
      readonly kind: 'answer'
      readonly status: number
      readonly body?: unknown
      readonly headers?: Readonly<Record<string, string>>
    }
  /** Never answers. */
  | { readonly kind: 'hang' }
  /** Sends the headers of a success and never ends the body. */
  | { readonly kind: 'stalled_body' }
  /** Status 200, a JSON content type, and no JSON. */
  | { readonly kind: 'malformed' }
  /** Status 200 and an HTML page. */
  | { readonly kind: 'html' }
  | { readonly kind: 'empty_body' }
  /** Breaks the connection off before anything happened. */
  | { readonly kind: 'reset' }
  /** Does the work and breaks the connection off instead of answering. */
  | { readonly kind: 'lost_answer' }
  /** 307 to another origin. */
  | { readonly kind: 'redirect'; readonly to: string }

export interface RecordedVendorRequest extends VendorRequest {
  /** Null when no answer was sent. */
  readonly status: number | null
  readonly fault: VendorFault['kind'] | null
}

export interface VendorServer {
  readonly url: string
  /** Every request so far, refused ones included. */
  readonly requests: readonly RecordedVendorRequest[]
  /** Faults for the next requests, one each, in this order; after them the vendor works again. */
  play(...faults: readonly VendorFault[]): void
  /** Forgets requests and faults. */
  reset(): void
  close(): Promise<void>
}

/** What a vendor does with a request when nothing goes wrong. */
export type VendorBehaviour = (request: VendorRequest) => VendorAnswer | Promise<VendorAnswer>

export interface VendorServerOptions {
  readonly behaviour: VendorBehaviour
  /** 0 takes a free port. */
  readonly port?: number
}

const HOST = '127.0.0.1'

/** The loopback half of every vendor simulator: records what arrived and plays faults; the behaviour is the vendor's own. */
export async function startVendorServer({ behaviour, port = 0 }: VendorServerOptions): Promise<VendorServer> {
  const requests: RecordedVendorRequest[] = []
  const queue: VendorFault[] = []
  const closing = new AbortController()
  const server = createServer((incoming, response) => {
    serve(incoming, response).catch(() => incoming.socket.destroy())
  })

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const request = await read(incoming)
    const fault = queue.shift() ?? null
    const record = (status: number | null): void =>
      void requests.push({ ...request, status, fault: fault?.kind ?? null })
    if (fault === null) return send(response, await behaviour(request), record)
    if (fault.kind === 'latency') {
      await delay(fault.ms, undefined, { signal: closing.signal }).catch(() => undefined)
      return send(response, await behaviour(request), record)
    }
    // What the vendor did stays done, whether or not anybody hears of it.
    if (fault.kind === 'lost_answer') await behaviour(request)
    playFault(fault, response, record)
  }

  await new Promise<void>((listening, failed) => {
    server.once('error', failed)
    server.listen(port, HOST, listening)
  })
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}`,
    requests,
    play: (...faults) => void queue.push(...faults),
    reset() {
      requests.length = 0
      queue.length = 0
    },
    async close() {
      closing.abort()
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

async function read(incoming: IncomingMessage): Promise<VendorRequest> {
  const url = new URL(incoming.url ?? '/', `http://${HOST}`)
  const raw = await buffer(incoming)
  return {
    method: incoming.method ?? '',
    path: url.pathname,
    query: url.searchParams,
    headers: incoming.headers,
    body: parsed(raw.toString('utf8')),
    raw,
  }
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body) as unknown
  } catch {
    return null
  }
}

type Recorder = (status: number | null) => void

function playFault(
  fault: Exclude<VendorFault, { readonly kind: 'latency' }>,
  response: ServerResponse,
  record: Recorder,
): void {
  switch (fault.kind) {
    case 'answer':
      return send(response, { ...fault, body: fault.body ?? {} }, record)
    case 'redirect':
      return send(response, { status: 307, body: {}, headers: { location: fault.to } }, record)
    case 'malformed':
      return send(response, { status: 200, body: '{"results": [', headers: JSON_TYPE }, record)
    case 'html':
      return send(
        response,
        { status: 200, body: '<!doctype html><h1>Maintenance</h1>', headers: { 'content-type': 'text/html' } },
        record,
      )
    case 'empty_body':
      return send(response, { status: 200, body: '', headers: JSON_TYPE }, record)
    case 'stalled_body':
      record(200)
      response.writeHead(200, JSON_TYPE)
      response.write('{"')
      return
    case 'hang':
      return record(null)
    case 'lost_answer':
    case 'reset':
      record(null)
      response.destroy()
  }
}

const JSON_TYPE = { 'content-type': 'application/json' }

function send(response: ServerResponse, answer: VendorAnswer, record: Recorder): void {
  const { status, body, headers = {} } = answer
  record(status)
  const plain = typeof body === 'string'
  response.writeHead(status, { 'content-type': plain ? 'text/plain' : 'application/json', ...headers })
  response.end(plain ? body : JSON.stringify(body))
}
