import type { UsageWriter } from '../tools/invoker.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

const WRITE = statement(
  'usage_write',
  `INSERT INTO public.ai_usage_log (id, organization_id, root_run_id, run_id, span_id, kind, provider, item, quantity, cost_cents)
   VALUES ($1::uuid, $2::uuid, $3::uuid, $4::uuid, $5::uuid, 'tool', $6::text, $7::text, $8::jsonb, $9::numeric)`,
)

/** The canonical meter: accrual reads these rows and nothing that is derived from them. */
export function usageWriter(database: Queryable): UsageWriter {
  return {
    async write({ id, organizationId, rootRunId, runId, spanId, usage }) {
      const quantity = JSON.stringify(usage.quantity)
      await database.query(WRITE, [
        id,
        organizationId,
        rootRunId,
        runId,
        spanId,
        usage.provider,
        usage.item,
        quantity,
        usage.costCents,
      ])
    },
  }
}
