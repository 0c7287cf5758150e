import type { UsageRollup } from '../runs/upkeep.ts'
import type { Database, Queryable } from './database.ts'
import { statement } from './statement.ts'

const NAME = 'usage-rollup'

/** A row may come late, from a long transaction or a clock that is off: the last days are summed up again. */
export const LATE_DAYS = 3

/** Days of one roll. After a long silence, the next roll goes on. */
const MAX_DAYS = 400

/** $1 day. Existing sums become what the log says now; a day whose rows were removed keeps its sums. */
const ROLL = statement(
  'usage_roll',
  `WITH rows AS (
     SELECT organization_id, kind, provider, item, quantity, cost_cents FROM public.ai_usage_log
     WHERE created_at >= $1::text::timestamp AT TIME ZONE 'UTC'
       AND created_at < ($1::text::timestamp + interval '1 day') AT TIME ZONE 'UTC'),
   counted AS (
     SELECT organization_id, kind, provider, item, e.key, sum((e.value #>> '{}')::numeric) AS total
     FROM rows CROSS JOIN LATERAL jsonb_each(quantity) AS e WHERE jsonb_typeof(e.value) = 'number'
     GROUP BY 1, 2, 3, 4, 5),
   quantities AS (
     SELECT organization_id, kind, provider, item, jsonb_object_agg(key, total) AS quantity FROM counted GROUP BY 1, 2, 3, 4)
   INSERT INTO public.ai_usage_daily AS d (organization_id, day, kind, provider, item, calls, quantity, cost_cents)
   SELECT r.organization_id, $1::text, r.kind, r.provider, r.item, count(*)::integer,
     coalesce((SELECT q.quantity FROM quantities q WHERE q.organization_id = r.organization_id AND q.kind = r.kind
       AND q.provider = r.provider AND q.item = r.item), '{}'), sum(r.cost_cents)
   FROM rows r GROUP BY r.organization_id, r.kind, r.provider, r.item
   ON CONFLICT (organization_id, day, kind, provider, item)
     DO UPDATE SET calls = EXCLUDED.calls, quantity = EXCLUDED.quantity, cost_cents = EXCLUDED.cost_cents`,
)

const FIRST_DAY = statement(
  'usage_first_day',
  `SELECT to_char(min(created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day FROM public.ai_usage_log`,
)

const THROUGH = statement(
  'usage_rolled_through',
  `SELECT state ->> 'through' AS day FROM agent.upkeep WHERE name = $1::text`,
)

const NOTE = statement(
  'usage_note_through',
  `INSERT INTO agent.upkeep (name, due_at, state) VALUES ($1::text, $2::timestamptz, jsonb_build_object('through', $3::text))
   ON CONFLICT (name) DO UPDATE SET due_at = EXCLUDED.due_at, state = EXCLUDED.state`,
)

/** Sums of past days, for charts. Spend that is compared with a ceiling is never read from them. */
export function usageRollup(database: Database): UsageRollup {
  return {
    async roll(now) {
      const days = daysToRoll(await rolledThrough(database), await firstDay(database), now)
      for (const day of days) await database.query(ROLL, [day])
      const last = days.at(-1)
      if (last !== undefined) await database.query(NOTE, [NAME, now, last])
      return days
    },
  }
}

/** The last day whose sums are whole; null before the first roll. */
export async function rolledThrough(database: Queryable): Promise<string | null> {
  const { rows } = await database.query<{ day: string | null }>(THROUGH, [NAME])
  return rows[0]?.day ?? null
}

async function firstDay(database: Queryable): Promise<string | null> {
  const { rows } = await database.query<{ day: string | null }>(FIRST_DAY)
  return rows[0]?.day ?? null
}

/** From the first day that is not summed up, or the late days, to yesterday. */
export function daysToRoll(through: string | null, first: string | null, now: Date): readonly string[] {
  const yesterday = shifted(dayOf(now), -1)
  const late = shifted(dayOf(now), -LATE_DAYS)
  const begun = through === null ? first : shifted(through, 1)
  if (begun === null) return []
  const days: string[] = []
  for (let day = begun < late ? begun : late; day <= yesterday && days.length < MAX_DAYS; day = shifted(day, 1))
    days.push(day)
  return days
}

export function dayOf(instant: Date): string {
  return instant.toISOString().slice(0, 10)
}

export function shifted(day: string, days: number): string {
  return dayOf(new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000))
}
