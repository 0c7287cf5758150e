import { sql } from 'kysely'
import type { RunEnding, RunRow } from '../runs/run-store.ts'
import type { Actor } from '../tools/invocation.ts'
import type { Queryable } from './database.ts'
import { runOf } from './run-row.ts'
import { LOCK_QUESTIONS } from './run-store.sql.ts'
import { lockParent, stopBelow, wakeParent } from './run-tree.ts'

const PLATFORM: Actor = { kind: 'system', id: 'platform', name: 'platform' }

/** Ends a run, if it is still its segment's (or nobody's), with everything that was open in it. */
export async function endRun(
  tx: Queryable,
  owner: { runId: string; segmentId: string | null },
  ending: RunEnding,
): Promise<RunRow | null> {
  await tx.query(LOCK_QUESTIONS, [owner.runId])
  await lockParent(tx, owner.runId)
  let update = tx.kysely
    .updateTable('agent.runs')
    .set({
      status: ending.status,
      reason: ending.reason,
      message: ending.message,
      output: ending.output === null ? null : JSON.stringify(ending.output),
      segment_id: null,
      wake_at: null,
      ended_at: sql<Date>`clock_timestamp()`,
    })
    .where('id', '=', owner.runId)
    .where('status', 'in', ['queued', 'running', 'parked'])
  update = update.where('segment_id', owner.segmentId === null ? 'is' : '=', owner.segmentId)
  const ended = await update.returningAll().executeTakeFirst()
  if (ended === undefined) return null
  await tx.kysely
    .updateTable('agent.approvals')
    .set({ state: 'cancelled', decided_at: sql<Date>`clock_timestamp()`, note: 'the run ended' })
    .where('run_id', '=', owner.runId)
    .where('state', '=', 'pending')
    .execute()
  await tx.kysely
    .updateTable('agent.spans')
    .set({
      status: ending.status === 'failed' || ending.status === 'cancelled' ? 'error' : 'ok',
      code: ending.reason ?? (ending.status === 'completed' ? null : ending.status),
      ended_at: sql<Date>`clock_timestamp()`,
    })
    .where('id', '=', owner.runId)
    .execute()
  await tx.kysely.deleteFrom('agent.run_heartbeats').where('run_id', '=', owner.runId).execute()
  if (ended.kind === 'workflow') await closeSteps(tx, owner.runId)
  if (ended.parent_run_id !== null) await wakeParent(tx, ended.parent_run_id)
  return runOf(ended)
}

/** What a workflow leaves open when it ends before its last node: steps that will never run, and runs that nobody waits for. */
async function closeSteps(tx: Queryable, runId: string): Promise<void> {
  await tx.kysely
    .updateTable('agent.run_steps')
    .set({ state: 'skipped', ended_at: sql<Date>`clock_timestamp()` })
    .where('run_id', '=', runId)
    .where('state', 'in', ['running', 'waiting'])
    .execute()
  await tx.kysely
    .updateTable('agent.spans')
    .set({ status: 'ok', code: 'skipped', ended_at: sql<Date>`clock_timestamp()` })
    .where('run_id', '=', runId)
    .where('kind', '=', 'node')
    .where('ended_at', 'is', null)
    .execute()
  await stopBelow(tx, runId, { reason: 'the run that started it has ended', by: PLATFORM })
}
