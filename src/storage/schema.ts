import type { Generated } from 'kysely'
import type {
  Bytes,
  DefaultedJson,
  Instant,
  Json,
  NullableBytes,
  NullableInstant,
  NullableJson,
  StampedInstant,
} from './column-types.ts'
import type {
  CompaniesTable,
  IntelCompaniesTable,
  IntelObservationsTable,
  ListMembersTable,
  ListsTable,
  MemoriesTable,
  PeopleTable,
} from './domain-schema.ts'

import type {
  AiUsageDailyTable,
  ErasuresTable,
  InstallationTable,
  LanesTable,
  ProviderJobResultsTable,
  ProviderJobsTable,
  RunSignalsTable,
  RunStepsTable,
  UpkeepTable,
} from './durable-schema.ts'

/**
 * Tables as Kysely sees them, named with their schema (`'agent.runs'`). JSON is selected parsed and written as text made
 * by `JSON.stringify`; bigint and numeric are numbers; timestamptz is a Date; bytea a Buffer.
 */
export interface DatabaseSchema {
  'agent.organizations': OrganizationsTable
  'agent.users': UsersTable
  'agent.memberships': MembershipsTable
  'agent.api_keys': ApiKeysTable
  'agent.console_sessions': ConsoleSessionsTable
  'agent.tools': ToolsTable
  'agent.tool_states': ToolStatesTable
  'agent.definitions': DefinitionsTable
  'agent.grants': GrantsTable
  'agent.policy_rules': PolicyRulesTable
  'agent.connections': ConnectionsTable
  'agent.connection_secrets': ConnectionSecretsTable
  'agent.connection_authorizations': ConnectionAuthorizationsTable
  'agent.runs': RunsTable
  'agent.run_control': RunControlTable
  'agent.run_heartbeats': RunHeartbeatsTable
  'agent.run_sessions': RunSessionsTable
  'agent.approvals': ApprovalsTable
  'agent.idempotency_keys': IdempotencyKeysTable
  'agent.rule_counters': RuleCountersTable
  'agent.run_taints': RunTaintsTable
  'agent.spans': SpansTable
  'agent.span_payloads': SpanPayloadsTable
  'agent.policy_decisions': PolicyDecisionsTable
  'agent.lanes': LanesTable
  'agent.run_steps': RunStepsTable
  'agent.run_signals': RunSignalsTable
  'agent.provider_jobs': ProviderJobsTable
  'agent.provider_job_results': ProviderJobResultsTable
  'agent.installation': InstallationTable
  'agent.upkeep': UpkeepTable
  'agent.erasures': ErasuresTable
  'public.ai_usage_log': AiUsageLogTable
  'public.ai_usage_daily': AiUsageDailyTable
  'public.people': PeopleTable
  'public.companies': CompaniesTable
  'public.lists': ListsTable
  'public.list_members': ListMembersTable
  'public.memories': MemoriesTable
  'public.intel_companies': IntelCompaniesTable
  'public.intel_observations': IntelObservationsTable
}

interface OrganizationsTable {
  id: string
  slug: string
  name: string
  settings: DefaultedJson
  rules_version: Generated<number>
  created_at: StampedInstant
}

interface UsersTable {
  id: string
  email: string
  name: string
  created_at: StampedInstant
}

interface MembershipsTable {
  organization_id: string
  user_id: string
  role: 'owner' | 'approver' | 'member' | 'viewer'
  created_at: StampedInstant
}

interface ApiKeysTable {
  id: string
  organization_id: string
  kind: 'run' | 'approve' | 'admin'
  name: string
  key_hash: Bytes
  created_at: StampedInstant
  revoked_at: NullableInstant
}

interface ConsoleSessionsTable {
  token_hash: Bytes
  organization_id: string
  user_id: string | null
  key_id: string | null
  kind: 'sign_in' | 'session'
  created_at: StampedInstant
  expires_at: Instant
  used_at: NullableInstant
}

interface ToolsTable {
  name: string
  schema_hash: Bytes
  version: number
  spec: Json
  created_at: StampedInstant
}

interface ToolStatesTable {
  organization_id: string
  tool: string
  enabled: boolean
  changed_at: StampedInstant
  changed_by: Json
}

interface DefinitionsTable {
  id: string
  organization_id: string
  slug: string
  version: number
  body: Json
  body_hash: Bytes
  published_at: StampedInstant
}

interface GrantsTable {
  id: string
  organization_id: string
  definition: string
  tool: string
  granted_at: StampedInstant
  granted_by: Json
  revoked_at: NullableInstant
  revoked_by: NullableJson
}

interface PolicyRulesTable {
  id: string
  organization_id: string
  name: string
  tools: Json
  condition: string | null
  effect: 'allow' | 'deny' | 'require_approval'
  mode: 'enforce' | 'shadow'
  approvers: DefaultedJson
  ttl_s: number | null
  call_limit: NullableJson
  created_at: StampedInstant
  created_by: Json
  deleted_at: NullableInstant
}

interface ConnectionsTable {
  id: string
  organization_id: string
  provider: string
  label: string
  state: 'connected' | 'needs_reauth' | 'revoked'
  settings: DefaultedJson
  created_at: StampedInstant
  changed_at: StampedInstant
  auth: Generated<'external' | 'secret' | 'oauth2'>
  account: string | null
  scope: string | null
  expires_at: NullableInstant
  reauth_reason: string | null
  changed_by: NullableJson
}

interface ConnectionSecretsTable {
  organization_id: string
  connection_id: string
  field: string
  version: number
  kek_id: string
  wrapped_dek: Bytes
  sealed: Bytes
  created_at: StampedInstant
  rotated_at: NullableInstant
}

interface ConnectionAuthorizationsTable {
  state_hash: Bytes
  organization_id: string
  provider: string
  label: string | null
  connection_id: string | null
  settings: DefaultedJson
  redirect_uri: string
  browser_hash: NullableBytes
  version: number
  kek_id: string
  wrapped_dek: Bytes
  sealed: Bytes
  begun_by: Json
  begun_at: StampedInstant
  expires_at: Instant
}

interface RunsTable {
  id: string
  organization_id: string
  kind: Generated<'agent' | 'workflow'>
  parent_run_id: string | null
  parent_step: string | null
  lane: Generated<'interactive' | 'batch'>
  held_at: NullableInstant
  held_reason: string | null
  retry_of: string | null
  root_run_id: string
  definition_id: string
  definition: string
  status: 'queued' | 'running' | 'parked' | 'completed' | 'partial' | 'failed' | 'cancelled'
  reason: string | null
  message: string | null
  source: string
  input: Json
  output: NullableJson
  snapshot: Json
  turns: Generated<number>
  tool_calls: Generated<number>
  wake_counter: Generated<number>
  failures: Generated<number>
  abandoned: Generated<number>
  segment_id: string | null
  begun_at: NullableInstant
  deadline: Instant
  wake_at: NullableInstant
  created_at: StampedInstant
  started_at: NullableInstant
  ended_at: NullableInstant
}

interface RunControlTable {
  run_id: string
  organization_id: string
  cancel_requested_at: NullableInstant
  cancel_reason: string | null
  cancelled_by: NullableJson
  released_at: NullableInstant
  released_by: NullableJson
}

interface RunHeartbeatsTable {
  run_id: string
  organization_id: string
  segment_id: string
  beat_at: Instant
}

interface RunSessionsTable {
  run_id: string
  organization_id: string
  framework: string
  state_version: number
  state: Json
  pause_id: string | null
  saved_at: StampedInstant
}

interface ApprovalsTable {
  id: string
  organization_id: string
  run_id: string
  idempotency_key: string
  pause_id: string | null
  span_id: string
  kind: 'action' | 'outcome'
  state: 'pending' | 'approved' | 'rejected' | 'expired' | 'cancelled' | 'stale'
  action: string
  tool_version: number
  arguments: Json
  arguments_hash: Bytes
  connection_id: string | null
  preview: string | null
  rule_id: string | null
  rule_name: string | null
  facts: DefaultedJson
  approvers: DefaultedJson
  principal: Json
  requested_at: StampedInstant
  expires_at: Instant
  decided_at: NullableInstant
  decided_by: NullableJson
  note: string | null
}

interface IdempotencyKeysTable {
  organization_id: string
  scope: string
  key: string
  run_id: string | null
  status: 'processing' | 'completed' | 'reclaimable'
  request_hash: Bytes
  attempt: Generated<number>
  owner: string
  lease_until: Instant
  response: NullableJson
  counted: NullableJson
  first_claimed_at: StampedInstant
  claimed_at: StampedInstant
  completed_at: NullableInstant
}

interface RuleCountersTable {
  organization_id: string
  period: string
  rule: string
  used: number
}

interface RunTaintsTable {
  organization_id: string
  root_run_id: string
  source: string
  tainted_at: StampedInstant
}

interface SpansTable {
  id: string
  organization_id: string
  run_id: string
  root_run_id: string | null
  parent_id: string | null
  kind: 'run' | 'segment' | 'llm' | 'tool' | 'node'
  name: string
  status: 'running' | 'ok' | 'error'
  code: string | null
  started_at: Instant
  ended_at: NullableInstant
  attributes: DefaultedJson
}

interface SpanPayloadsTable {
  span_id: string
  organization_id: string
  input: NullableJson
  output: NullableJson
}

interface PolicyDecisionsTable {
  id: string
  organization_id: string
  run_id: string
  span_id: string
  tool: string
  arguments_hash: Bytes
  stage: number
  outcome: 'allow' | 'deny' | 'require_approval' | 'fault'
  rule_id: string | null
  rule_name: string | null
  message: string | null
  facts: DefaultedJson
  shadow: DefaultedJson
  approval_id: string | null
  decided_at: Instant
}

interface AiUsageLogTable {
  id: string
  organization_id: string
  root_run_id: string
  run_id: string
  span_id: string | null
  kind: 'model' | 'tool'
  provider: string
  item: string
  quantity: Json
  cost_cents: number
  created_at: StampedInstant
}
