import type { UsageRow, UsageWriter } from '../tools/invoker.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

const INSERT = `INSERT INTO public.ai_usage_log (id, organization_id, root_run_id, run_id, span_id, kind, provider, item, quantity, cost_cents)
   VALUES ($1::uuid, $2::uuid, $3::uuid, $4::uuid, $5::uuid, 'tool', $6::text, $7::text, $8::jsonb, $9::numeric)`

const WRITE = statement('usage_write', INSERT)

const WRITE_ONCE = statement('usage_write_once', `${INSERT} ON CONFLICT (id) DO NOTHING`)

/** The canonical meter: accrual reads these rows and nothing that is derived from them. */
export function usageWriter(database: Queryable): UsageWriter {
  return {
    async write(row) {
      await database.query(WRITE, valuesOf(row))
    },
  }
}

/** For a charge whose id is derived from what is charged: the second one is the first. */
export async function usageOnce(database: Queryable, row: UsageRow): Promise<void> {
  await database.query(WRITE_ONCE, valuesOf(row))
}

function valuesOf({ id, organizationId, rootRunId, runId, spanId, usage }: UsageRow): readonly unknown[] {
  const { provider, item, quantity, costCents } = usage
  return [id, organizationId, rootRunId, runId, spanId, provider, item, JSON.stringify(quantity), costCents]
}
