import type { Job, JobResult, JobWithMetadata, PgBoss } from 'pg-boss'
import type { DurableJob } from '../../runs/engine.ts'
import { faultKind, WorkFault } from '../../runs/engine-work.ts'
import type { Logger } from '../../tools/invoker.ts'
import { isJsonObject, type JsonValue } from '../../tools/json.ts'

interface QueuedJob {
  readonly payload: JsonValue
}

export interface JobQueueOptions {
  readonly jobs: Readonly<Record<string, DurableJob>>
  readonly backoffMs: number
  readonly logger: Logger
}

/** Jobs of one name that one process does at once: this many workers, of this many jobs each. */
const WORKERS = 2
/** Two, since the queue takes the next without a pause only while it gets full batches of more than one. */
const BATCH = 2
const WEEK_S = 604_800
/** Silence after which a job counts as lost with its process. */
const HEARTBEAT_S = 30
const FAILURE_RETRIES = 20

/** One queue a name: a process without the code of a job leaves it to those that have it. */
export function jobQueueName(name: string): string {
  return `bailiff-job.${name}`
}

/** Starts taking the jobs of this process, and the last failures of them. */
export async function workJobs(boss: PgBoss, { jobs, backoffMs, logger }: JobQueueOptions): Promise<void> {
  const delay = { retryDelay: Math.ceil(backoffMs / 1000), retryBackoff: backoffMs > 0 }
  // Ids of finished jobs keep a second one with the same id out for as long as their rows stay.
  const stay = { heartbeatSeconds: HEARTBEAT_S, deleteAfterSeconds: WEEK_S, notify: true, ...delay }
  const pull = {
    batchSize: BATCH,
    localConcurrency: WORKERS,
    burstWhenBatchFull: true,
    includeMetadata: true,
    perJobResults: true,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 2,
  } as const
  for (const [name, job] of Object.entries(jobs)) {
    const queue = jobQueueName(name)
    const failed = `${queue}.failed`
    await ensure(boss, failed, { ...stay, retryLimit: FAILURE_RETRIES })
    // The queue moves a job whose tries are spent over in the statement that ends it, whatever became of its process.
    await ensure(boss, queue, { ...stay, retryLimit: job.retries, deadLetter: failed })
    const work = (queued: Job<QueuedJob>): Promise<void> => job.run(queued.data.payload, queued.retryCount + 1)
    const bury = (queued: JobWithMetadata<QueuedJob>): Promise<void> =>
      job.onFinalFailure(queued.data.payload, new WorkFault(keptKind(queued.sourceOutput)))
    await boss.work<QueuedJob, unknown, typeof pull>(queue, pull, (taken) => settle(taken, work, { name, logger }))
    await boss.work<QueuedJob, unknown, typeof pull>(failed, pull, (taken) => settle(taken, bury, { name, logger }))
  }
}

/** The options of a queue that an older version made are brought up to date. */
async function ensure(boss: PgBoss, name: string, options: Parameters<PgBoss['createQueue']>[1]): Promise<void> {
  await boss.createQueue(name, options)
  await boss.updateQueue(name, options)
}

/** What the queue keeps of a failure is its kind alone. */
async function settle(
  taken: readonly JobWithMetadata<QueuedJob>[],
  work: (job: JobWithMetadata<QueuedJob>) => Promise<void>,
  { name, logger }: { readonly name: string; readonly logger: Logger },
): Promise<JobResult[]> {
  return Promise.all(
    taken.map(async (job): Promise<JobResult> => {
      try {
        await work(job)
        return { id: job.id, status: 'completed' }
      } catch (error) {
        logger.error('a job failed', { job: name, attempt: job.retryCount + 1, error })
        return { id: job.id, status: 'failed', output: { kind: faultKind(error) } }
      }
    }),
  )
}

/** A job whose process died left nothing, or what the queue says of that. */
function keptKind(output: unknown): string {
  return isJsonObject(output) && typeof output['kind'] === 'string' ? output['kind'] : 'Lost'
}
