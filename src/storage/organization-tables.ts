/** A table of an organization, for what is done with everything an organization has. */
export interface OrganizationTable {
  readonly name: string
  /** Columns of its primary key, in their order. */
  readonly key: readonly string[]
  /** Null where no row may leave the database. */
  readonly exported: { readonly without: readonly string[] } | null
}

const ID = ['id'] as const

/** Type of a column of a key. */
export function keyType(column: string): 'uuid' | 'bytea' | 'text' {
  if (column === 'id' || column.endsWith('_id')) return 'uuid'
  return column.endsWith('_hash') || column.endsWith('_digest') ? 'bytea' : 'text'
}

/** All of them, in an order in which their rows can be deleted: what points at a row comes before it. */
export const ORGANIZATION_TABLES: readonly OrganizationTable[] = [
  whole('public.list_members', ['organization_id', 'list_id', 'member_id']),
  whole('public.lists', ID),
  whole('public.people', ID),
  whole('public.companies', ID),
  whole('public.memories', ID),
  whole('public.ai_usage_log', ID),
  whole('public.ai_usage_daily', ['organization_id', 'day', 'kind', 'provider', 'item']),
  whole('agent.span_payloads', ['span_id']),
  whole('agent.spans', ID),
  whole('agent.policy_decisions', ID),
  whole('agent.idempotency_keys', ['organization_id', 'scope', 'key']),
  whole('agent.approvals', ID),
  whole('agent.rule_counters', ['organization_id', 'period', 'rule']),
  whole('agent.run_taints', ['organization_id', 'root_run_id', 'source']),
  whole('agent.run_signals', ID),
  whole('agent.run_steps', ['run_id', 'path']),
  whole('agent.run_sessions', ['run_id']),
  whole('agent.run_control', ['run_id']),
  whole('agent.run_heartbeats', ['run_id']),
  whole('agent.provider_job_results', ['job_id', 'result_digest']),
  whole('agent.provider_jobs', ID),
  whole('agent.runs', ID),
  whole('agent.lanes', ['organization_id', 'lane']),
  whole('agent.grants', ID),
  whole('agent.definitions', ID),
  whole('agent.policy_rules', ID),
  whole('agent.tool_states', ['organization_id', 'tool']),
  // Sealed secrets, and sign-ins that have begun: of no use to anybody but the vault.
  kept('agent.connection_secrets', ['organization_id', 'connection_id', 'field']),
  kept('agent.connection_authorizations', ['state_hash']),
  whole('agent.connections', ID),
  kept('agent.console_sessions', ['token_hash']),
  { name: 'agent.api_keys', key: ID, exported: { without: ['key_hash'] } },
  whole('agent.memberships', ['organization_id', 'user_id']),
  { name: 'agent.erasures', key: ID, exported: { without: ['salt', 'subject_hash'] } },
]

function whole(name: string, key: readonly string[]): OrganizationTable {
  return { name, key, exported: { without: [] } }
}

function kept(name: string, key: readonly string[]): OrganizationTable {
  return { name, key, exported: null }
}
