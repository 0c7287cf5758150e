import { sql } from 'kysely'
import { LANES, type LaneLimits, type LaneOf, type LaneState, type LaneStore } from '../runs/lane.ts'
import type { Actor } from '../tools/invocation.ts'
import type { Database, Queryable } from './database.ts'
import { LANE_COUNTS, LOCK_LANE, NEXT } from './lane-store.sql.ts'

interface CountRow {
  readonly lane: string
  readonly active: number
  readonly queued: number
  readonly parked: number
}

export function laneStore(database: Database): LaneStore {
  return {
    list: (organizationId, limits) => list(database, organizationId, limits),
    pause: (lane, by) =>
      database.transaction(async (tx) => {
        // Whoever is giving out a place of the lane has finished, and whoever comes next sees that it is closed.
        await tx.query(LOCK_LANE, [lane.organizationId, lane.lane])
        const paused_by = JSON.stringify(by)
        const paused = await tx.kysely
          .insertInto('agent.lanes')
          .values({ ...keyOf(lane), max_active: null, paused_at: sql<Date>`clock_timestamp()`, paused_by })
          .onConflict((conflict) =>
            conflict
              .columns(['organization_id', 'lane'])
              .doUpdateSet({ paused_at: sql<Date>`clock_timestamp()`, paused_by })
              .where('agent.lanes.paused_at', 'is', null),
          )
          .executeTakeFirst()
        return (paused.numInsertedOrUpdatedRows ?? 0n) > 0n
      }),
    async resume({ organizationId, lane }) {
      const resumed = await database.kysely
        .updateTable('agent.lanes')
        .set({ paused_at: null, paused_by: null })
        .where('organization_id', '=', organizationId)
        .where('lane', '=', lane)
        .where('paused_at', 'is not', null)
        .executeTakeFirst()
      return resumed.numUpdatedRows > 0n
    },
    async setLimit(lane, maxActive) {
      await database.kysely
        .insertInto('agent.lanes')
        .values({ ...keyOf(lane), max_active: maxActive, paused_at: null, paused_by: null })
        .onConflict((conflict) => conflict.columns(['organization_id', 'lane']).doUpdateSet({ max_active: maxActive }))
        .execute()
    },
    async next({ organizationId, lane }, limits) {
      const { rows } = await database.query<{ id: string }>(NEXT, [
        organizationId,
        lane,
        limits.interactive,
        limits.batch,
      ])
      return rows.map(({ id }) => id)
    },
    release: (held, by) => database.transaction((tx) => release(tx, held, by)),
  }
}

function keyOf({ organizationId, lane }: LaneOf) {
  return { organization_id: organizationId, lane }
}

async function list(db: Queryable, organizationId: string, limits: LaneLimits): Promise<readonly LaneState[]> {
  const own = await db.kysely
    .selectFrom('agent.lanes')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .execute()
  const { rows } = await db.query<CountRow>(LANE_COUNTS, [organizationId])
  return LANES.map((lane): LaneState => {
    const set = own.find((row) => row.lane === lane)
    const counted = rows.find((row) => row.lane === lane)
    return {
      lane,
      active: counted?.active ?? 0,
      queued: counted?.queued ?? 0,
      parked: counted?.parked ?? 0,
      limit: set?.max_active ?? limits[lane],
      limitIsOwn: set?.max_active != null,
      paused: set?.paused_at == null ? null : { at: set.paused_at, by: set.paused_by as unknown as Actor },
    }
  })
}

/** A run that has ended needs nobody's leave, and keeps the mark of having been held. */
async function release(
  tx: Queryable,
  { organizationId, runId }: Parameters<LaneStore['release']>[0],
  by: Actor,
): Promise<readonly string[]> {
  let update = tx.kysely
    .updateTable('agent.runs')
    // To be looked at now: what it waited for may have come before the database was restored.
    .set({ held_at: null, wake_at: sql<Date>`clock_timestamp()`, wake_counter: sql<number>`wake_counter + 1` })
    .where('organization_id', '=', organizationId)
    .where('held_at', 'is not', null)
    .where('status', 'in', ['queued', 'running', 'parked'])
  if (runId !== undefined) update = update.where('id', '=', runId)
  const released = (await update.returning('id').execute()).map(({ id }) => id)
  if (released.length === 0) return []
  await tx.kysely
    .updateTable('agent.run_control')
    .set({ released_at: sql<Date>`clock_timestamp()`, released_by: JSON.stringify(by) })
    .where('run_id', 'in', released)
    .execute()
  return released
}
