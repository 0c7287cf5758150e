import { tickAt } from '../runs/cron.ts'
import type { DurableEngine, EngineWork } from '../runs/engine.ts'
import { ADVANCE_TRIES, checkWork, faultKind, jobNamed, WorkFault } from '../runs/engine-work.ts'
import type { JsonValue } from '../tools/json.ts'

export interface ManualEngine extends DurableEngine {
  /**
   * Advances every woken run and does every job that is due, in order, until nothing is left to do now. Answers how many
   * segments ran. What fails is tried again behind the others; the first whose tries are spent is raised at the end.
   */
  settle(): Promise<number>
  /** Does what an engine does from time to time: closes what expired and wakes what is due. */
  sweep(): Promise<void>
  /** Runs every cron whose tick has begun and was not run yet. */
  tick(): Promise<void>
}

export interface ManualEngineOptions {
  readonly now?: () => Date
}

interface QueuedJob {
  readonly name: string
  readonly payload: JsonValue
  readonly at: Date | undefined
  readonly attempt: number
}

/** An engine without time: runs go on when a test says so. A wake-up for later waits for a sweep that finds it due. */
export function manualEngine(options: ManualEngineOptions = {}): ManualEngine {
  return new SteppedEngine(options.now ?? (() => new Date()))
}

class SteppedEngine implements ManualEngine {
  readonly name = 'manual'
  readonly #now: () => Date
  #work: EngineWork | null = null
  readonly #woken: { readonly runId: string; readonly failures: number }[] = []
  #jobs: QueuedJob[] = []
  readonly #ids = new Set<string>()
  readonly #ticks = new Map<string, number>()
  readonly #raised: unknown[] = []
  #settling: Promise<unknown> = Promise.resolve()

  constructor(now: () => Date) {
    this.#now = now
  }

  async start(work: EngineWork): Promise<void> {
    checkWork(work)
    this.#work = work
  }

  async wake(runId: string, at?: Date): Promise<void> {
    if (at === undefined) this.#woken.push({ runId, failures: 0 })
  }

  async enqueue(name: string, payload: JsonValue, { id, at }: { id?: string; at?: Date } = {}): Promise<void> {
    jobNamed(this.#work, name)
    if (id !== undefined && this.#ids.has(id)) return
    if (id !== undefined) this.#ids.add(id)
    this.#jobs.push({ name, payload, at, attempt: 1 })
  }

  async stop(graceMs: number): Promise<void> {
    this.#work = null
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, graceMs)
    await Promise.race([this.#settling, late.promise])
    clearTimeout(timer)
  }

  async settle(): Promise<number> {
    const settling = this.#settle()
    this.#settling = settling.catch(() => undefined)
    const segments = await settling
    const [raised] = this.#raised.splice(0)
    if (raised !== undefined) throw raised
    return segments
  }

  async #settle(): Promise<number> {
    let segments = 0
    for (;;) {
      const woken = this.#work === null ? undefined : this.#woken.shift()
      if (woken !== undefined) {
        segments += 1
        await this.#advance(woken.runId, woken.failures)
      } else if (!(await this.#nextJob())) break
    }
    return segments
  }

  async sweep(): Promise<void> {
    for (const runId of (await this.#work?.sweep()) ?? []) this.#woken.push({ runId, failures: 0 })
  }

  async tick(): Promise<void> {
    for (const cron of this.#work?.crons ?? []) {
      const tick = tickAt(cron.every, this.#now())
      if (tick === null || this.#ticks.get(cron.name) === tick.getTime()) continue
      this.#ticks.set(cron.name, tick.getTime())
      await cron.run(tick).catch((error: unknown) => this.#raised.push(error))
    }
    const [raised] = this.#raised.splice(0)
    if (raised !== undefined) throw raised
  }

  async #advance(runId: string, failures: number): Promise<void> {
    const work = this.#work
    try {
      const outcome = await work?.advance(runId)
      if (outcome?.kind === 'again') this.#woken.push({ runId, failures: 0 })
    } catch (error) {
      if (failures + 1 < ADVANCE_TRIES) return void this.#woken.push({ runId, failures: failures + 1 })
      this.#raised.push(error)
      await work?.gaveUp(runId, new WorkFault(faultKind(error)))
    }
  }

  async #nextJob(): Promise<boolean> {
    const now = this.#now()
    const queued = this.#work === null ? undefined : this.#jobs.find(({ at }) => at === undefined || at <= now)
    if (queued === undefined) return false
    this.#jobs = this.#jobs.filter((job) => job !== queued)
    const job = jobNamed(this.#work, queued.name)
    try {
      await job.run(queued.payload, queued.attempt)
    } catch (error) {
      if (queued.attempt <= job.retries) this.#jobs.push({ ...queued, attempt: queued.attempt + 1 })
      else await job.onFinalFailure(queued.payload, new WorkFault(faultKind(error)))
    }
    return true
  }
}
