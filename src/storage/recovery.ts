import type { Database } from './database.ts'
import { statement } from './statement.ts'

export interface Recovered {
  readonly runs: number
  readonly claims: number
  readonly spans: number
}

const REQUEUE = statement(
  'recovery_runs',
  `UPDATE agent.runs SET status = 'queued', segment_id = NULL, wake_at = NULL WHERE status = 'running' AND source <> 'library'`,
)

const STOP_HEARTS = statement('recovery_hearts', 'DELETE FROM agent.run_heartbeats')

const END_LEASES = statement(
  'recovery_leases',
  `UPDATE agent.idempotency_keys SET lease_until = clock_timestamp() WHERE status = 'processing' AND lease_until > clock_timestamp()`,
)

/** The span of the run itself stays open as long as the run is. */
const CLOSE_SPANS = statement(
  'recovery_spans',
  `UPDATE agent.spans SET status = 'error', code = 'interrupted', ended_at = clock_timestamp() WHERE status = 'running' AND kind <> 'run'`,
)

/**
 * Gives back what a process that died left in its hands: runs go to the queue at once instead of after a silent heart,
 * and claims are read as what they are, interrupted. Only for a database with one owner, at open and before anything
 * runs: with a second process alive, this would take its work away.
 */
export async function recoverInterrupted(database: Database): Promise<Recovered> {
  if (database.dialect !== 'pglite')
    throw new Error('only an embedded database has one owner; on a shared one leases and heartbeats decide')
  return database.transaction(async (tx) => {
    const runs = await tx.query(REQUEUE)
    await tx.query(STOP_HEARTS)
    const claims = await tx.query(END_LEASES)
    const spans = await tx.query(CLOSE_SPANS)
    return { runs: runs.affected, claims: claims.affected, spans: spans.affected }
  })
}
