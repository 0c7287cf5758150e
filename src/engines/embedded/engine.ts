import { PgBoss, fromPglite, type ConstructorOptions, type Job } from 'pg-boss'
import { v5 as uuidv5 } from 'uuid'
import type { AdvanceOutcome } from '../../runs/executor.ts'
import type { DurableEngine, EngineWork, EnqueueOptions } from '../../runs/engine.ts'
import { ADVANCE_TRIES, backoffMs, checkWork, faultKind, jobNamed, WorkFault } from '../../runs/engine-work.ts'
import type { Logger } from '../../tools/invoker.ts'
import type { JsonValue } from '../../tools/json.ts'
import { cronTicks, type CronTicks } from './cron-ticks.ts'
import { jobQueueName, workJobs } from './job-queues.ts'
import { segmentSlots, type SegmentSlots } from '../../runs/segment-slots.ts'

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
  /** Milliseconds before the first further try of what failed; doubled with every failure. Jobs wait whole seconds. */
  readonly backoffMs?: number
}

const QUEUE = 'bailiff-wake'
const SCHEMA = 'bailiff_queue'
/** Segments that one process runs at the same time, unless it is told otherwise. */
export const EMBEDDED_CONCURRENCY = 8
const SWEEP_MS = 2_000
const BACKOFF_MS = 1_000

/** Jobs a worker takes at once; one job a poll would dispatch two a second (measured). */
const BATCH = 10

/** Names the ids of jobs: the queue takes UUIDs, callers have texts. */
const JOB_IDS = '5b6d2f0e-9a1c-4d53-8f57-6f2f6f9f8a11'

interface WakeUp {
  readonly runId: string
  /** Tries of this wake-up that failed. */
  readonly failures?: number
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
  #crons: CronTicks | null = null
  #sweeper: NodeJS.Timeout | null = null
  #sweeping: Promise<void> | null = null

  constructor(options: EmbeddedEngineOptions) {
    this.#options = options
    this.#boss = new PgBoss(bossOptions(options.database))
    this.#boss.on('error', (error) => options.logger.error('the queue reported an error', { error }))
    this.#slots = segmentSlots(options.concurrency ?? EMBEDDED_CONCURRENCY)
  }

  async start(work: EngineWork): Promise<void> {
    checkWork(work)
    const { logger } = this.#options
    this.#work = work
    await this.#boss.start()
    // At most one wake-up of a run waits at a time. No retries: a lost one is found by the sweep, and a failed segment
    // waits by its own row.
    await this.#boss.createQueue(QUEUE, { policy: 'short', retryLimit: 0, deleteAfterSeconds: 3600, notify: true })
    await workJobs(this.#boss, { jobs: work.jobs, backoffMs: this.#backoffMs, logger })
    this.#crons = await cronTicks(this.#boss, { crons: work.crons, logger })
    const pull = {
      batchSize: BATCH,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
      notifyPollingIntervalSeconds: 1,
    }
    await this.#boss.work<WakeUp>(QUEUE, pull, (jobs) => this.#take(jobs))
    this.#sweeper = setInterval(() => this.#sweep(), this.#options.sweepMs ?? SWEEP_MS)
    this.#sweep()
  }

  async wake(runId: string, at?: Date): Promise<void> {
    // A wake-up for later has a place of its own, or it would keep one for now out.
    const timing = at === undefined ? {} : { startAfter: at }
    const key = at === undefined ? runId : `${runId}@${at.toISOString()}`
    await this.#boss.send(QUEUE, { runId } satisfies WakeUp, { ...timing, singletonKey: key })
  }

  async enqueue(name: string, payload: JsonValue, { id, at }: EnqueueOptions = {}): Promise<void> {
    jobNamed(this.#work, name)
    await this.#boss.send(
      jobQueueName(name),
      { payload },
      {
        ...(id === undefined ? {} : { id: uuidv5(id, JOB_IDS) }),
        ...(at === undefined ? {} : { startAfter: at }),
      },
    )
  }

  async stop(graceMs: number): Promise<void> {
    const end = Date.now() + graceMs
    if (this.#sweeper !== null) clearInterval(this.#sweeper)
    await this.#crons?.stop()
    this.#slots.close()
    await this.#sweeping
    // The segments first: one that parks on its way out still tells the queue when to look again.
    await this.#slots.drained(graceMs)
    await this.#boss.stop({ graceful: true, timeout: Math.max(0, end - Date.now()) })
  }

  get #backoffMs(): number {
    return this.#options.backoffMs ?? BACKOFF_MS
  }

  /** A job is done once its segment has a slot: how a segment ends is written on the run, not on the job. */
  async #take(jobs: readonly Job<WakeUp>[]): Promise<void> {
    for (const job of jobs) {
      if (!(await this.#slots.enter())) return
      void this.#advance(job.data).finally(() => this.#slots.leave())
    }
  }

  async #advance({ runId, failures = 0 }: WakeUp): Promise<void> {
    const work = this.#work
    if (work === null) return
    try {
      let outcome: AdvanceOutcome
      do outcome = await work.advance(runId)
      while (outcome.kind === 'again')
      if (outcome.kind === 'at') await this.wake(runId, outcome.at)
    } catch (error) {
      this.#options.logger.error('a run could not be advanced; it is tried again', { runId, error })
      await this.#tryLater(work, { runId, failures: failures + 1 }, error)
    }
  }

  async #tryLater(work: EngineWork, failed: Required<WakeUp>, error: unknown): Promise<void> {
    const { runId, failures } = failed
    try {
      if (failures >= ADVANCE_TRIES) return await work.gaveUp(runId, new WorkFault(faultKind(error)))
      const startAfter = new Date(Date.now() + backoffMs(this.#backoffMs, failures))
      await this.#boss.send(QUEUE, failed, { startAfter, singletonKey: `${runId}!${failures}` })
    } catch (again) {
      this.#options.logger.error('a further try could not be noted; the next sweep looks again', {
        runId,
        error: again,
      })
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
  // Times of work are ours: a schedule of the queue would outlive the code that asked for it.
  const shared = { schema: SCHEMA, useListenNotify: true, schedule: false }
  return database.dialect === 'pglite'
    ? { ...shared, db: fromPglite(database.raw), backend: 'pglite' }
    : { ...shared, connectionString: database.connectionString, max: 4, application_name: 'bailiff-queue' }
}
