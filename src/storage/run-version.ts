import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

/** Moves with everything a view of the run shows. Index look-ups alone: every open view asks once a second. */
const VERSION = statement(
  'run_version',
  `SELECT concat_ws(':', r.status, r.turns, r.tool_calls, r.wake_counter, r.ended_at,
     (SELECT concat_ws('/', count(*), count(s.ended_at), max(s.ended_at)) FROM agent.spans s WHERE s.organization_id = r.organization_id AND s.run_id = r.id),
     (SELECT concat_ws('/', count(*), count(a.decided_at)) FROM agent.approvals a WHERE a.run_id = r.id),
     (SELECT concat_ws('/', count(*), count(c.ended_at), sum(c.turns), sum(c.tool_calls), sum(c.wake_counter)) FROM agent.runs c WHERE c.parent_run_id = r.id)) AS version
   FROM agent.runs r WHERE r.organization_id = $1::uuid AND r.id = $2::uuid`,
)

/** A text that is equal as long as nothing about the run has changed; null when there is no such run. */
export async function runVersion(database: Queryable, organizationId: string, runId: string): Promise<string | null> {
  const { rows } = await database.query<{ version: string }>(VERSION, [organizationId, runId])
  return rows[0]?.version ?? null
}
