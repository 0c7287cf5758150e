import type { PastCall, PastCalls } from '../policy/past-call.ts'
import type { Principal, RunSource } from '../tools/invocation.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

/**
 * $1 organization, $2 tools, $3 since, $4 most. Decisions that rules made: not those of an approved call going on, which
 * was decided when it was filed, nor a question about an outcome. One more than asked for tells whether there are more.
 */
export const PAST_DECISIONS = statement(
  'past_calls',
  `SELECT d.span_id, d.run_id, d.tool, d.decided_at, encode(d.arguments_hash, 'hex') AS arguments_hash, d.facts, d.outcome, d.rule_name,
     a.state AS approval_state, a.arguments AS filed_arguments, p.input, s.status, s.attributes ->> 'stepPath' AS step_path
   FROM (
     SELECT * FROM agent.policy_decisions
     WHERE organization_id = $1::uuid AND tool = ANY($2::text[]) AND decided_at >= $3::timestamptz AND stage = 2
       AND NOT (outcome = 'allow' AND approval_id IS NOT NULL) AND message IS DISTINCT FROM 'outcome_unknown'
     ORDER BY decided_at DESC, id DESC LIMIT $4::integer + 1
   ) d
   LEFT JOIN agent.approvals a ON a.id = d.approval_id AND a.organization_id = $1
   LEFT JOIN agent.spans s ON s.id = d.span_id AND s.organization_id = $1
   LEFT JOIN agent.span_payloads p ON p.span_id = d.span_id AND p.organization_id = $1
   ORDER BY d.decided_at, d.id`,
)

/** $1 organization, $2 runs. Apart, because many calls share the snapshot of one run, which is large. */
export const PAST_RUNS = statement(
  'past_runs',
  `SELECT r.id, r.root_run_id, coalesce(root.created_at, r.created_at) AS root_started_at, r.source, r.snapshot -> 'principal' AS principal
   FROM agent.runs r LEFT JOIN agent.runs root ON root.id = r.root_run_id AND root.organization_id = $1
   WHERE r.organization_id = $1::uuid AND r.id = ANY($2::uuid[])`,
)

interface DecisionRow {
  readonly span_id: string
  readonly run_id: string
  readonly tool: string
  readonly decided_at: Date
  readonly arguments_hash: string
  readonly facts: JsonObject
  readonly outcome: PastCall['outcome']
  readonly rule_name: string | null
  readonly approval_state: PastCall['approval']
  readonly filed_arguments: JsonObject | null
  readonly input: JsonValue
  readonly status: 'running' | 'ok' | 'error' | null
  readonly step_path: string | null
}

interface RunRow {
  readonly id: string
  readonly root_run_id: string
  readonly root_started_at: Date
  readonly source: RunSource
  readonly principal: Principal
}

export function pastCalls(database: Queryable): PastCalls {
  return {
    async list({ organizationId, tools, since, limit }) {
      const from = since === null ? '-infinity' : since.toISOString()
      const { rows } = await database.query<DecisionRow>(PAST_DECISIONS, [organizationId, tools, from, limit])
      const kept = rows.slice(-limit)
      const ids = [...new Set(kept.map((row) => row.run_id))]
      const runs = await database.query<RunRow>(PAST_RUNS, [organizationId, ids])
      const byId = new Map(runs.rows.map((run) => [run.id, run]))
      const calls = kept.flatMap((row) => {
        const run = byId.get(row.run_id)
        return run === undefined ? [] : [callOf(row, run)]
      })
      return { calls, complete: rows.length <= limit }
    },
  }
}

function callOf(row: DecisionRow, run: RunRow): PastCall {
  return {
    spanId: row.span_id,
    rootRunId: run.root_run_id,
    rootStartedAt: run.root_started_at,
    tool: row.tool,
    decidedAt: row.decided_at,
    origin: {
      runId: run.id,
      source: run.source,
      stepPath: row.step_path ?? 'agent',
      principal: run.principal,
    },
    argumentsHash: row.arguments_hash,
    filedArguments: row.filed_arguments,
    input: row.input,
    facts: row.facts,
    outcome: row.outcome,
    rule: row.rule_name,
    approval: row.approval_state,
    failed: row.status === 'error',
  }
}
