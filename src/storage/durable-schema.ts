import type { Generated } from 'kysely'
import type {
  Bytes,
  DefaultedJson,
  Instant,
  Json,
  NullableInstant,
  NullableJson,
  StampedInstant,
} from './column-types.ts'

/* Tables of durable runs beside `agent.runs` itself. */

export interface LanesTable {
  organization_id: string
  lane: 'interactive' | 'batch'
  max_active: number | null
  paused_at: NullableInstant
  paused_by: NullableJson
}

export interface RunStepsTable {
  run_id: string
  organization_id: string
  path: string
  node: string
  kind: string
  state: 'running' | 'waiting' | 'completed' | 'failed' | 'skipped'
  attempt: Generated<number>
  output: NullableJson
  error: NullableJson
  wait: NullableJson
  child_run_id: string | null
  started_at: StampedInstant
  ended_at: NullableInstant
}

export interface RunSignalsTable {
  id: string
  organization_id: string
  run_id: string
  name: string
  payload: Json
  sent_at: StampedInstant
  sent_by: Json
  consumed_by: string | null
}

export interface AiUsageDailyTable {
  organization_id: string
  day: string
  kind: 'model' | 'tool'
  provider: string
  item: string
  calls: number
  quantity: Json
  cost_cents: number
}

export interface InstallationTable {
  singleton: Generated<boolean>
  identity: string
  noted_at: StampedInstant
  generation: Generated<number>
}

export interface UpkeepTable {
  name: string
  due_at: Instant
  state: DefaultedJson
}

export interface ErasuresTable {
  id: string
  organization_id: string
  salt: Bytes
  subject_hash: Bytes
  erased_at: StampedInstant
  erased_by: Json
  counts: Json
}

export interface ProviderJobsTable {
  id: string
  organization_id: string
  root_run_id: string
  run_id: string
  tool_call_id: string
  provider: string
  provider_job_id: string | null
  contact_refs: DefaultedJson
  state: 'submitted' | 'running' | 'completed' | 'failed' | 'cancelled'
  result: NullableJson
  cost: NullableJson
  usage_id: string | null
  submitted_at: StampedInstant
  updated_at: StampedInstant
  terminal_at: NullableInstant
}

export interface ProviderJobResultsTable {
  job_id: string
  organization_id: string
  result_digest: Bytes
  result: Json
}
