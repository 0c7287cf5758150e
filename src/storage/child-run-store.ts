import type { ChildStore, StartedChild } from '../runs/workflow/child-store.ts'
import type { NewRun } from '../runs/run-store.ts'
import type { Database } from './database.ts'
import { insertRun } from './run-insert.ts'
import { runOf } from './run-row.ts'
import { statement } from './statement.ts'

/** A cancel takes the same row first, so that it finds the child or the child finds it. */
const LOCK_STARTER = statement(
  'run_lock_starter',
  `SELECT r.status IN ('queued', 'running', 'parked') AND k.cancel_requested_at IS NULL AS open
   FROM agent.runs r JOIN agent.run_control k ON k.run_id = r.id WHERE r.id = $1::uuid AND r.organization_id = $2::uuid FOR UPDATE OF r`,
)

const BELOW = statement(
  'runs_below',
  `WITH RECURSIVE below AS (
     SELECT id FROM agent.runs WHERE organization_id = $1::uuid AND parent_run_id = $2::uuid
     UNION ALL
     SELECT c.id FROM agent.runs c JOIN below b ON c.parent_run_id = b.id
   ) SELECT id FROM below`,
)

export function childStore(database: Database): ChildStore {
  return {
    start: (child) => database.transaction((tx) => startChild(tx, child)),
    async below(organizationId, runId) {
      const { rows } = await database.query<{ id: string }>(BELOW, [organizationId, runId])
      return rows.map(({ id }) => id)
    },
    async look(organizationId, runId) {
      const row = await database.kysely
        .selectFrom('agent.runs')
        .select(['status', 'reason', 'message', 'output'])
        .where('organization_id', '=', organizationId)
        .where('id', '=', runId)
        .executeTakeFirst()
      return row ?? null
    },
  }
}

async function startChild(
  tx: Parameters<Parameters<Database['transaction']>[0]>[0],
  child: NewRun,
): Promise<StartedChild> {
  const { parent } = child
  if (parent === undefined) throw new Error('a child run names the step that starts it')
  const { rows } = await tx.query<{ open: boolean }>(LOCK_STARTER, [parent.runId, child.organizationId])
  const known = await tx.kysely
    .selectFrom('agent.runs')
    .selectAll()
    .where('parent_run_id', '=', parent.runId)
    .where('parent_step', '=', parent.step)
    .executeTakeFirst()
  if (known !== undefined) return { kind: 'started', run: runOf(known) }
  if (rows[0]?.open !== true) return { kind: 'parent_cancelled' }
  return { kind: 'started', run: await insertRun(tx, child) }
}
