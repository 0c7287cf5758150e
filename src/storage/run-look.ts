import type { RunLook } from '../runs/engine.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

const LOOK = statement(
  'run_look',
  `SELECT organization_id AS "organizationId", lane,
     CASE WHEN status IN ('queued', 'parked') AND wake_at > clock_timestamp() THEN wake_at END AS "waitsUntil"
   FROM agent.runs WHERE id = $1::uuid AND ended_at IS NULL`,
)

/** What an engine outside of the database needs to know of a run; null for one that has ended or never was. */
export async function lookAtRun(database: Queryable, runId: string): Promise<RunLook | null> {
  const { rows } = await database.query<RunLook>(LOOK, [runId])
  return rows[0] ?? null
}
