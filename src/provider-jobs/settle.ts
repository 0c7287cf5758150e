import { checkUsage } from '../tools/call-meter.ts'
import type { UsageRow } from '../tools/invoker.ts'
import { providerFor, type JobProvider } from './adapter.ts'
import type { JobRecord } from './job.ts'
import { usageIdOf } from './job-id.ts'
import { isTerminal } from './transition.ts'

/** What settling does to the record. */
export interface SettlementStore {
  find(provider: string, jobId: string): Promise<JobRecord | null>
  /** Writes the row, or meets the one of the same id that is there. */
  charge(row: UsageRow): Promise<void>
  /** Names the row at the job and at the span that submitted, if nobody did; whether this was the one that did. */
  stamp(job: JobRecord, usageId: string): Promise<boolean>
}

export interface SettlementDependencies {
  readonly providers: ReadonlyMap<string, JobProvider>
  readonly store: SettlementStore
}

export type Settled =
  | 'settled'
  /** Somebody did before. */
  | 'already'
  /** It went with its run, and nothing is left that could pay. */
  | 'gone'
  | 'not_ended'

/**
 * Writes what an ended job cost, once. No run is asked: one that was cancelled, or stopped waiting, has still spent the
 * money, and its tree shows it. A failure raises, because nobody else would notice; the job keeps a null `usage_id`.
 */
export async function settleJob(
  { providers, store }: SettlementDependencies,
  { provider: name, jobId }: { readonly provider: string; readonly jobId: string },
): Promise<Settled> {
  const job = await store.find(name, jobId)
  if (job === null) return 'gone'
  if (job.usageId !== null) return 'already'
  if (!isTerminal(job.state)) return 'not_ended'
  const usage = providerFor(providers, name).usageOf(job)
  checkUsage(`${name} job`, usage)
  const id = usageIdOf(jobId)
  const { organizationId, rootRunId, runId, toolCallId: spanId } = job
  await store.charge({ id, organizationId, rootRunId, runId, spanId, usage })
  return (await store.stamp(job, id)) ? 'settled' : 'already'
}
