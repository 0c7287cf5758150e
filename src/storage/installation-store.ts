import { clusterIdentity, type Installation } from '../decision/restore.ts'
import type { Database, Queryable, Transaction } from './database.ts'
import { sqlState } from './errors.ts'
import { statement } from './statement.ts'

const READ = statement('installation_read', 'SELECT identity, generation FROM agent.installation')

/** Processes that start at once come one after the other: the first holds what there is to hold. */
const LOCK = statement('installation_lock', 'LOCK TABLE agent.installation IN SHARE ROW EXCLUSIVE MODE')

const NOTE = statement(
  'installation_note',
  `INSERT INTO agent.installation AS i (identity, generation) VALUES ($1::text, $2::bigint)
   ON CONFLICT (singleton) DO UPDATE SET identity = EXCLUDED.identity, noted_at = now(),
     generation = greatest(i.generation + 1, EXCLUDED.generation)
   RETURNING identity, generation`,
)

const TICK = statement(
  'installation_tick',
  'UPDATE agent.installation SET generation = generation + 1, noted_at = now() RETURNING identity, generation',
)

const SYSTEM = statement(
  'installation_cluster',
  `SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system,
     (SELECT timeline_id FROM pg_control_checkpoint()) AS timeline`,
)

const DATABASE = statement(
  'installation_database',
  'SELECT oid::bigint AS oid FROM pg_database WHERE datname = current_database()',
)

const HOLD = statement(
  'installation_hold',
  `UPDATE agent.runs SET held_at = clock_timestamp(), held_reason = $1::text
   WHERE status IN ('queued', 'running', 'parked') AND held_at IS NULL`,
)

export async function readInstallation(database: Queryable): Promise<Installation | null> {
  return (await database.query<Installation>(READ)).rows[0] ?? null
}

/** What the cluster says it is; null for an embedded database. Parts that the role may not read are left open. */
export async function readCluster(database: Database): Promise<string | null> {
  if (database.dialect === 'pglite') return null
  const { rows } = await database.query<{ oid: number }>(DATABASE)
  const databaseOid = rows[0]?.oid ?? 0
  try {
    const control = await database.query<{ system: string; timeline: number }>(SYSTEM)
    const { system, timeline } = control.rows[0] ?? { system: null, timeline: null }
    return clusterIdentity({ system, timeline, databaseOid })
  } catch (error) {
    // Some services that host PostgreSQL keep these functions, or the right to call them, for themselves.
    if (!['42501', '42883', '0A000'].includes(sqlState(error) ?? '')) throw error
    return clusterIdentity({ system: null, timeline: null, databaseOid })
  }
}

/** Judges and notes in one transaction, so that of several processes one judges and the others find what it noted. */
export function inInstallation<T>(database: Database, work: (tx: Transaction) => Promise<T>): Promise<T> {
  return database.transaction(async (tx) => {
    await tx.query(LOCK)
    return work(tx)
  })
}

/** Notes what the database is from now on. Its generation moves, and never falls behind one that was seen. */
export async function noteInstallation(tx: Queryable, { identity, generation }: Installation): Promise<Installation> {
  const { rows } = await tx.query<Installation>(NOTE, [identity, generation])
  if (rows[0] === undefined) throw new Error('the installation could not be noted')
  return rows[0]
}

/** Null where nothing was noted yet. */
export async function tickInstallation(database: Queryable): Promise<Installation | null> {
  return (await database.query<Installation>(TICK)).rows[0] ?? null
}

/** Holds every run that has not ended, of every organization. Answers how many were not held before. */
export async function holdOpenRuns(tx: Queryable, reason: string): Promise<number> {
  return (await tx.query(HOLD, [reason])).affected
}
