import { createRoute, z } from '@hono/zod-openapi'
import { streamSSE, type SSEStreamingApi } from 'hono/streaming'
import type { Core } from '../../core.ts'
import { OPEN_STATUSES } from '../../runs/definition.ts'
import { runVersion } from '../../storage/run-version.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import type { Reader } from '../json.ts'
import { readTree } from '../run-view.ts'
import { IdParam } from '../schemas.ts'
import { unknownRun } from './runs.ts'
import { router } from './shapes.ts'

const events = createRoute({
  method: 'get',
  path: '/runs/{id}/events',
  summary: 'The run as it happens, until it ends (server-sent events)',
  description:
    'First `tree` ({ run, spans }), then `run` and `span` for whatever changed, `text` ({ delta }) while the model speaks in this process, and `end` ({ run }) last. A reconnect starts with the tree again.',
  middleware: requires('runs.read'),
  request: { params: IdParam },
  responses: { 200: { description: 'The stream', content: { 'text/event-stream': { schema: z.string() } } } },
})

/** Milliseconds between two looks for changes that another process made. */
const POLL_MS = 1_000
/** Milliseconds of silence after which a comment keeps proxies from hanging up. */
const HEARTBEAT_MS = 15_000

export function runEventRoutes({ core, closing }: RouteDependencies): App {
  const routes = router()
  routes.openapi(events, async (c) => {
    const reader = c.get('identity')
    const { organizationId } = reader
    const { id } = c.req.valid('param')
    if ((await core.stores.runs.get(organizationId, id)) === null) throw unknownRun()
    c.header('x-accel-buffering', 'no')
    return streamSSE(c, async (stream) => {
      const view = new RunStream(core, stream, { organizationId, runId: id, reader })
      await view.follow(AbortSignal.any([closing, disconnected(stream)]))
    })
  })
  return routes
}

function disconnected(stream: SSEStreamingApi): AbortSignal {
  const controller = new AbortController()
  stream.onAbort(() => controller.abort())
  return controller.signal
}

interface Watched {
  readonly organizationId: string
  readonly runId: string
  readonly reader: Reader
}

/** What one viewer has been told about one run. */
class RunStream {
  readonly #core: Core
  readonly #stream: SSEStreamingApi
  readonly #watched: Watched
  /** Last JSON sent, by span id; the run's own stands under `run`. */
  readonly #sent = new Map<string, string>()
  #version: string | null = null
  #lastLook = 0
  #lastWrite = 0
  #wake: () => void = () => undefined
  #dirty = false
  #deltas: string[] = []

  constructor(core: Core, stream: SSEStreamingApi, watched: Watched) {
    this.#core = core
    this.#stream = stream
    this.#watched = watched
  }

  async follow(signal: AbortSignal): Promise<void> {
    const unsubscribe = this.#core.live.subscribe(this.#watched.runId, (event) => {
      if (event.kind === 'text') this.#deltas.push(event.delta)
      else this.#dirty = true
      this.#wake()
    })
    const onAbort = (): void => this.#wake()
    signal.addEventListener('abort', onAbort)
    try {
      while (!signal.aborted) {
        await this.#sendText()
        if (this.#isDue() && (await this.#sendChanges())) return
        await this.#pause(signal)
      }
    } finally {
      unsubscribe()
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Waits for news of this process or for the next poll. */
  async #pause(signal: AbortSignal): Promise<void> {
    if (this.#dirty || this.#deltas.length > 0 || signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    const timer = setTimeout(resolve, POLL_MS)
    await promise
    clearTimeout(timer)
    if (this.#now() - this.#lastWrite >= HEARTBEAT_MS) {
      this.#lastWrite = this.#now()
      await this.#stream.write(': still here\n\n')
    }
  }

  async #sendText(): Promise<void> {
    if (this.#version === null || this.#deltas.length === 0) return
    const delta = this.#deltas.splice(0).join('')
    await this.#send('text', { delta })
  }

  /** Words of the model come many a second, and none of them is a reason to ask the database. */
  #isDue(): boolean {
    return this.#dirty || this.#now() - this.#lastLook >= POLL_MS
  }

  /** Answers whether that was the end of the run. */
  async #sendChanges(): Promise<boolean> {
    this.#dirty = false
    this.#lastLook = this.#now()
    const { organizationId, runId } = this.#watched
    const version = await runVersion(this.#core.database, organizationId, runId)
    if (version !== null && version === this.#version) return false
    const row = await this.#core.stores.runs.get(organizationId, runId)
    // Deleted while it was watched: there is nothing left to tell.
    if (version === null || row === null) return true
    const { run, spans } = await readTree(this.#core, row, this.#watched.reader)
    const first = this.#version === null
    this.#version = version
    const changedSpans = spans.filter((span) => this.#isNews(span.id, span))
    const runChanged = this.#isNews('run', run)
    if (first) {
      // The tree tells how far the run has come; words from before it would be told twice.
      this.#deltas.length = 0
      await this.#send('tree', { run, spans })
    } else {
      // Words come before what they led to: a turn that was recorded meanwhile had all been said.
      await this.#sendText()
      for (const span of changedSpans) await this.#send('span', span)
      if (runChanged) await this.#send('run', run)
    }
    if (OPEN_STATUSES.includes(row.status)) return false
    await this.#send('end', { run })
    return true
  }

  #isNews(key: string, value: object): boolean {
    const text = JSON.stringify(value)
    if (this.#sent.get(key) === text) return false
    this.#sent.set(key, text)
    return true
  }

  async #send(event: string, data: object): Promise<void> {
    this.#lastWrite = this.#now()
    await this.#stream.writeSSE({ event, data: JSON.stringify(data) })
  }

  #now(): number {
    return this.#core.now().getTime()
  }
}
