import { sql, type RawBuilder } from 'kysely'
import {
  SegmentLost,
  type BeginOutcome,
  type CancelCommand,
  type NewRun,
  type Page,
  type ParkRequest,
  type Pause,
  type RunEnding,
  type RunListFilter,
  type RunRow,
  type RunStore,
  type SavedRunSession,
  type Segment,
  type TurnRecord,
} from '../runs/run-store.ts'
import type { SessionState } from '../runs/session.ts'
import type { Database, Queryable } from './database.ts'
import { pageOf } from './page.ts'
import { runOf, type StoredRun } from './run-row.ts'
import { BEAT, BEGIN, DUE, LOCK_QUESTIONS, NOW, RELEASE } from './run-store.sql.ts'

/** A failed segment waits 1, 2, 4 … seconds before the next one, at most this long. */
const RETRY_CAP_S = 300

export function runStore(database: Database): RunStore {
  return new SqlRunStore(database)
}

class SqlRunStore implements RunStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async create(run: NewRun): Promise<RunRow> {
    return this.#database.transaction(async (tx) => {
      const row = await tx.kysely
        .insertInto('agent.runs')
        .values({
          id: run.id,
          organization_id: run.organizationId,
          root_run_id: run.id,
          definition_id: run.definitionId,
          definition: run.definition,
          status: 'queued',
          source: run.source,
          input: JSON.stringify(run.input),
          snapshot: JSON.stringify(run.snapshot),
          deadline: run.deadline,
        })
        .returningAll()
        .executeTakeFirstOrThrow()
      await tx.kysely
        .insertInto('agent.run_control')
        .values({ run_id: run.id, organization_id: run.organizationId })
        .execute()
      await tx.kysely
        .insertInto('agent.spans')
        .values({
          id: run.id,
          organization_id: run.organizationId,
          run_id: run.id,
          root_run_id: run.id,
          kind: 'run',
          name: run.definition,
          status: 'running',
          started_at: row.created_at,
        })
        .execute()
      return runOf(row)
    })
  }

  async get(organizationId: string, runId: string): Promise<RunRow | null> {
    const row = await this.#database.kysely
      .selectFrom('agent.runs')
      .selectAll()
      .where('organization_id', '=', organizationId)
      .where('id', '=', runId)
      .executeTakeFirst()
    return row === undefined ? null : runOf(row)
  }

  async list(organizationId: string, filter: RunListFilter): Promise<Page<RunRow>> {
    let query = this.#database.kysely
      .selectFrom('agent.runs')
      .selectAll()
      .where('organization_id', '=', organizationId)
      // UUIDv7 ids are ordered by time, so the id alone is the cursor.
      .orderBy('id', 'desc')
      .limit(filter.limit + 1)
    if (filter.status !== undefined) query = query.where('status', '=', filter.status)
    if (filter.definition !== undefined) query = query.where('definition', '=', filter.definition)
    if (filter.cursor !== null) query = query.where('id', '<', filter.cursor)
    return pageOf((await query.execute()).map(runOf), filter.limit)
  }

  async begin(runId: string, segmentId: string, staleS: number): Promise<BeginOutcome> {
    return this.#database.transaction(async (tx) => {
      const { rows } = await tx.query<StoredRun>(BEGIN, [runId, segmentId, staleS])
      const row = rows[0]
      if (row === undefined) return notBegun(tx, runId)
      const run = runOf(row)
      await tx.query(BEAT, [runId, segmentId])
      const saved = await readSession(tx, runId)
      const approvals = saved?.pause === null || saved === null ? [] : await approvalsOf(tx, runId, saved.pause.id)
      const now = await databaseNow(tx)
      return { kind: 'begun', segment: { id: segmentId, run, saved, approvals, use: await useOf(tx, run, now) } }
    })
  }

  async beat(segment: Segment): Promise<void> {
    const { affected } = await this.#database.query(BEAT, [segment.run.id, segment.id])
    if (affected === 0) throw new SegmentLost(segment.run.id)
  }

  async recordTurn(segment: Segment, turn: TurnRecord): Promise<void> {
    const { run } = segment
    await this.#database.transaction(async (tx) => {
      await own(tx, segment, {
        turns: sql<number>`turns + 1`,
        tool_calls: turn.toolCalls,
        ...(turn.progressed ? { failures: 0 } : {}),
      })
      await saveSession(tx, segment, turn.saved)
      await tx.kysely
        .insertInto('agent.spans')
        .values({
          id: turn.span.id,
          organization_id: run.organizationId,
          run_id: run.id,
          root_run_id: run.rootRunId,
          parent_id: run.id,
          kind: 'llm',
          name: `${turn.usage.provider}/${turn.usage.model}`,
          status: 'ok',
          started_at: turn.span.startedAt,
          ended_at: sql<Date>`clock_timestamp()`,
          attributes: JSON.stringify({
            inputTokens: turn.usage.inputTokens,
            outputTokens: turn.usage.outputTokens,
            costCents: turn.usage.costCents,
            usageId: turn.usage.usageId,
          }),
        })
        .execute()
      await tx.kysely
        .insertInto('agent.span_payloads')
        .values({ span_id: turn.span.id, organization_id: run.organizationId, output: JSON.stringify(turn.span.text) })
        .execute()
      await tx.kysely
        .insertInto('public.ai_usage_log')
        .values({
          id: turn.usage.usageId,
          organization_id: run.organizationId,
          root_run_id: run.rootRunId,
          run_id: run.id,
          span_id: turn.span.id,
          kind: 'model',
          provider: turn.usage.provider,
          item: turn.usage.model,
          quantity: JSON.stringify({ inputTokens: turn.usage.inputTokens, outputTokens: turn.usage.outputTokens }),
          cost_cents: turn.usage.costCents,
        })
        .execute()
    })
  }

  async saveSession(segment: Segment, saved: SavedRunSession): Promise<void> {
    await this.#database.transaction(async (tx) => {
      await own(tx, segment, {})
      await saveSession(tx, segment, saved)
    })
  }

  async park(segment: Segment, request: ParkRequest): Promise<'parked' | 'moved'> {
    const parked = await this.#database.kysely
      .updateTable('agent.runs')
      .set({ status: 'parked', segment_id: null, wake_at: request.wakeAt })
      .where('id', '=', segment.run.id)
      .where('segment_id', '=', segment.id)
      .where('wake_counter', '=', segment.run.wakeCounter)
      .executeTakeFirst()
    if (parked.numUpdatedRows > 0n) return 'parked'
    const released = await this.#database.kysely
      .updateTable('agent.runs')
      .set({ status: 'queued', segment_id: null })
      .where('id', '=', segment.run.id)
      .where('segment_id', '=', segment.id)
      .executeTakeFirst()
    if (released.numUpdatedRows === 0n) throw new SegmentLost(segment.run.id)
    return 'moved'
  }

  async release(segment: Segment, fault: string | null): Promise<number> {
    const { rows } = await this.#database.query<{ failures: number }>(RELEASE, [
      segment.run.id,
      segment.id,
      RETRY_CAP_S,
      fault,
    ])
    if (rows[0] === undefined) throw new SegmentLost(segment.run.id)
    return rows[0].failures
  }

  async end(segment: Segment, ending: RunEnding): Promise<void> {
    const ended = await this.#database.transaction((tx) =>
      endRun(tx, { runId: segment.run.id, segmentId: segment.id }, ending),
    )
    if (!ended) throw new SegmentLost(segment.run.id)
  }

  async fail(runId: string, ending: RunEnding): Promise<boolean> {
    return this.#database.transaction((tx) => endRun(tx, { runId, segmentId: null }, ending))
  }

  async requestCancel(command: CancelCommand): Promise<{ readonly accepted: boolean; readonly inFlight: number }> {
    return this.#database.transaction(async (tx) => {
      const woken = await tx.kysely
        .updateTable('agent.runs')
        .set({ wake_counter: sql<number>`wake_counter + 1`, wake_at: sql<Date>`clock_timestamp()` })
        .where('organization_id', '=', command.organizationId)
        .where('id', '=', command.runId)
        .where('status', 'in', ['queued', 'running', 'parked'])
        .executeTakeFirst()
      if (woken.numUpdatedRows === 0n) return { accepted: false, inFlight: 0 }
      await tx.kysely
        .updateTable('agent.run_control')
        .set({
          cancel_requested_at: sql<Date>`clock_timestamp()`,
          cancel_reason: command.reason,
          cancelled_by: JSON.stringify(command.by),
        })
        .where('run_id', '=', command.runId)
        .where('cancel_requested_at', 'is', null)
        .execute()
      const { live } = await tx.kysely
        .selectFrom('agent.idempotency_keys')
        .select((eb) => eb.fn.countAll<number>().as('live'))
        .where('run_id', '=', command.runId)
        .where('status', '=', 'processing')
        .where('lease_until', '>', sql<Date>`clock_timestamp()`)
        .executeTakeFirstOrThrow()
      return { accepted: true, inFlight: live }
    })
  }

  async cancelRequested(segment: Segment): Promise<{ readonly reason: string | null } | null> {
    const row = await this.#database.kysely
      .selectFrom('agent.run_control')
      .select('cancel_reason')
      .where('run_id', '=', segment.run.id)
      .where('organization_id', '=', segment.run.organizationId)
      .where('cancel_requested_at', 'is not', null)
      .executeTakeFirst()
    return row === undefined ? null : { reason: row.cancel_reason }
  }

  async due(staleS: number, limit: number): Promise<readonly string[]> {
    const { rows } = await this.#database.query<{ id: string }>(DUE, [staleS, limit])
    return rows.map((row) => row.id)
  }

  async spentCents(organizationId: string, rootRunId: string): Promise<number> {
    return spentBy(this.#database, organizationId, rootRunId)
  }
}

async function notBegun(tx: Queryable, runId: string): Promise<BeginOutcome> {
  const row = await tx.kysely.selectFrom('agent.runs').select('status').where('id', '=', runId).executeTakeFirst()
  if (row === undefined) return { kind: 'missing' }
  return { kind: row.status === 'running' || row.status === 'queued' || row.status === 'parked' ? 'busy' : 'ended' }
}

/** Applies an update only while the segment owns the run. */
async function own(
  db: Queryable,
  segment: Segment,
  change: { turns?: RawBuilder<number>; tool_calls?: number; failures?: number },
): Promise<void> {
  const updated = await db.kysely
    .updateTable('agent.runs')
    .set({ segment_id: segment.id, ...change })
    .where('id', '=', segment.run.id)
    .where('segment_id', '=', segment.id)
    .where('status', '=', 'running')
    .executeTakeFirst()
  if (updated.numUpdatedRows === 0n) throw new SegmentLost(segment.run.id)
}

async function saveSession(tx: Queryable, segment: Segment, saved: SavedRunSession): Promise<void> {
  const values = {
    framework: saved.session.framework,
    state_version: saved.session.version,
    state: JSON.stringify({ session: saved.session.state, pause: saved.pause }),
    pause_id: saved.pause?.id ?? null,
    saved_at: sql<Date>`clock_timestamp()`,
  }
  await tx.kysely
    .insertInto('agent.run_sessions')
    .values({ run_id: segment.run.id, organization_id: segment.run.organizationId, ...values })
    .onConflict((conflict) => conflict.column('run_id').doUpdateSet(values))
    .execute()
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

async function endRun(
  tx: Queryable,
  owner: { runId: string; segmentId: string | null },
  ending: RunEnding,
): Promise<boolean> {
  await tx.query(LOCK_QUESTIONS, [owner.runId])
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
  update = owner.segmentId === null ? update : update.where('segment_id', '=', owner.segmentId)
  const ended = await update.executeTakeFirst()
  if (ended.numUpdatedRows === 0n) return false
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
  return true
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

async function spentBy(db: Queryable, organizationId: string, rootRunId: string): Promise<number> {
  const { spent } = await db.kysely
    .selectFrom('public.ai_usage_log')
    .select(sql<number>`coalesce(sum(cost_cents), 0)::float8`.as('spent'))
    .where('organization_id', '=', organizationId)
    .where('root_run_id', '=', rootRunId)
    .executeTakeFirstOrThrow()
  return spent
}

async function databaseNow(db: Queryable): Promise<Date> {
  const { rows } = await db.query<{ now: Date }>(NOW)
  const row = rows[0]
  if (row === undefined) throw new Error('the database did not tell the time')
  return row.now
}
