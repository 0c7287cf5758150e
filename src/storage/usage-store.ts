import { statement } from './statement.ts'
import type { Queryable } from './database.ts'

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

const TOTALS = statement(
  'usage_totals',
  `SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS "day", kind, provider, item, count(*)::integer AS "count",
     coalesce(sum((quantity ->> 'inputTokens')::float8), 0)::float8 AS "inputTokens",
     coalesce(sum((quantity ->> 'outputTokens')::float8), 0)::float8 AS "outputTokens",
     coalesce(sum(cost_cents), 0)::float8 AS "costCents"
   FROM public.ai_usage_log
   WHERE organization_id = $1::uuid AND ($3::uuid IS NULL OR root_run_id = $3::uuid)
     AND created_at >= (date_trunc('day', now() AT TIME ZONE 'UTC') - make_interval(days => $2::integer - 1)) AT TIME ZONE 'UTC'
   GROUP BY 1, 2, 3, 4 ORDER BY 1 DESC, 2, 3, 4`,
)

export function usageStore(database: Queryable): UsageStore {
  return {
    async totals({ organizationId, days, rootRunId }) {
      const { rows } = await database.query<UsageTotal>(TOTALS, [organizationId, days, rootRunId])
      return rows
    },
  }
}
