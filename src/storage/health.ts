import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

const PING = statement('health_ping', 'SELECT 1 AS one')

/** Raises what the database raises when it does not answer. */
export async function ping(database: Queryable): Promise<void> {
  await database.query(PING)
}

const SERVER = statement(
  'health_server',
  `SELECT current_database() || ' ' || extract(epoch FROM pg_postmaster_start_time())::text AS server`,
)

/** Tells databases apart, however one connects to them; another text after a restart of the server. */
export async function serverOf(database: Queryable): Promise<string> {
  const { rows } = await database.query<{ server: string }>(SERVER)
  return rows[0]?.server ?? ''
}
