import type { DayCost } from '../runs/day-cost.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

/** The sum is read only where there is a ceiling it is compared with. */
const DAY_COST = statement(
  'organization_day_cost',
  `SELECT d.max AS "maxCents",
     CASE WHEN d.max IS NOT NULL THEN (SELECT coalesce(sum(u.cost_cents), 0)::float8 FROM public.ai_usage_log u
       WHERE u.organization_id = g.id AND u.created_at >= date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC') END AS "spentCents"
   FROM agent.organizations g CROSS JOIN LATERAL (SELECT (g.settings ->> 'maxCostCentsPerDay')::float8 AS max) d
   WHERE g.id = $1::uuid`,
)

export function dayCost(database: Queryable): DayCost {
  return async (organizationId) => {
    const { rows } = await database.query<{ maxCents: number | null; spentCents: number | null }>(DAY_COST, [
      organizationId,
    ])
    const row = rows[0]
    if (row === undefined || row.maxCents === null) return null
    return { maxCents: row.maxCents, spentCents: row.spentCents ?? 0 }
  }
}
