import { sql, type RawBuilder } from 'kysely'
import type { BeginRules } from '../runs/lane.ts'
import {
  SegmentLost,
  type BeginOutcome,
  type CancelCommand,
  type CancelOutcome,
  type NewRun,
  type Page,
  type ParkRequest,
  type RunEnding,
  type RunListFilter,
  type RunRow,
  type ReleaseOutcome,
  type RunStore,
  type SavedRunSession,
  type Segment,
  type SegmentFault,
  type TurnRecord,
} from '../runs/run-store.ts'
import type { Database, Queryable } from './database.ts'
import { pageOf } from './page.ts'
import { runOf } from './run-row.ts'
import { beginRun, spentBy } from './run-begin.ts'
import { endRun } from './run-end.ts'
import { insertRun } from './run-insert.ts'
import { lockParent, nudge, stopBelow } from './run-tree.ts'
import { DUE } from './lane-store.sql.ts'
import { BEAT, LOCK_QUESTIONS, RELEASE } from './run-store.sql.ts'

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
    return this.#database.transaction((tx) => insertRun(tx, run))
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

  async begin(runId: string, segmentId: string, rules: BeginRules): Promise<BeginOutcome> {
    return this.#database.transaction((tx) => beginRun(tx, { runId, segmentId, rules }))
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
        ...(turn.progressed ? { failures: 0, abandoned: 0 } : {}),
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

  async release(segment: Segment, fault: SegmentFault | null): Promise<ReleaseOutcome> {
    return this.#database.transaction(async (tx) => {
      if (fault !== null) await tx.query(LOCK_QUESTIONS, [segment.run.id])
      if (segment.run.parentRunId !== null) await lockParent(tx, segment.run.id)
      const { rows } = await tx.query<{ failures: number }>(RELEASE, [
        segment.run.id,
        segment.id,
        RETRY_CAP_S,
        fault?.message ?? null,
      ])
      if (rows[0] === undefined) throw new SegmentLost(segment.run.id)
      const { failures } = rows[0]
      if (fault?.final == null || failures <= fault.final.maxFailures) return { kind: 'queued', failures }
      await endRun(tx, { runId: segment.run.id, segmentId: null }, fault.final.ending)
      return { kind: 'failed', failures }
    })
  }

  async end(segment: Segment, ending: RunEnding): Promise<void> {
    const ended = await this.#database.transaction((tx) =>
      endRun(tx, { runId: segment.run.id, segmentId: segment.id }, ending),
    )
    if (ended === null) throw new SegmentLost(segment.run.id)
  }

  async fail(runId: string, ending: RunEnding): Promise<RunRow | null> {
    return this.#database.transaction((tx) => endRun(tx, { runId, segmentId: null }, ending))
  }

  async requestCancel(command: CancelCommand): Promise<CancelOutcome> {
    return this.#database.transaction(async (tx) => {
      const woken = await tx.kysely
        .updateTable('agent.runs')
        .set({ wake_counter: sql<number>`wake_counter + 1`, wake_at: sql<Date>`clock_timestamp()` })
        .where('organization_id', '=', command.organizationId)
        .where('id', '=', command.runId)
        .where('status', 'in', ['queued', 'running', 'parked'])
        .executeTakeFirst()
      if (woken.numUpdatedRows === 0n) return { accepted: false, inFlight: 0, below: [] }
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
      return { accepted: true, inFlight: live, below: await stopBelow(tx, command.runId, command) }
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

  async nudge(runId: string): Promise<void> {
    await nudge(this.#database, runId)
  }

  async lanePaused({ run }: Segment): Promise<boolean> {
    const row = await this.#database.kysely
      .selectFrom('agent.lanes')
      .select('lane')
      .where('organization_id', '=', run.organizationId)
      .where('lane', '=', run.lane)
      .where('paused_at', 'is not', null)
      .executeTakeFirst()
    return row !== undefined
  }

  async due({ staleS, lanes }: BeginRules, limit: number, organizationId?: string): Promise<readonly string[]> {
    const values = [staleS, limit, lanes.interactive, lanes.batch, organizationId ?? null]
    const { rows } = await this.#database.query<{ id: string }>(DUE, values)
    return rows.map((row) => row.id)
  }

  async spentCents(organizationId: string, rootRunId: string): Promise<number> {
    return spentBy(this.#database, organizationId, rootRunId)
  }
}

/** Applies an update only while the segment owns the run. */
async function own(
  db: Queryable,
  segment: Segment,
  change: { turns?: RawBuilder<number>; tool_calls?: number; failures?: number; abandoned?: number },
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
