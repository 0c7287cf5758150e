import { sql } from 'kysely'
import type { BeginRules } from '../runs/lane.ts'
import type { BeginOutcome, Pause, RunRow, SavedRunSession, Segment } from '../runs/run-store.ts'
import type { SessionState } from '../runs/session.ts'
import type { Queryable, Transaction } from './database.ts'
import { BEGIN, LOCK_LANE_OF_RUN, NOT_BEGUN, REAP_LANE } from './lane-store.sql.ts'
import { runOf, type StoredRun } from './run-row.ts'

export interface Beginning {
  readonly runId: string
  readonly segmentId: string
  readonly rules: BeginRules
}

/** Takes a run for a segment, if it may begin now. In a transaction of its own, which holds the run's lane to its end. */
export async function beginRun(tx: Transaction, { runId, segmentId, rules }: Beginning): Promise<BeginOutcome> {
  await tx.query(LOCK_LANE_OF_RUN, [runId])
  await tx.query(REAP_LANE, [runId, rules.staleS])
  const { rows } = await tx.query<StoredRun & { readonly now: Date }>(BEGIN, [
    runId,
    segmentId,
    rules.lanes.interactive,
    rules.lanes.batch,
  ])
  const row = rows[0]
  if (row === undefined) return notBegun(tx, runId)
  const run = runOf(row)
  const saved = await readSession(tx, runId)
  const approvals = saved?.pause === null || saved === null ? [] : await approvalsOf(tx, runId, saved.pause.id)
  return {
    kind: 'begun',
    segment: { id: segmentId, run, saved, approvals, abandoned: row.abandoned, use: await useOf(tx, run, row.now) },
  }
}

async function notBegun(tx: Queryable, runId: string): Promise<BeginOutcome> {
  const { rows } = await tx.query<
    StoredRun & { readonly lane_paused: boolean; readonly cancelled: boolean; readonly cancel_reason: string | null }
  >(NOT_BEGUN, [runId])
  const row = rows[0]
  if (row === undefined) return { kind: 'missing' }
  if (row.status === 'running') return { kind: 'busy' }
  if (row.status !== 'queued' && row.status !== 'parked') return { kind: 'ended' }
  return {
    kind: 'waiting',
    why: row.held_at !== null ? 'held' : row.lane_paused ? 'lane_paused' : 'lane_full',
    run: runOf(row),
    cancel: row.cancelled ? { reason: row.cancel_reason } : null,
  }
}

async function readSession(tx: Queryable, runId: string): Promise<SavedRunSession | null> {
  const row = await tx.kysely
    .selectFrom('agent.run_sessions')
    .selectAll()
    .where('run_id', '=', runId)
    .executeTakeFirst()
  if (row === undefined) return null
  const stored = row.state as unknown as { session: SessionState['state']; pause: Pause | null }
  return {
    session: { framework: row.framework, version: row.state_version, state: stored.session },
    pause: stored.pause,
  }
}

async function approvalsOf(tx: Queryable, runId: string, pauseId: string): Promise<readonly string[]> {
  const rows = await tx.kysely
    .selectFrom('agent.approvals')
    .select('id')
    .where('run_id', '=', runId)
    .where('pause_id', '=', pauseId)
    .execute()
  return rows.map((row) => row.id)
}

async function useOf(tx: Queryable, run: RunRow, now: Date): Promise<Segment['use']> {
  const started = run.startedAt ?? now
  return {
    turns: run.turns,
    toolCalls: run.toolCalls,
    elapsedS: Math.max(0, (now.getTime() - started.getTime()) / 1000),
    spentCents: await spentBy(tx, run.organizationId, run.rootRunId),
  }
}

export async function spentBy(db: Queryable, organizationId: string, rootRunId: string): Promise<number> {
  const { spent } = await db.kysely
    .selectFrom('public.ai_usage_log')
    .select(sql<number>`coalesce(sum(cost_cents), 0)::float8`.as('spent'))
    .where('organization_id', '=', organizationId)
    .where('root_run_id', '=', rootRunId)
    .executeTakeFirstOrThrow()
  return spent
}
