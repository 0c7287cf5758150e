import { PgBoss, fromPglite, type ConstructorOptions, type Job } from 'pg-boss'
import type { AdvanceOutcome } from '../../runs/executor.ts'
import type { DurableEngine, EngineWork } from '../../runs/engine.ts'
import type { Logger } from '../../tools/invoker.ts'
import { segmentSlots, type SegmentSlots } from './segment-slots.ts'

/** Where the queue lives: beside the data, on the same database. */
export type EngineDatabase =
  | { readonly dialect: 'pglite'; readonly raw: Parameters<typeof fromPglite>[0] }
  | { readonly dialect: 'postgres'; readonly connectionString: string }

export interface EmbeddedEngineOptions {
  readonly database: EngineDatabase
  readonly logger: Logger
  /** Segments this process runs at the same time. */
  readonly concurrency?: number
  /** Milliseconds between two looks for due runs and expired approvals. */
  readonly sweepMs?: number
}

const QUEUE = 'bailiff-advance-run'
const SCHEMA = 'bailiff_queue'
/** Segments that one process runs at the same time, unless it is told otherwise. */
export const EMBEDDED_CONCURRENCY = 8
const SWEEP_MS = 2_000

/** Jobs a worker takes at once; one job a poll would dispatch two a second (measured). */
const BATCH = 10

interface AdvanceJob {
  readonly runId: string
}

/** The engine for one process or many on one database: pg-boss wakes, the rows decide. */
export function embeddedEngine(options: EmbeddedEngineOptions): DurableEngine {
  return new EmbeddedEngine(options)
}

class EmbeddedEngine implements DurableEngine {
  readonly name = 'embedded'
  readonly #options: EmbeddedEngineOptions
  readonly #boss: PgBoss
  readonly #slots: SegmentSlots
  #work: EngineWork | null = null
  #sweeper: NodeJS.Timeout | null = null
  #sweeping: Promise<void> | null = null

  constructor(options: EmbeddedEngineOptions) {
    this.#options = options
    this.#boss = new PgBoss(bossOptions(options.database))
    this.#boss.on('error', (error) => options.logger.error('the queue reported an error', { error }))
    this.#slots = segmentSlots(options.concurrency ?? EMBEDDED_CONCURRENCY)
  }

  async start(work: EngineWork): Promise<void> {
    this.#work = work
    await this.#boss.start()
    // No retries: a lost wake-up is found by the sweep, and a failed segment waits by its own row.
    await this.#boss.createQueue(QUEUE, { retryLimit: 0, deleteAfterSeconds: 3600, notify: true })
    const pull = {
      batchSize: BATCH,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
      notifyPollingIntervalSeconds: 1,
    }
    await this.#boss.work<AdvanceJob>(QUEUE, pull, (jobs) => this.#take(jobs))
    this.#sweeper = setInterval(() => this.#sweep(), this.#options.sweepMs ?? SWEEP_MS)
    this.#sweep()
  }

  async wake(runId: string, at?: Date): Promise<void> {
    await this.#boss.send(QUEUE, { runId } satisfies AdvanceJob, at === undefined ? {} : { startAfter: at })
  }

  async stop(graceMs: number): Promise<void> {
    if (this.#sweeper !== null) clearInterval(this.#sweeper)
    this.#slots.close()
    await this.#sweeping
    // The segments first: one that parks on its way out still tells the queue when to look again.
    await this.#slots.drained(graceMs)
    await this.#boss.stop({ graceful: true, timeout: graceMs })
  }

  /** A job is done once its segment has a slot: how a segment ends is written on the run, not on the job. */
  async #take(jobs: readonly Job<AdvanceJob>[]): Promise<void> {
    for (const job of jobs) {
      if (!(await this.#slots.enter())) return
      void this.#advance(job.data.runId).finally(() => this.#slots.leave())
    }
  }

  async #advance(runId: string): Promise<void> {
    const work = this.#work
    if (work === null) return
    try {
      let outcome: AdvanceOutcome
      do outcome = await work.advance(runId)
      while (outcome.kind === 'again')
      if (outcome.kind === 'at') await this.wake(runId, outcome.at)
    } catch (error) {
      this.#options.logger.error('a run could not be advanced; the next sweep looks again', { runId, error })
    }
  }

  #sweep(): void {
    this.#sweeping ??= this.#sweepOnce().finally(() => {
      this.#sweeping = null
    })
  }

  async #sweepOnce(): Promise<void> {
    try {
      for (const runId of (await this.#work?.sweep()) ?? []) await this.wake(runId)
    } catch (error) {
      this.#options.logger.error('a sweep failed; the next one looks again', { error })
    }
  }
}

function bossOptions(database: EngineDatabase): ConstructorOptions {
  const shared = { schema: SCHEMA, useListenNotify: true }
  return database.dialect === 'pglite'
    ? { ...shared, db: fromPglite(database.raw), backend: 'pglite' }
    : { ...shared, connectionString: database.connectionString, max: 4, application_name: 'bailiff-queue' }
}
