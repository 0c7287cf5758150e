import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { resolve } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { scriptPlayer, type Script } from '../src/testing/script.ts'
import { anthropicWire } from './model-wire-anthropic.ts'
import { openAiWire } from './model-wire-openai.ts'
import { WireRefusal, type WireEvent } from './model-wire.ts'

export interface RecordedModelRequest {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: unknown
  readonly status: number
}

export interface ModelServerSettings {
  readonly next: Script
  /** 0 takes a free port. */
  readonly port?: number
  /** Status of a turn that fails. A client retries 429 and 5xx by itself. */
  readonly failStatus?: number
  /** Streams end without a count of tokens, as those of some servers do whatever they are asked. */
  readonly withoutUsage?: boolean
}

export interface ModelServer {
  /** Base URL for `openai-compatible/…` models. */
  readonly openAiBaseUrl: string
  /** Base URL for `anthropic/…` models. */
  readonly anthropicBaseUrl: string
  /** Every request so far, refused ones included. */
  readonly requests: readonly RecordedModelRequest[]
  close(): Promise<void>
}

const HOST = '127.0.0.1'

/** Answers as the OpenAI chat completions API and the Anthropic messages API do, with the turns of a script. */
export async function startModelServer(settings: ModelServerSettings): Promise<ModelServer> {
  const requests: RecordedModelRequest[] = []
  const play = scriptPlayer(settings.next)
  const wires = [openAiWire, anthropicWire]
  const server = createServer((request, response) => {
    void serve(request, response)
  })

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? ''
    const wire = wires.find((candidate) => candidate.path === path)
    const body = parsed(await readText(request))
    const record = (status: number): void => void requests.push({ path, headers: request.headers, body, status })
    if (wire === undefined || request.method !== 'POST') {
      record(404)
      sendJson(response, 404, { error: { message: `no such endpoint: ${request.method} ${path}` } })
      return
    }
    try {
      const read = wire.read(body, request.headers)
      const asked = settings.withoutUsage === true ? { ...read, reportsUsage: false } : read
      const turn = play(asked.transcript)
      if (turn.fail !== null && turn.text === '') throw new WireRefusal(turn.fail.message, settings.failStatus ?? 500)
      record(200)
      if (asked.stream) sendEvents(response, wire.events(turn, asked))
      else sendJson(response, 200, wire.whole(turn, asked))
    } catch (error) {
      const status = error instanceof WireRefusal ? error.status : 500
      record(status)
      sendJson(response, status, wire.error(status, error instanceof Error ? error.message : 'unknown error'))
    }
  }

  await new Promise<void>((listening) => server.listen(settings.port ?? 0, HOST, listening))
  const { port } = server.address() as AddressInfo
  return {
    openAiBaseUrl: `http://${HOST}:${port}/openai/v1`,
    anthropicBaseUrl: `http://${HOST}:${port}/anthropic/v1`,
    requests,
    async close() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

function sendEvents(response: ServerResponse, events: readonly WireEvent[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  for (const { event, data } of events) {
    if (event !== undefined) response.write(`event: ${event}\n`)
    response.write(`data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`)
  }
  response.end()
}

/** `node simulators/model-server.ts --script <file> --port 0`: prints both base URLs once it listens. */
async function main(): Promise<void> {
  const { values } = parseArgs({ options: { script: { type: 'string' }, port: { type: 'string', default: '0' } } })
  if (values.script === undefined) throw new Error('--script <file> is required: a module that exports `next`')
  const module = (await import(pathToFileURL(resolve(values.script)).href)) as { readonly next: Script }
  const server = await startModelServer({ next: module.next, port: Number(values.port) })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void server.close())
  console.log(`openai-compatible ${server.openAiBaseUrl}`)
  console.log(`anthropic ${server.anthropicBaseUrl}`)
}

if (import.meta.main) await main()
