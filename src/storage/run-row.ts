import type { Selectable } from 'kysely'
import type { RunSnapshot } from '../runs/definition.ts'
import type { RunRow } from '../runs/run-store.ts'
import type { RunSource } from '../tools/invocation.ts'
import type { DatabaseSchema } from './schema.ts'

export type StoredRun = Selectable<DatabaseSchema['agent.runs']>

export function runOf(row: StoredRun): RunRow {
  return {
    id: row.id,
    organizationId: row.organization_id,
    kind: row.kind,
    rootRunId: row.root_run_id,
    parentRunId: row.parent_run_id,
    parentStep: row.parent_step,
    retryOf: row.retry_of,
    definitionId: row.definition_id,
    definition: row.definition,
    status: row.status,
    lane: row.lane,
    heldAt: row.held_at,
    heldReason: row.held_reason,
    reason: row.reason,
    message: row.message,
    source: row.source as RunSource,
    input: row.input,
    output: row.output,
    snapshot: row.snapshot as unknown as RunSnapshot,
    turns: row.turns,
    toolCalls: row.tool_calls,
    wakeCounter: row.wake_counter,
    deadline: row.deadline,
    wakeAt: row.wake_at,
    createdAt: row.created_at,
    startedAt: row.started_at,
    endedAt: row.ended_at,
  }
}
