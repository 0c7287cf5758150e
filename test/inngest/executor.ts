import { tickAt } from '../../src/runs/cron.ts'
import {
  evaluate,
  invocationRequest,
  syncRequest,
  type FunctionConfig,
  type Invocation,
  type Memo,
  type Op,
  type Signing,
  type StoredEvent,
} from './protocol.ts'

export type Handler = (request: Request) => Promise<Response>

/** What the executor may do to a request on purpose. */
export type Mischief =
  /** The answer never arrives. */
  | 'drop-the-answer'
  /** The same request is made twice at once; the first answer counts. */
  | 'deliver-twice'
  /** It is given up on while the handler still works, and the next attempt is made at once. */
  | 'give-up'

export interface Attempt extends Pick<Invocation, 'fnId' | 'runId' | 'stepId' | 'attempt'> {
  /** Requests so far, this one included. */
  readonly number: number
}

export interface FunctionRun {
  readonly id: string
  readonly fnId: string
  readonly event: StoredEvent
  readonly steps: Map<string, Memo>
  state: 'running' | 'completed' | 'failed'
  output: unknown
}

interface QueueItem {
  readonly run: FunctionRun
  readonly stepId: string
  readonly attempt: number
  readonly at: number
}

interface Wait {
  readonly run: FunctionRun
  readonly stepId: string
  readonly event: string
  readonly condition: string | undefined
  readonly until: number
}

interface ConcurrencyLimit {
  readonly key: string | undefined
  readonly limit: number
}

export interface ExecutorOptions extends Signing {
  readonly start?: Date
  /** How much of a minute is over at the start, for functions that run by the minute; as its clock says without. */
  readonly intoMinuteMs?: number
}

const DAY_MS = 86_400_000
const BACKOFF_MS = 10_000
const MINUTE_MS = 60_000

/**
 * Drives the real serve handler of an app by Inngest's protocol, request by request, under a clock of its own: steps are
 * remembered by the hash of their id, attempts counted, waits matched or timed out, failed functions told. Does what a
 * server may do wrong when it is asked to.
 */
export class InngestExecutor {
  readonly runs: FunctionRun[] = []
  readonly requests: (Attempt & { readonly status: number | null; readonly answer: string })[] = []
  readonly functions = new Map<string, FunctionConfig>()
  readonly events: StoredEvent[] = []
  /** Asked before every request. */
  mischief: (attempt: Attempt) => Mischief | null = () => null
  /** Fails the delivery of events. */
  refuseEvents = false
  /** Where the app said it is. */
  address: string | null = null
  readonly #options: ExecutorOptions
  readonly #handlers: Handler[] = []
  readonly #seen = new Map<string, number>()
  readonly #inFlight = new Map<Promise<void>, QueueItem>()
  readonly #lastTicks = new Map<string, number>()
  #queue: QueueItem[] = []
  #waits: Wait[] = []
  #clock: number
  /** What the minutes are ahead of the clock. */
  readonly #aheadMs: number
  #count = 0

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#clock = (options.start ?? new Date(Date.UTC(2026, 2, 1, 12, 0, 30))).getTime()
    this.#aheadMs = options.intoMinuteMs === undefined ? 0 : options.intoMinuteMs - (this.#clock % MINUTE_MS)
  }

  now(): Date {
    return new Date(this.#clock)
  }

  /** The network as the app's client sees it: takes events and registrations. */
  readonly fetch: typeof fetch = async (input, init) => {
    const request = new Request(input, init)
    const { pathname } = new URL(request.url)
    const body: unknown = await request.json()
    if (pathname.startsWith('/e/')) {
      if (this.refuseEvents) return Response.json({ status: 500, error: 'the server is down' }, { status: 500 })
      return Response.json({ ids: this.#receive(body as Omit<StoredEvent, 'id'>[]), status: 200 })
    }
    if (pathname === '/fn/register') {
      const { url, functions } = body as { readonly url: string; readonly functions: FunctionConfig[] }
      this.address = url
      for (const config of functions) this.functions.set(config.id, config)
      return Response.json({ status: 200, modified: true })
    }
    return Response.json({}, { status: 404 })
  }

  /** Adds a process of the app, and asks it which functions there are. */
  async sync(handler: Handler): Promise<Response> {
    this.#handlers.push(handler)
    const answer = await handler(syncRequest(this.#options))
    // A minute that has begun already is not ticked.
    for (const id of this.functions.keys())
      if (!this.#lastTicks.has(id))
        this.#lastTicks.set(id, Math.floor((this.#clock + this.#aheadMs) / MINUTE_MS) * MINUTE_MS)
    return answer
  }

  /** Sends what is due. Time passes only while nobody works. */
  async pump(passMs = 1000): Promise<void> {
    this.#fireDue()
    for (const item of this.#runnable()) this.#dispatch(item)
    if (this.#inFlight.size > 0) await new Promise((resolve) => setImmediate(resolve))
    else this.#clock += passMs
  }

  /** Until nothing is due and nobody works; time stands still. */
  async settle(): Promise<void> {
    for (let pumps = 0; pumps < 100_000; pumps += 1) {
      this.#fireDue()
      for (const item of this.#runnable()) this.#dispatch(item)
      if (this.#inFlight.size === 0) return
      await new Promise((resolve) => setImmediate(resolve))
    }
    throw new Error('it never settled')
  }

  /** Lets time pass, stopping at everything that becomes due on the way. */
  async pass(ms: number): Promise<void> {
    const end = this.#clock + ms
    await this.settle()
    for (;;) {
      const next = this.#nextDue()
      if (next === null || next > end) break
      this.#clock = Math.max(this.#clock, next)
      await this.settle()
    }
    this.#clock = end
    await this.settle()
  }

  /** A delivery that was lost on the way arrives after all: the first request of a function run, once more. */
  async deliverAgain(run: FunctionRun, steps: ReadonlyMap<string, Memo> = new Map()): Promise<Response> {
    const { fnId, id: runId, event } = run
    const maxAttempts = this.#maxAttempts(fnId)
    const again: Invocation = { fnId, runId, event, steps, stepId: 'step', attempt: 0, maxAttempts }
    return this.#handle(invocationRequest(again, this.#signing))
  }

  runsOf(fnId: string): FunctionRun[] {
    return this.runs.filter((run) => run.fnId === fnId)
  }

  waiting(): readonly { readonly runId: string; readonly until: Date }[] {
    return this.#waits.map(({ run, until }) => ({ runId: run.id, until: new Date(until) }))
  }

  #receive(payloads: readonly (Partial<StoredEvent> & Omit<StoredEvent, 'id'>)[]): string[] {
    return payloads.map(({ id, name, data }) => {
      this.#count += 1
      const event: StoredEvent = { id: id ?? `event-${this.#count}`, name, data, ts: this.#clock }
      // Twice within a day, an event is kept and starts nothing.
      const before = this.#seen.get(event.id)
      if (before !== undefined && this.#clock - before < DAY_MS) return event.id
      this.#seen.set(event.id, this.#clock)
      this.#publish(event)
      return event.id
    })
  }

  #publish(event: StoredEvent): void {
    this.events.push(event)
    for (const wait of this.#waits.filter((one) => matches(one, event))) this.#resume(wait, { data: event })
    for (const { id, triggers } of this.functions.values())
      for (const trigger of triggers)
        if (
          trigger.event === event.name &&
          (trigger.expression === undefined || evaluate(trigger.expression, { event }) === true)
        )
          this.#startRun(id, event)
  }

  #startRun(fnId: string, event: StoredEvent): void {
    this.#count += 1
    const run: FunctionRun = { id: `run-${this.#count}`, fnId, event, steps: new Map(), state: 'running', output: null }
    this.runs.push(run)
    this.#queue.push({ run, stepId: 'step', attempt: 0, at: this.#clock })
  }

  #fireDue(): void {
    for (const wait of this.#waits.filter(({ until }) => until <= this.#clock)) this.#resume(wait, null)
    for (const { id, triggers } of this.functions.values())
      for (const { cron } of triggers) {
        const tick =
          cron === undefined ? null : tickAt(cron.replace(/^TZ=UTC /, ''), new Date(this.#clock + this.#aheadMs))
        if (cron === undefined || tick === null || this.#lastTicks.get(id) === tick.getTime()) continue
        this.#lastTicks.set(id, tick.getTime())
        this.#count += 1
        this.#startRun(id, {
          id: `event-${this.#count}`,
          name: 'inngest/scheduled.timer',
          data: { cron },
          ts: tick.getTime(),
        })
      }
  }

  #resume(wait: Wait, memo: Memo): void {
    this.#waits = this.#waits.filter((one) => one !== wait)
    wait.run.steps.set(wait.stepId, memo)
    this.#queue.push({ run: wait.run, stepId: 'step', attempt: 0, at: this.#clock })
  }

  #nextDue(): number | null {
    const crons = [...this.functions.values()].some(({ triggers }) => triggers.some(({ cron }) => cron !== undefined))
    const times = [
      ...this.#queue.map(({ at }) => at),
      ...this.#waits.map(({ until }) => until),
      ...(crons ? [Math.floor((this.#clock + this.#aheadMs) / MINUTE_MS + 1) * MINUTE_MS - this.#aheadMs] : []),
    ].filter((time) => time > this.#clock)
    return times.length === 0 ? null : Math.min(...times)
  }

  /** In order of arrival, as far as the concurrency keys of their functions let them. */
  #runnable(): QueueItem[] {
    const taken: QueueItem[] = []
    for (const item of this.#queue) {
      if (item.at > this.#clock) continue
      const working = [...this.#inFlight.values(), ...taken].filter(({ run }) => run.fnId === item.run.fnId)
      const full = limitsOf(this.functions.get(item.run.fnId)).some(({ key, limit }) => {
        const mine = keyOf(key, item)
        return working.filter((other) => keyOf(key, other) === mine).length >= limit
      })
      if (!full) taken.push(item)
    }
    this.#queue = this.#queue.filter((item) => !taken.includes(item))
    return taken
  }

  #dispatch(item: QueueItem): void {
    const work = this.#invoke(item).finally(() => this.#inFlight.delete(work))
    this.#inFlight.set(work, item)
  }

  async #invoke(item: QueueItem): Promise<void> {
    const { run, stepId, attempt } = item
    const maxAttempts = this.#maxAttempts(run.fnId)
    const number = this.requests.length + 1
    const about: Attempt = { fnId: run.fnId, runId: run.id, stepId, attempt, number }
    const request = (): Request =>
      invocationRequest({ ...about, event: run.event, steps: run.steps, maxAttempts }, this.#signing)
    const mischief = this.mischief(about)
    this.requests.push({ ...about, status: null, answer: '' })
    const answering = this.#handle(request())
    if (mischief === 'deliver-twice') void this.#handle(request())
    if (mischief === 'give-up') return this.#retry(item, { name: 'Error', message: 'no answer in time' })
    const answer = await answering
    const text = await answer.text()
    this.requests[number - 1] = { ...about, status: answer.status, answer: text }
    if (mischief === 'drop-the-answer') return this.#retry(item, { name: 'Error', message: 'the connection was lost' })
    this.#digest(item, { status: answer.status, headers: answer.headers, text })
  }

  /** A process that does not serve is passed over. */
  async #handle(request: Request): Promise<Response> {
    let last = new Response(null, { status: 503 })
    const handlers = this.#handlers.length > 0 ? this.#handlers : [overTheNetwork]
    for (const handler of handlers) {
      last = await handler(request.clone())
      if (last.status !== 503) return last
    }
    return last
  }

  #digest(
    item: QueueItem,
    answer: { readonly status: number; readonly headers: Headers; readonly text: string },
  ): void {
    const { run } = item
    if (answer.status === 206) return this.#take(item, JSON.parse(answer.text) as Op[])
    if (answer.status === 200) {
      run.state = 'completed'
      run.output = JSON.parse(answer.text)
      return
    }
    const error =
      answer.text === '' ? { name: 'Error', message: `status ${answer.status}` } : (JSON.parse(answer.text) as unknown)
    if (answer.headers.get('x-inngest-no-retry') === 'true') return this.#fail(run, error)
    this.#retry(item, error)
  }

  #take(item: QueueItem, ops: readonly Op[]): void {
    const { run } = item
    const again = (at = this.#clock): void => void this.#queue.push({ run, stepId: 'step', attempt: 0, at })
    for (const op of ops)
      switch (op.op) {
        case 'StepRun':
          run.steps.set(op.id, { data: op.data ?? null })
          again()
          break
        case 'StepFailed':
          run.steps.set(op.id, { error: op.error })
          again()
          break
        case 'StepError':
          this.#retry(item, op.error)
          break
        case 'StepPlanned':
          this.#queue.push({ run, stepId: op.id, attempt: 0, at: this.#clock })
          break
        case 'Sleep':
          run.steps.set(op.id, null)
          again(timeOf(op.name))
          break
        case 'WaitForEvent':
          this.#waits.push({
            run,
            stepId: op.id,
            event: op.name ?? '',
            condition: op.opts?.if,
            until: timeOf(op.opts?.timeout),
          })
          break
        default:
          throw new Error(`the app asks for ${op.op}, which nobody here does`)
      }
  }

  #retry(item: QueueItem, error: unknown): void {
    const { run, attempt } = item
    if (attempt + 1 >= this.#maxAttempts(run.fnId)) return this.#fail(run, error)
    this.#queue.push({ ...item, attempt: attempt + 1, at: this.#clock + BACKOFF_MS * 2 ** attempt })
  }

  #fail(run: FunctionRun, error: unknown): void {
    run.state = 'failed'
    this.#count += 1
    this.#publish({
      id: `event-${this.#count}`,
      name: 'inngest/function.failed',
      data: { function_id: run.fnId, run_id: run.id, error, event: run.event },
      ts: this.#clock,
    })
  }

  get #signing(): Signing {
    return { url: this.address ?? this.#options.url, signingKey: this.#options.signingKey }
  }

  #maxAttempts(fnId: string): number {
    return (this.functions.get(fnId)?.steps.step.retries?.attempts ?? 3) + 1
  }
}

/** A process that cannot be reached is one that does not serve. */
const overTheNetwork: Handler = (request) => fetch(request).catch(() => new Response(null, { status: 503 }))

function matches({ run, event, condition }: Wait, arrived: StoredEvent): boolean {
  if (event !== arrived.name) return false
  return condition === undefined || evaluate(condition, { event: run.event, async: arrived }) === true
}

function limitsOf(config: FunctionConfig | undefined): ConcurrencyLimit[] {
  const given = config?.concurrency
  if (given === undefined || given === null) return []
  if (typeof given === 'number') return [{ key: undefined, limit: given }]
  return (Array.isArray(given) ? given : [given]) as ConcurrencyLimit[]
}

function keyOf(key: string | undefined, { run }: QueueItem): unknown {
  return key === undefined ? null : evaluate(key, { event: run.event })
}

function timeOf(text: string | undefined): number {
  const time = Date.parse(text ?? '')
  if (Number.isNaN(time)) throw new Error(`our functions wait until an instant, not ${String(text)}`)
  return time
}
