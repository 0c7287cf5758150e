import { statement } from './statement.ts'
import type { Queryable } from './database.ts'
import { LATE_DAYS, rolledThrough, shifted } from './usage-rollup.ts'

/** What one provider's item used on one day (UTC). */
export interface UsageTotal {
  readonly day: string
  readonly kind: 'model' | 'tool'
  readonly provider: string
  readonly item: string
  readonly count: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly costCents: number
}

export interface UsageFilter {
  readonly organizationId: string
  /** Days up to and including today. */
  readonly days: number
  /** Root run of one run tree. */
  readonly rootRunId: string | null
}

export interface UsageStore {
  totals(filter: UsageFilter): Promise<readonly UsageTotal[]>
}

/** $4 is the first day that is read from the log itself; days before it are read from their sums. */
const TOTALS = statement(
  'usage_totals',
  `WITH since AS (SELECT to_char(now() AT TIME ZONE 'UTC' - make_interval(days => $2::integer - 1), 'YYYY-MM-DD') AS day),
   live AS (
     SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS "day", kind, provider, item, count(*)::integer AS "count",
       coalesce(sum((quantity ->> 'inputTokens')::float8), 0)::float8 AS "inputTokens",
       coalesce(sum((quantity ->> 'outputTokens')::float8), 0)::float8 AS "outputTokens",
       coalesce(sum(cost_cents), 0)::float8 AS "costCents"
     FROM public.ai_usage_log
     WHERE organization_id = $1::uuid AND ($3::uuid IS NULL OR root_run_id = $3::uuid)
       AND created_at >= (SELECT greatest(day, $4::text)::timestamp AT TIME ZONE 'UTC' FROM since)
     GROUP BY 1, 2, 3, 4),
   summed AS (
     SELECT day, kind, provider, item, calls AS "count",
       coalesce((quantity ->> 'inputTokens')::float8, 0) AS "inputTokens",
       coalesce((quantity ->> 'outputTokens')::float8, 0) AS "outputTokens", cost_cents::float8 AS "costCents"
     FROM public.ai_usage_daily
     WHERE organization_id = $1 AND $3 IS NULL AND day >= (SELECT day FROM since) AND day < $4::text)
   SELECT * FROM live UNION ALL SELECT * FROM summed ORDER BY 1 DESC, 2, 3, 4`,
)

/** Before every day: everything is read from the log. */
const NO_SUMS = '0001-01-01'

export function usageStore(database: Queryable): UsageStore {
  return {
    async totals({ organizationId, days, rootRunId }) {
      const through = rootRunId === null ? await rolledThrough(database) : null
      // The last days may still change, so that they are read as they are now; sums of older ones are final.
      const liveFrom = through === null ? NO_SUMS : shifted(through, 1 - LATE_DAYS)
      const { rows } = await database.query<UsageTotal>(TOTALS, [organizationId, days, rootRunId, liveFrom])
      return rows
    },
  }
}
