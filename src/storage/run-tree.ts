import type { Actor } from '../tools/invocation.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

/*
 * Runs that other runs started. Whoever locks more than one run of a tree locks the parent before its children, so that a
 * cancel on its way down and an ending on its way up never wait for each other.
 */

const LOCK_PARENT = statement(
  'run_lock_parent',
  `SELECT p.id FROM agent.runs p WHERE p.id = (SELECT c.parent_run_id FROM agent.runs c WHERE c.id = $1::uuid) FOR UPDATE`,
)

const NUDGE = statement(
  'run_nudge',
  `UPDATE agent.runs SET wake_counter = wake_counter + 1, wake_at = CASE WHEN status = 'parked' THEN clock_timestamp() ELSE wake_at END
   WHERE id = $1::uuid AND status IN ('queued', 'running', 'parked')`,
)

/** Level by level, since what is below a child is looked for once the child is locked. */
const WAKE_CHILDREN = statement(
  'run_wake_children',
  `UPDATE agent.runs SET wake_counter = wake_counter + 1, wake_at = clock_timestamp()
   WHERE id IN (SELECT id FROM agent.runs WHERE parent_run_id = ANY($1::uuid[]) AND status IN ('queued', 'running', 'parked') ORDER BY id FOR UPDATE)
   RETURNING id`,
)

const STOP = statement(
  'run_stop_children',
  `UPDATE agent.run_control SET cancel_requested_at = clock_timestamp(), cancel_reason = $2::text, cancelled_by = $3::jsonb
   WHERE run_id = ANY($1::uuid[]) AND cancel_requested_at IS NULL`,
)

/** Taken before a child's own row, by whoever will end the child. */
export async function lockParent(tx: Queryable, runId: string): Promise<void> {
  await tx.query(LOCK_PARENT, [runId])
}

/** A run's end is news for the run that waits for it. */
export async function wakeParent(tx: Queryable, parentRunId: string): Promise<void> {
  await nudge(tx, parentRunId)
}

/** Lets a run look again, whether it waits or is about to. */
export async function nudge(db: Queryable, runId: string): Promise<void> {
  await db.query(NUDGE, [runId])
}

/** Asks everything below a run to stop at its next boundary; answers which runs have something to do now. */
export async function stopBelow(
  tx: Queryable,
  runId: string,
  why: { readonly reason: string | null; readonly by: Actor },
): Promise<readonly string[]> {
  const stopped: string[] = []
  for (let level = [runId]; level.length > 0;) {
    const { rows } = await tx.query<{ id: string }>(WAKE_CHILDREN, [level])
    level = rows.map(({ id }) => id)
    if (level.length === 0) break
    await tx.query(STOP, [level, why.reason, JSON.stringify(why.by)])
    stopped.push(...level)
  }
  return stopped
}
