import type { Statement } from './database.ts'

/*
 * The hot statements. Every one is named, filters by organization, and uses literal states so that partial indexes
 * apply to a generic plan. Parameters: $1–$11 are the span, the decision follows where there is one.
 */

const SPAN_COLUMNS =
  'id, organization_id, run_id, root_run_id, parent_id, kind, name, status, code, started_at, attributes'
const SPAN_VALUES = `$1::uuid, $2::uuid, $3::uuid, $4::uuid, $5::uuid, 'tool', $6::text, $7::text, $8::text, $9::timestamptz, $10::jsonb`

const DECISION_COLUMNS =
  'id, organization_id, run_id, span_id, tool, stage, outcome, rule_id, rule_name, message, facts, shadow, approval_id, decided_at'

/** Decision values from nine parameters that start at `$first`. */
function decisionValues(first: number): string {
  const at = (offset: number): string => `$${first + offset}`
  return `${at(0)}::uuid, $2::uuid, $3::uuid, $1::uuid, ${at(1)}::text, ${at(2)}::smallint, ${at(3)}::text, ${at(4)}::uuid, ${at(5)}::text,
    ${at(6)}::text, (${at(7)}::json) -> 'facts', (${at(7)}::json) -> 'shadow', ${at(8)}::uuid, clock_timestamp()`
}

const JOURNAL_COLUMNS = `j.status, encode(j.request_hash, 'hex') AS request_hash, j.attempt, j.lease_until, j.claimed_at, j.response, j.completed_at`

/** $1 organization, $2 run, $3 tool, $4 agent, $5 scope, $6 key, $7 arguments hash, $8 approvals, $9 spend?, $10 root run. */
export const OPEN: Statement = {
  name: 'call_open',
  text: `
    SELECT clock_timestamp() AS now, o.rules_version, coalesce(ts.enabled, true) AS enabled,
      EXISTS (
        SELECT FROM agent.grants g
        WHERE g.organization_id = $1 AND g.definition = $4 AND g.tool = $3 AND g.revoked_at IS NULL
      ) AS granted,
      rc.cancel_requested_at IS NOT NULL AS cancelled, rc.cancel_reason,
      ${JOURNAL_COLUMNS},
      a.id AS approval_id, a.state AS approval_state, a.note AS approval_note, a.expires_at AS approval_expires_at,
      CASE WHEN $9::boolean THEN (
        SELECT coalesce(sum(u.cost_cents), 0)::float8 FROM public.ai_usage_log u
        WHERE u.organization_id = $1 AND u.root_run_id = $10::uuid
      ) END AS spent_cents
    FROM agent.organizations o
    LEFT JOIN agent.tool_states ts ON ts.organization_id = $1 AND ts.tool = $3
    LEFT JOIN agent.run_control rc ON rc.run_id = $2 AND rc.organization_id = $1
    LEFT JOIN agent.idempotency_keys j ON j.organization_id = $1 AND j.scope = $5 AND j.key = $6
    LEFT JOIN LATERAL (
      SELECT id, state, note, expires_at FROM agent.approvals
      WHERE organization_id = $1 AND run_id = $2 AND idempotency_key = $6 AND kind = 'action' AND action = $3
        AND arguments_hash = decode($7, 'hex')
        AND id IN (SELECT value::uuid FROM jsonb_array_elements_text($8::jsonb))
      ORDER BY requested_at DESC, id DESC LIMIT 1
    ) a ON true
    WHERE o.id = $1::uuid`,
}

export const TOOL_ENABLED: Statement = {
  name: 'call_tool_enabled',
  text: 'SELECT enabled FROM agent.tool_states WHERE organization_id = $1::uuid AND tool = $2::text',
}

/** $12–$20 decision; $21 id, $22 key, $23 pause, $24 kind, $25 arguments, $26 hash, $27 preview, $28 approvers, $29 principal, $30 ttl, $31 version, $32 connection. */
export const FILE: Statement = {
  name: 'call_file',
  text: `
    WITH refusal AS (
      SELECT note FROM agent.approvals
      WHERE organization_id = $2 AND run_id = $3 AND idempotency_key = $22 AND kind = 'action' AND $24 = 'action'
        AND state = 'rejected' AND action = $6 AND arguments_hash = decode($26, 'hex')
      ORDER BY decided_at DESC LIMIT 1
    ), filed AS (
      INSERT INTO agent.approvals (id, organization_id, run_id, idempotency_key, pause_id, span_id, kind, state, action, tool_version,
        arguments, arguments_hash, connection_id, preview, rule_id, rule_name, facts, approvers, principal, requested_at, expires_at)
      SELECT $21::uuid, $2, $3, $22, $23::uuid, $1, $24, 'pending', $6, $31::integer,
        $25::json, decode($26, 'hex'), $32::uuid, $27::text, $16::uuid, $17::text, ($19::json) -> 'facts', $28::jsonb, $29::json,
        clock_timestamp(), clock_timestamp() + make_interval(secs => $30::float8)
      WHERE NOT EXISTS (SELECT FROM refusal)
      ON CONFLICT (run_id, idempotency_key) WHERE state = 'pending' DO NOTHING
      RETURNING expires_at
    ), span AS (
      INSERT INTO agent.spans (${SPAN_COLUMNS}, ended_at)
      SELECT ${SPAN_VALUES}, clock_timestamp() FROM filed
    ), payload AS (
      INSERT INTO agent.span_payloads (span_id, organization_id, input) SELECT $1, $2, $11::json FROM filed
    ), decision AS (
      INSERT INTO agent.policy_decisions (${DECISION_COLUMNS}) SELECT ${decisionValues(12)} FROM filed
    )
    SELECT (SELECT expires_at FROM filed) AS filed, EXISTS (SELECT FROM refusal) AS refused, (SELECT note FROM refusal) AS refusal_note,
      p.id AS pending_id, p.expires_at AS pending_expires_at,
      p.action = $6 AND p.arguments_hash = decode($26, 'hex') AS pending_same
    FROM (SELECT 1) one
    LEFT JOIN agent.approvals p ON p.organization_id = $2 AND p.run_id = $3 AND p.idempotency_key = $22 AND p.state = 'pending'`,
}

/**
 * $12–$20 decision; $21 scope, $22 key, $23 hash, $24 lease seconds, $25 rules version, $26 agent, $27 a dead claim may be taken over.
 * The claim is the authority: grant, rules, tool state and run control are compared in its own snapshot, so a revoke or
 * a cancel is ordered with it.
 */
export const CLAIM: Statement = {
  name: 'call_claim',
  text: `
    WITH ground AS (
      SELECT o.rules_version = $25::bigint AND coalesce(ts.enabled, true) AND rc.cancel_requested_at IS NULL
        AND EXISTS (
          SELECT FROM agent.grants g
          WHERE g.organization_id = $2 AND g.definition = $26 AND g.tool = $6 AND g.revoked_at IS NULL
        ) AS unmoved
      FROM agent.organizations o
      LEFT JOIN agent.tool_states ts ON ts.organization_id = $2 AND ts.tool = $6
      LEFT JOIN agent.run_control rc ON rc.run_id = $3 AND rc.organization_id = $2
      WHERE o.id = $2
    ), won AS (
      INSERT INTO agent.idempotency_keys AS k
        (organization_id, scope, key, run_id, status, request_hash, attempt, owner, lease_until, claimed_at)
      SELECT $2, $21::text, $22::text, $3, 'processing', decode($23, 'hex'), 1, $1,
        clock_timestamp() + make_interval(secs => $24::float8), clock_timestamp()
      FROM ground WHERE ground.unmoved
      ON CONFLICT (organization_id, scope, key) DO UPDATE
        SET status = 'processing', attempt = k.attempt + 1, owner = EXCLUDED.owner, lease_until = EXCLUDED.lease_until,
          claimed_at = EXCLUDED.claimed_at
        WHERE k.request_hash = EXCLUDED.request_hash
          AND (k.status = 'reclaimable' OR (k.status = 'processing' AND k.lease_until <= clock_timestamp() AND $27::boolean))
      RETURNING k.attempt
    ), span AS (
      INSERT INTO agent.spans (${SPAN_COLUMNS}) SELECT ${SPAN_VALUES} FROM won
    ), payload AS (
      INSERT INTO agent.span_payloads (span_id, organization_id, input) SELECT $1, $2, $11::json FROM won
    ), decision AS (
      INSERT INTO agent.policy_decisions (${DECISION_COLUMNS}) SELECT ${decisionValues(12)} FROM won
    )
    SELECT g.unmoved, (SELECT attempt FROM won) AS won, clock_timestamp() AS now, ${JOURNAL_COLUMNS}
    FROM ground g
    LEFT JOIN agent.idempotency_keys j ON j.organization_id = $2 AND j.scope = $21 AND j.key = $22`,
}

const CLOSE_SPAN = `
      INSERT INTO agent.spans AS s (${SPAN_COLUMNS}, ended_at)
      VALUES (${SPAN_VALUES}, clock_timestamp())
      ON CONFLICT (id) DO UPDATE
        SET status = EXCLUDED.status, code = EXCLUDED.code, ended_at = EXCLUDED.ended_at, attributes = s.attributes || EXCLUDED.attributes`

const CLOSE_PAYLOAD = `
      INSERT INTO agent.span_payloads (span_id, organization_id, input, output) VALUES ($1, $2, $11::json, $12::json)
      ON CONFLICT (span_id) DO UPDATE SET output = EXCLUDED.output`

/** $12 output, $13–$21 decision; a null decision id writes none. */
export const CLOSE: Statement = {
  name: 'call_close',
  text: `
    WITH span AS (${CLOSE_SPAN}), payload AS (${CLOSE_PAYLOAD})
    INSERT INTO agent.policy_decisions (${DECISION_COLUMNS}) SELECT ${decisionValues(13)} WHERE $13::uuid IS NOT NULL`,
}

/** $12 output, $13 scope, $14 key, $15 ending, $16 response. Conditional on the owner: a late worker changes nothing. */
export const CLOSE_CLAIMED: Statement = {
  name: 'call_close_claimed',
  text: `
    WITH completed AS (
      UPDATE agent.idempotency_keys SET status = 'completed', response = $16::json, completed_at = clock_timestamp()
      WHERE organization_id = $2 AND scope = $13::text AND key = $14::text AND owner = $1 AND status = 'processing' AND $15::text = 'complete'
      RETURNING 1
    ), released AS (
      DELETE FROM agent.idempotency_keys
      WHERE organization_id = $2 AND scope = $13 AND key = $14 AND owner = $1 AND status = 'processing' AND $15 = 'release'
      RETURNING 1
    ), held AS (
      SELECT 1 FROM agent.idempotency_keys
      WHERE organization_id = $2 AND scope = $13 AND key = $14 AND owner = $1 AND status = 'processing' AND $15 = 'hold'
    ), span AS (${CLOSE_SPAN}), payload AS (${CLOSE_PAYLOAD})
    SELECT EXISTS (SELECT FROM completed) OR EXISTS (SELECT FROM released) OR EXISTS (SELECT FROM held) AS owned`,
}

/** The batch of successful reads: $1 is an array of objects that name CLOSE's parameters v1 … v21. */
export const CLOSE_MANY: Statement = {
  name: 'call_close_many',
  text: `
    WITH closed AS (
      SELECT * FROM json_to_recordset($1::json) AS r(
        v1 uuid, v2 uuid, v3 uuid, v4 uuid, v5 uuid, v6 text, v7 text, v8 text, v9 timestamptz, v10 text, v11 text, v12 text,
        v13 uuid, v14 text, v15 smallint, v16 text, v17 uuid, v18 text, v19 text, v20 text, v21 uuid)
    ), span AS (
      INSERT INTO agent.spans (${SPAN_COLUMNS}, ended_at)
      SELECT v1, v2, v3, v4, v5, 'tool', v6, v7, v8, v9, v10::jsonb, clock_timestamp() FROM closed
    ), payload AS (
      INSERT INTO agent.span_payloads (span_id, organization_id, input, output) SELECT v1, v2, v11::json, v12::json FROM closed
    )
    INSERT INTO agent.policy_decisions (${DECISION_COLUMNS})
    SELECT v13, v2, v3, v1, v14, v15, v16, v17, v18, v19, (v20::json) -> 'facts', (v20::json) -> 'shadow', v21, clock_timestamp()
    FROM closed WHERE v13 IS NOT NULL`,
}
