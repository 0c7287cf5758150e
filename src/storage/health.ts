import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

const PING = statement('health_ping', 'SELECT 1 AS one')

/** Raises what the database raises when it does not answer. */
export async function ping(database: Queryable): Promise<void> {
  await database.query(PING)
}
