import type { DeadLetter, DeadLetterStore } from '../runs/dead-letters.ts'
import type { RetryFacts, RetryStore } from '../runs/retry.ts'
import type { Queryable } from './database.ts'
import { pageOf } from './page.ts'
import { statement } from './statement.ts'

/** $1 organization, $2 cursor, $3 rows, $4 kind. Each part has an index that holds nothing but dead letters. */
const LIST = statement(
  'dead_letters',
  `SELECT * FROM (
     (SELECT r.id, 'run_failed' AS kind, r.id AS "runId", r.definition, NULL AS tool, r.reason, r.message, r.ended_at AS at
      FROM agent.runs r
      WHERE r.organization_id = $1::uuid AND r.status = 'failed' AND r.parent_run_id IS NULL
        AND NOT EXISTS (SELECT FROM agent.runs n WHERE n.retry_of = r.id)
        AND ($2::uuid IS NULL OR r.id < $2::uuid) AND coalesce($4::text, 'run_failed') = 'run_failed'
      ORDER BY r.id DESC LIMIT $3::integer)
     UNION ALL
     (SELECT r.id, 'run_held', r.id, r.definition, NULL, NULL, r.held_reason, r.held_at
      FROM agent.runs r
      WHERE r.organization_id = $1::uuid AND r.held_at IS NOT NULL AND r.status IN ('queued', 'running', 'parked')
        AND ($2::uuid IS NULL OR r.id < $2::uuid) AND coalesce($4::text, 'run_held') = 'run_held'
      ORDER BY r.id DESC LIMIT $3::integer)
     UNION ALL
     (SELECT a.id, k.kind, a.run_id, r.definition, a.action, NULL, a.note, coalesce(a.decided_at, a.requested_at)
      FROM agent.approvals a
      JOIN agent.runs r ON r.id = a.run_id AND r.organization_id = a.organization_id
      CROSS JOIN LATERAL (SELECT CASE WHEN a.kind = 'outcome' THEN 'outcome_unanswered' ELSE 'approval_' || a.state END AS kind) k
      WHERE a.organization_id = $1::uuid AND (a.state IN ('expired', 'stale') OR (a.kind = 'outcome' AND a.state = 'pending'))
        AND ($2::uuid IS NULL OR a.id < $2::uuid) AND coalesce($4::text, k.kind) = k.kind
      ORDER BY a.id DESC LIMIT $3::integer)
   ) letters ORDER BY id DESC LIMIT $3::integer`,
)

/**
 * $1 organization, $2 run. Calls of its tree that took effect, or may have: an answer that is off its contract came from a
 * call that was made, and so did one that was erased.
 */
const FACTS = statement(
  'dead_letter_retry_facts',
  `SELECT (SELECT n.id FROM agent.runs n WHERE n.retry_of = $2::uuid AND n.organization_id = $1::uuid) AS "retriedBy",
     (SELECT count(*)::integer FROM agent.idempotency_keys j
      WHERE j.organization_id = $1::uuid
        AND j.run_id IN (
          SELECT $2::uuid UNION ALL
          SELECT c.id FROM agent.runs c WHERE c.root_run_id = $2::uuid AND c.parent_run_id IS NOT NULL)
        AND (j.status = 'processing' OR (j.status = 'completed' AND (
          j.response ->> 'ok' IS DISTINCT FROM 'false' OR j.response -> 'error' ->> 'code' = 'invalid_output')))) AS effects`,
)

export function deadLetterStore(database: Queryable): DeadLetterStore & RetryStore {
  return {
    async list(organizationId, { kind, limit, cursor }) {
      const { rows } = await database.query<DeadLetter>(LIST, [organizationId, cursor, limit + 1, kind ?? null])
      return pageOf(rows, limit)
    },
    async retryFacts(organizationId, runId) {
      const { rows } = await database.query<RetryFacts>(FACTS, [organizationId, runId])
      return rows[0] ?? { retriedBy: null, effects: 0 }
    },
  }
}
