import type { NewJob, JobRecord } from './job.ts'

/** What a submit does to the record. */
export interface JobReservations {
  /** Inserts the job, or finds the one that is there. One caller of all that ever try has `won`. */
  reserve(job: NewJob): Promise<{ readonly won: boolean; readonly job: JobRecord }>
  /**
   * Writes the vendor's id, once. Answers the job as it is then: another id that is there stays, and one that belongs to
   * another job is not taken.
   */
  bind(job: Pick<JobRecord, 'organizationId' | 'id'>, providerJobId: string): Promise<JobRecord>
}

/** What became of the one request. */
export type Posted =
  | { readonly kind: 'accepted'; readonly providerJobId: string }
  /** The answer was lost, or cannot be read: the vendor may have taken the job, and its callback will tell. */
  | { readonly kind: 'unknown' }

/**
 * Reserves, posts once, binds. Whoever does not win the insert posts nothing, and nobody posts again: no vendor here
 * recognises a repeat, so that a second request would be a second, paid batch. A process that dies before the request
 * leaves a job that is never sent; whoever waits for it stops waiting in time.
 *
 * @param post raises what the vendor definitely refused; the reservation stays
 */
export async function submitJob(jobs: JobReservations, job: NewJob, post: () => Promise<Posted>): Promise<JobRecord> {
  const reserved = await jobs.reserve(job)
  if (!reserved.won) return reserved.job
  const posted = await post()
  if (posted.kind === 'unknown') return reserved.job
  const bound = await jobs.bind(reserved.job, posted.providerJobId)
  if (bound.providerJobId !== posted.providerJobId)
    throw new Error(`${job.provider}: the vendor gave job ${job.id} another id than it told before`)
  return bound
}
