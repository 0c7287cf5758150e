import type { ColumnType } from 'kysely'
import type { DatabaseSchema } from '../schema.ts'

/**
 * Tables that a scoped handle may name. Not here, and so out of reach: tables without an owner, and the credentials of
 * the platform itself, which are for the service path alone.
 */
export const SCOPED_TABLES = [
  'agent.memberships',
  'agent.tool_states',
  'agent.definitions',
  'agent.grants',
  'agent.policy_rules',
  'agent.connections',
  'agent.runs',
  'agent.run_control',
  'agent.run_heartbeats',
  'agent.run_sessions',
  'agent.lanes',
  'agent.run_steps',
  'agent.run_signals',
  'agent.provider_jobs',
  'agent.approvals',
  'agent.idempotency_keys',
  'agent.rule_counters',
  'agent.run_taints',
  'agent.spans',
  'agent.span_payloads',
  'agent.policy_decisions',
  'public.ai_usage_log',
  'public.ai_usage_daily',
  'public.people',
  'public.companies',
  'public.lists',
  'public.list_members',
  'public.memories',
] as const satisfies readonly (keyof DatabaseSchema)[]

export type ScopedTableName = (typeof SCOPED_TABLES)[number]

/** The organization is stamped: it need not be given, and cannot be moved. */
type Scoped<Table> = Omit<Table, 'organization_id'> & {
  organization_id: ColumnType<string, string | undefined, never>
}

export type ScopedSchema = { [Name in ScopedTableName]: Scoped<DatabaseSchema[Name]> }

/** The column that every table above is owned by. */
export const OWNER = 'organization_id'

const names: ReadonlySet<string> = new Set(SCOPED_TABLES)
const bareNames: ReadonlySet<string> = new Set(SCOPED_TABLES.map((table) => table.slice(table.indexOf('.') + 1)))

export function isScopedTable(schema: string, table: string): boolean {
  return names.has(`${schema}.${table}`)
}

/** Whether a name without a schema could also be found as a table of ours. */
export function isBareTableName(name: string): boolean {
  return bareNames.has(name)
}
