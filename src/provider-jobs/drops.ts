/**
 * Why a delivery changed nothing.
 *
 * - `rate_limited`, `too_large`, `bad_signature`: refused before anything was believed
 * - `unreadable`: signed, and in a format that is not known here
 * - `unknown_job`: of a job that was deleted, or never was
 * - `name_mismatch`, `job_mismatch`: it speaks of another job than its address does
 * - `not_terminal`: progress, which wakes nobody
 * - `duplicate`: it was taken before
 * - `delivery_conflict`: a delivery of the same id and another body was taken before
 */
export const DROP_REASONS = [
  'rate_limited',
  'too_large',
  'bad_signature',
  'unreadable',
  'unknown_job',
  'name_mismatch',
  'job_mismatch',
  'not_terminal',
  'duplicate',
  'delivery_conflict',
] as const
export type DropReason = (typeof DROP_REASONS)[number]

export interface DropCount {
  readonly provider: string
  readonly reason: DropReason
  readonly count: number
  readonly lastAt: Date
}

/** Counts of one process since it started: what is not verified must not reach the database, not even to be counted. */
export interface DropCounters {
  readonly since: Date
  count(provider: string, reason: DropReason): void
  list(): readonly DropCount[]
}

export function dropCounters(now: () => Date): DropCounters {
  const counts = new Map<string, DropCount>()
  return {
    since: now(),
    // Providers are those of the deployment and reasons are listed above: the map cannot grow with what arrives.
    count(provider, reason) {
      const key = `${provider}:${reason}`
      counts.set(key, { provider, reason, count: (counts.get(key)?.count ?? 0) + 1, lastAt: now() })
    },
    list: () => [...counts.values()],
  }
}
