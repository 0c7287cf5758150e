import { Inngest, type InngestFunction } from 'inngest'
import { serve } from 'inngest/edge'
import type { DurableEngine, EngineWork, EnqueueOptions } from '../../runs/engine.ts'
import { checkWork, EngineWorkError, jobNamed } from '../../runs/engine-work.ts'
import { segmentSlots, type SegmentSlots } from '../../runs/segment-slots.ts'
import type { Logger } from '../../tools/invoker.ts'
import type { JsonValue } from '../../tools/json.ts'
import { advanceRun } from './advance-run.ts'
import { cronFunctions, sweepFunction } from './clock.ts'
import { jobEvent, wakeEvent, type EngineEvent, type WakeData } from './events.ts'
import type { FunctionParts } from './function-parts.ts'
import { jobFunctions } from './jobs.ts'
import { keepRegistered } from './registration.ts'

export interface InngestEngineOptions {
  /** Names the app at Inngest and its functions; one for all processes of a deployment. */
  readonly appId?: string
  /** Allows sending events. A development server takes any. */
  readonly eventKey?: string
  /** Signs what Inngest asks of us. Required unless `dev`: what is unsigned is refused. */
  readonly signingKey?: string
  /** Of a self-hosted or a development server; without it, Inngest’s cloud. */
  readonly baseUrl?: string
  /** A development server, which signs nothing. Never where others can reach the handler. */
  readonly dev?: boolean
  /** Where Inngest reaches the handler, such as https://bailiff.acme.test/api/inngest. With it, the functions are registered at the start. */
  readonly serveUrl?: string
  readonly logger: Logger
  /** Segments this process runs at the same time. */
  readonly concurrency?: number
  /** Segments of one lane of one organization that Inngest asks for at the same time; the lane's own limit is looked at when a segment begins. */
  readonly perLane?: number
  readonly fetch?: typeof fetch
  /** A client of your own instead: its id, keys and addresses are used, and it must not checkpoint. */
  readonly client?: Inngest
}

export interface InngestEngine extends DurableEngine {
  /** Answers Inngest's requests. Serve it where `serveUrl` says. */
  readonly handler: (request: Request) => Promise<Response>
}

/** Segments that one process runs at the same time, unless it is told otherwise. */
export const INNGEST_CONCURRENCY = 8
const PER_LANE = 20
const MAX_EVENTS = 100

/** Durable work by Inngest: it wakes, the rows decide. Any number of processes may serve one app. */
export function inngestEngine(options: InngestEngineOptions): InngestEngine {
  const { dev = false, signingKey, client } = options
  if (client === undefined && !dev && (signingKey === undefined || signingKey === ''))
    throw new EngineWorkError('Inngest needs a signing key: without one, anybody could ask for work')
  return new EventEngine(options)
}

class EventEngine implements InngestEngine {
  readonly name = 'inngest'
  readonly #options: InngestEngineOptions
  readonly #client: Inngest
  readonly #slots: SegmentSlots
  readonly #inFlight = new Set<Promise<Response>>()
  #work: EngineWork | null = null
  #serve: ((request: Request) => Promise<Response>) | null = null
  #registration: { stop(): void } | null = null

  constructor(options: InngestEngineOptions) {
    this.#options = options
    this.#client = options.client ?? clientOf(options)
    this.#slots = segmentSlots(options.concurrency ?? INNGEST_CONCURRENCY)
  }

  async start(work: EngineWork): Promise<void> {
    checkWork(work)
    const { logger, serveUrl } = this.#options
    this.#work = work
    const functions = this.#functions(work)
    const address = serveUrl === undefined ? {} : addressOf(serveUrl)
    // Unsigned requests for a registration are refused too: they would register the host they name.
    this.#serve = serve({ client: this.#client, functions, enableUnauthedSync: false, ...address })
    if (serveUrl === undefined) return
    const register = serve({ client: this.#client, functions, ...address })
    const headers = { host: new URL(serveUrl).host }
    this.#registration = keepRegistered(() => register(new Request(serveUrl, { method: 'PUT', headers })), logger)
  }

  readonly handler = async (request: Request): Promise<Response> => {
    const serving = this.#serve
    if (serving === null) return new Response(null, { status: 503, headers: { 'retry-after': '5' } })
    const answer = serving(request)
    this.#inFlight.add(answer)
    return answer.finally(() => this.#inFlight.delete(answer))
  }

  async wake(runId: string, at?: Date): Promise<void> {
    await this.#wakeAll([runId], at)
  }

  async enqueue(name: string, payload: JsonValue, { id, at }: EnqueueOptions = {}): Promise<void> {
    const job = jobNamed(this.#work, name)
    const timing = at === undefined ? {} : { at: at.toISOString() }
    await this.#send([
      {
        name: job.event ?? jobEvent(name),
        ...(id === undefined ? {} : { id }),
        data: { data: payload, ...timing },
      },
    ])
  }

  async stop(graceMs: number): Promise<void> {
    this.#registration?.stop()
    this.#serve = null
    this.#slots.close()
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, graceMs)
    await Promise.race([Promise.allSettled(this.#inFlight), late.promise])
    clearTimeout(timer)
  }

  #functions(work: EngineWork): InngestFunction.Any[] {
    const { logger, perLane } = this.#options
    const parts: FunctionParts = { client: this.#client, work, logger }
    return [
      advanceRun({ ...parts, slots: this.#slots, perLane: perLane ?? PER_LANE, wake: (runId) => this.wake(runId) }),
      sweepFunction({ ...parts, wakeAll: (runIds) => this.#wakeAll(runIds) }),
      ...cronFunctions(parts),
      ...jobFunctions(parts),
    ]
  }

  /** A run that has ended needs no waking. */
  async #wakeAll(runIds: readonly string[], at?: Date): Promise<void> {
    const work = this.#work
    if (work === null) throw new EngineWorkError('the engine was not started')
    const events: EngineEvent[] = []
    for (const runId of runIds) {
      const look = await work.look(runId)
      if (look === null) continue
      const { organizationId, lane } = look
      const data: WakeData = { runId, organizationId, lane }
      events.push(wakeEvent(at === undefined ? data : { ...data, at: at.toISOString() }))
    }
    for (let from = 0; from < events.length; from += MAX_EVENTS) await this.#send(events.slice(from, from + MAX_EVENTS))
  }

  async #send(events: readonly EngineEvent[]): Promise<void> {
    await this.#client.send(events.map(({ name, id, data }) => ({ name, data, ...(id === undefined ? {} : { id }) })))
  }
}

function clientOf({ appId, eventKey, signingKey, baseUrl, dev, fetch, logger }: InngestEngineOptions): Inngest {
  const given = { eventKey, signingKey, baseUrl, fetch }
  return new Inngest({
    id: appId ?? 'bailiff',
    isDev: dev ?? false,
    // A step's record is sent with its answer. While it is sent apart, a request that Inngest has given up on can still
    // record steps, and they run twice.
    checkpointing: false,
    aiMetadata: false,
    logger: sdkLogger(logger),
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
  })
}

function addressOf(serveUrl: string): { readonly serveOrigin: string; readonly servePath: string } {
  const { origin, pathname } = new URL(serveUrl)
  return { serveOrigin: origin, servePath: pathname }
}

/** The SDK logs as pino does: fields first. */
function sdkLogger(logger: Logger) {
  const line =
    (level: 'info' | 'warn' | 'error') =>
    (...args: unknown[]): void => {
      const [first, second] = args
      if (typeof first === 'string') logger[level](`inngest: ${first}`)
      else logger[level](`inngest: ${typeof second === 'string' ? second : 'see the details'}`, { detail: first })
    }
  return { debug: () => undefined, info: line('info'), warn: line('warn'), error: line('error') }
}
