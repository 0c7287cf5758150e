import type { Statement } from './database.ts'

/*
 * The hot statements. Every one is named, filters by organization, and uses literal states so that partial indexes
 * apply to a generic plan. Parameters: $1–$11 are the span, the decision follows where there is one.
 */

const SPAN_COLUMNS =
  'id, organization_id, run_id, root_run_id, parent_id, kind, name, status, code, started_at, attributes'
const SPAN_VALUES = `$1::uuid, $2::uuid, $3::uuid, $4::uuid, $5::uuid, 'tool', $6::text, $7::text, $8::text, $9::timestamptz, $10::jsonb`

const DECISION_COLUMNS =
  'id, organization_id, run_id, span_id, tool, arguments_hash, stage, outcome, rule_id, rule_name, message, facts, shadow, approval_id, decided_at'

/** Decision values from ten parameters that start at `$first`; the third of them is the hash of the arguments. */
function decisionValues(first: number): string {
  const at = (offset: number): string => `$${first + offset}`
  return `${at(0)}::uuid, $2::uuid, $3::uuid, $1::uuid, ${at(1)}::text, decode(${at(2)}, 'hex'), ${at(3)}::smallint, ${at(4)}::text,
    ${at(5)}::uuid, ${at(6)}::text, ${at(7)}::text, (${at(8)}::json) -> 'facts', (${at(8)}::json) -> 'shadow', ${at(9)}::uuid, clock_timestamp()`
}

const JOURNAL_COLUMNS = `j.status, encode(j.request_hash, 'hex') AS request_hash, j.attempt, j.lease_until, j.first_claimed_at, j.claimed_at, j.response, j.completed_at`

/**
 * $1 organization, $2 run, $3 tool, $4 agent, $5 scope, $6 key, $7 arguments hash, $8 approvals, $9 spend?, $10 root run.
 * Counters of all rules of the current periods are read: which rules the call is about is known only afterwards, and
 * there are as many rows as rules with a limit that counted anything.
 */
export const OPEN: Statement = {
  name: 'call_open',
  text: `
    SELECT clock_timestamp() AS now, o.rules_version, coalesce(ts.enabled, true) AS enabled,
      EXISTS (
        SELECT FROM agent.grants g
        WHERE g.organization_id = $1 AND g.definition = $4 AND g.tool = $3 AND g.revoked_at IS NULL
      ) AS granted,
      rc.cancel_requested_at IS NOT NULL AS cancelled, rc.cancel_reason,
      ${JOURNAL_COLUMNS}, j.counted,
      a.id AS approval_id, a.state AS approval_state, a.note AS approval_note, a.expires_at AS approval_expires_at,
      a.connection_id AS approval_connection_id,
      CASE WHEN $9::boolean THEN (
        SELECT coalesce(sum(u.cost_cents), 0)::float8 FROM public.ai_usage_log u
        WHERE u.organization_id = $1 AND u.root_run_id = $10::uuid
      ) END AS spent_cents,
      (
        SELECT json_agg(t.source ORDER BY t.source) FROM agent.run_taints t
        WHERE t.organization_id = $1 AND t.root_run_id = coalesce($10, $2)
      ) AS taint_sources,
      (
        SELECT json_agg(json_build_object('rule', c.rule, 'per', split_part(c.period, ':', 1), 'used', c.used))
        FROM agent.rule_counters c
        WHERE c.organization_id = $1 AND c.period IN (
          agent.limit_period('run', coalesce($10, $2)), agent.limit_period('hour', NULL), agent.limit_period('day', NULL))
      ) AS limit_uses
    FROM agent.organizations o
    LEFT JOIN agent.tool_states ts ON ts.organization_id = $1 AND ts.tool = $3
    LEFT JOIN agent.run_control rc ON rc.run_id = $2 AND rc.organization_id = $1
    LEFT JOIN agent.idempotency_keys j ON j.organization_id = $1 AND j.scope = $5 AND j.key = $6
    LEFT JOIN LATERAL (
      SELECT id, state, note, expires_at, connection_id FROM agent.approvals
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

/** $12–$21 decision; $22 id, $23 key, $24 pause, $25 kind, $26 arguments, $27 preview, $28 approvers, $29 principal, $30 ttl, $31 version, $32 connection. */
export const FILE: Statement = {
  name: 'call_file',
  text: `
    WITH refusal AS (
      SELECT note FROM agent.approvals
      WHERE organization_id = $2 AND run_id = $3 AND idempotency_key = $23 AND kind = 'action' AND $25 = 'action'
        AND state = 'rejected' AND action = $6 AND arguments_hash = decode($14, 'hex')
      ORDER BY decided_at DESC LIMIT 1
    ), filed AS (
      INSERT INTO agent.approvals (id, organization_id, run_id, idempotency_key, pause_id, span_id, kind, state, action, tool_version,
        arguments, arguments_hash, connection_id, preview, rule_id, rule_name, facts, approvers, principal, requested_at, expires_at)
      SELECT $22::uuid, $2, $3, $23, $24::uuid, $1, $25, 'pending', $6, $31::integer,
        $26::json, decode($14, 'hex'), $32::uuid, $27::text, $17::uuid, $18::text, ($20::json) -> 'facts', $28::jsonb, $29::json,
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
      p.action = $6 AND p.arguments_hash = decode($14, 'hex') AS pending_same
    FROM (SELECT 1) one
    LEFT JOIN agent.approvals p ON p.organization_id = $2 AND p.run_id = $3 AND p.idempotency_key = $23 AND p.state = 'pending'`,
}

/** What a call counts as rows of rule, bound and period, from a parameter that holds `[{ rule, per, max }]`. */
const limitRows = (counts: string, root: string): string => `
      SELECT l.rule, l.max, agent.limit_period(l.per, ${root}) AS period
      FROM jsonb_to_recordset(${counts}::jsonb) AS l(rule text, per text, max integer)`

/** Adds one to each counter, in one order for every statement, so that no two wait for each other. */
const tally = (organization: string, counted: string): string => `
      INSERT INTO agent.rule_counters AS c (organization_id, period, rule, used)
      SELECT ${organization}, l.period, l.rule, 1 FROM ${counted} ORDER BY l.period, l.rule
      ON CONFLICT (organization_id, period, rule) DO UPDATE SET used = c.used + 1
      RETURNING c.rule, c.used`

/** Undoes the whole statement if a counter got past its bound: the row lock of the counter orders those who race for its last place. */
const OVER_LIMIT =
  '(SELECT agent.limit_reached() FROM tally t JOIN limits l ON l.rule = t.rule WHERE t.used > l.max LIMIT 1) AS over_limit'

/** SQLSTATE of a statement that {@link OVER_LIMIT} undid. */
export const LIMIT_REACHED = 'BL001'

/** What a claim does besides, for a call that is about a rule with a limit; nothing for all others. */
interface Counting {
  /** Before the key is taken, and what is written with it. */
  readonly limits: string
  readonly columns: { readonly names: string; readonly values: string; readonly again: string }
  /** After it was taken, and what is answered besides. */
  readonly tally: string
  readonly over: string
}

const NO_COUNTING: Counting = { limits: '', columns: { names: '', values: '', again: '' }, tally: '', over: '' }

/** What the key was counted for before is not counted again: a takeover is the same call. */
const COUNTING: Counting = {
  limits: `, limits AS (${limitRows('$28', 'coalesce($4, $3)')}
      WHERE NOT EXISTS (
        SELECT FROM agent.idempotency_keys k WHERE k.organization_id = $2 AND k.scope = $22 AND k.key = $23 AND k.counted ? l.rule)
    )`,
  columns: {
    names: ', counted',
    values: ', (SELECT jsonb_object_agg(l.rule, l.period) FROM limits l)',
    again: ', counted = coalesce(k.counted || EXCLUDED.counted, EXCLUDED.counted, k.counted)',
  },
  tally: `, tally AS (${tally('$2', 'won, limits l')}
    )`,
  over: `, ${OVER_LIMIT}`,
}

/**
 * $12–$21 decision; $22 scope, $23 key, $24 lease seconds, $25 rules version, $26 agent, $27 seconds in which a dead claim may be taken over (null: always), $28 counts.
 * The claim is the authority: grant, rules, tool state and run control are compared in its own snapshot, so a revoke or
 * a cancel is ordered with it.
 */
const claim = ({ limits, columns, tally, over }: Counting): string => `
    WITH ground AS (
      SELECT o.rules_version = $25::bigint AND coalesce(ts.enabled, true) AND rc.cancel_requested_at IS NULL
        AND EXISTS (
          SELECT FROM agent.grants g
          WHERE g.organization_id = $2 AND g.definition = $26 AND g.tool = $6 AND g.revoked_at IS NULL
        ) AS unmoved, clock_timestamp() AS at
      FROM agent.organizations o
      LEFT JOIN agent.tool_states ts ON ts.organization_id = $2 AND ts.tool = $6
      LEFT JOIN agent.run_control rc ON rc.run_id = $3 AND rc.organization_id = $2
      WHERE o.id = $2
    )${limits}, won AS (
      INSERT INTO agent.idempotency_keys AS k
        (organization_id, scope, key, run_id, status, request_hash, attempt, owner, lease_until, first_claimed_at, claimed_at${columns.names})
      SELECT $2, $22::text, $23::text, $3, 'processing', decode($14, 'hex'), 1, $1,
        ground.at + make_interval(secs => $24::float8), ground.at, ground.at${columns.values}
      FROM ground WHERE ground.unmoved
      ON CONFLICT (organization_id, scope, key) DO UPDATE
        SET status = 'processing', attempt = k.attempt + 1, owner = EXCLUDED.owner, lease_until = EXCLUDED.lease_until,
          -- Who says "send again" starts anew; who takes over a dead claim goes on with it.
          first_claimed_at = CASE WHEN k.status = 'reclaimable' THEN EXCLUDED.claimed_at ELSE k.first_claimed_at END,
          claimed_at = EXCLUDED.claimed_at${columns.again}
        WHERE k.request_hash = EXCLUDED.request_hash
          AND (k.status = 'reclaimable' OR (k.status = 'processing' AND k.lease_until <= clock_timestamp()
              AND ($27::float8 IS NULL OR k.first_claimed_at + make_interval(secs => $27::float8) > clock_timestamp())))
      RETURNING k.attempt
    )${tally}, span AS (
      INSERT INTO agent.spans (${SPAN_COLUMNS}) SELECT ${SPAN_VALUES} FROM won
    ), payload AS (
      INSERT INTO agent.span_payloads (span_id, organization_id, input) SELECT $1, $2, $11::json FROM won
    ), decision AS (
      INSERT INTO agent.policy_decisions (${DECISION_COLUMNS}) SELECT ${decisionValues(12)} FROM won
    )
    SELECT g.unmoved, (SELECT attempt FROM won) AS won, clock_timestamp() AS now, ${JOURNAL_COLUMNS}${over}
    FROM ground g
    LEFT JOIN agent.idempotency_keys j ON j.organization_id = $2 AND j.scope = $22 AND j.key = $23`

/** For a call that no limit counts: one without $28. */
export const CLAIM: Statement = { name: 'call_claim', text: claim(NO_COUNTING) }

export const CLAIM_COUNTED: Statement = { name: 'call_claim_counted', text: claim(COUNTING) }

/** $1 organization, $2 root run, $3 counts. */
export const COUNT: Statement = {
  name: 'call_count',
  text: `
    WITH limits AS (${limitRows('$3', '$2::uuid')}
    ), tally AS (${tally('$1::uuid', 'limits l')}
    )
    SELECT ${OVER_LIMIT}`,
}

const CLOSE_SPAN = `
      INSERT INTO agent.spans AS s (${SPAN_COLUMNS}, ended_at)
      VALUES (${SPAN_VALUES}, clock_timestamp())
      ON CONFLICT (id) DO UPDATE
        SET status = EXCLUDED.status, code = EXCLUDED.code, ended_at = EXCLUDED.ended_at, attributes = s.attributes || EXCLUDED.attributes`

const CLOSE_PAYLOAD = `
      INSERT INTO agent.span_payloads (span_id, organization_id, input, output) VALUES ($1, $2, $11::json, $12::json)
      ON CONFLICT (span_id) DO UPDATE SET output = EXCLUDED.output`

/** The tool that brought untrusted content into the run tree; null when it brought none, or is known to have. */
const taint = (source: string): string => `
      INSERT INTO agent.run_taints (organization_id, root_run_id, source)
      SELECT $2, coalesce($4, $3), ${source}::text WHERE ${source}::text IS NOT NULL
      ON CONFLICT DO NOTHING`

/** $12 output, $13–$22 decision, $23 taint; a null decision id writes none. */
export const CLOSE: Statement = {
  name: 'call_close',
  text: `
    WITH span AS (${CLOSE_SPAN}), payload AS (${CLOSE_PAYLOAD}), taint AS (${taint('$23')})
    INSERT INTO agent.policy_decisions (${DECISION_COLUMNS}) SELECT ${decisionValues(13)} WHERE $13::uuid IS NOT NULL`,
}

/** A claim that this attempt still owns: a late worker changes nothing. $13 scope, $14 key. */
const OWN_CLAIM = `organization_id = $2 AND scope = $13::text AND key = $14::text AND owner = $1 AND status = 'processing'`

/** $12 output, $13 scope, $14 key, $15 taint, $16 response. */
export const COMPLETE: Statement = {
  name: 'call_complete',
  text: `
    WITH completed AS (
      UPDATE agent.idempotency_keys SET status = 'completed', response = $16::json, completed_at = clock_timestamp()
      WHERE ${OWN_CLAIM}
      RETURNING 1
    ), span AS (${CLOSE_SPAN}), payload AS (${CLOSE_PAYLOAD}), taint AS (${taint('$15')})
    SELECT EXISTS (SELECT FROM completed) AS owned`,
}

/** The counters that the row of `counted` names; by its lists too, because those are what an index can be asked for. */
const OWN_COUNTERS = `c.organization_id = $2 AND c.period = ANY ((SELECT periods FROM counted)::text[])
        AND c.rule = ANY ((SELECT rules FROM counted)::text[]) AND c.period = (SELECT counted FROM counted) ->> c.rule`

/**
 * $12 output, $13 scope, $14 key, $15 taint. A released call never happened, so what it was counted for is given back, in
 * the order in which counters are taken. A claim that was taken over is left behind with its lease over: the attempt before
 * may have had its effect, and forgetting when that was would let a receiver forget it too.
 */
export const RELEASE: Statement = {
  name: 'call_release',
  text: `
    WITH released AS (
      DELETE FROM agent.idempotency_keys WHERE ${OWN_CLAIM} AND first_claimed_at = claimed_at RETURNING counted
    ), left_behind AS (
      UPDATE agent.idempotency_keys SET lease_until = clock_timestamp() WHERE ${OWN_CLAIM} AND first_claimed_at < claimed_at
      RETURNING 1
    ), counted AS (
      SELECT r.counted, ARRAY(SELECT key FROM jsonb_each_text(r.counted)) AS rules, ARRAY(SELECT value FROM jsonb_each_text(r.counted)) AS periods
      FROM released r WHERE r.counted IS NOT NULL
    ), counters AS (
      SELECT c.used FROM agent.rule_counters c WHERE ${OWN_COUNTERS} ORDER BY c.period, c.rule FOR UPDATE
    ), given_back AS (
      UPDATE agent.rule_counters c SET used = c.used - 1
      WHERE ${OWN_COUNTERS} AND c.used > 0 AND (SELECT count(*) FROM counters) > 0
    ), span AS (${CLOSE_SPAN}), payload AS (${CLOSE_PAYLOAD}), taint AS (${taint('$15')})
    SELECT EXISTS (SELECT FROM released) OR EXISTS (SELECT FROM left_behind) AS owned`,
}

/** $12 output, $13 scope, $14 key, $15 taint. The claim is left to its lease. */
export const HOLD: Statement = {
  name: 'call_hold',
  text: `
    WITH span AS (${CLOSE_SPAN}), payload AS (${CLOSE_PAYLOAD}), taint AS (${taint('$15')})
    SELECT EXISTS (SELECT FROM agent.idempotency_keys WHERE ${OWN_CLAIM}) AS owned`,
}

/**
 * The batch of successful reads: $1 is an array of objects that name CLOSE's parameters v1 … v22, and the seconds each
 * has waited in the batch, so that its times are those of the call and not of the batch.
 */
export const CLOSE_MANY: Statement = {
  name: 'call_close_many',
  text: `
    WITH closed AS (
      SELECT * FROM json_to_recordset($1::json) AS r(
        v1 uuid, v2 uuid, v3 uuid, v4 uuid, v5 uuid, v6 text, v7 text, v8 text, v9 timestamptz, v10 text, v11 text, v12 text,
        v13 uuid, v14 text, v15 text, v16 smallint, v17 text, v18 uuid, v19 text, v20 text, v21 text, v22 uuid, waited float8)
    ), span AS (
      INSERT INTO agent.spans (${SPAN_COLUMNS}, ended_at)
      SELECT v1, v2, v3, v4, v5, 'tool', v6, v7, v8, v9, v10::jsonb, clock_timestamp() - make_interval(secs => waited) FROM closed
    ), payload AS (
      INSERT INTO agent.span_payloads (span_id, organization_id, input, output) SELECT v1, v2, v11::json, v12::json FROM closed
    )
    INSERT INTO agent.policy_decisions (${DECISION_COLUMNS})
    SELECT v13, v2, v3, v1, v14, decode(v15, 'hex'), v16, v17, v18, v19, v20, (v21::json) -> 'facts', (v21::json) -> 'shadow', v22, clock_timestamp() - make_interval(secs => waited)
    FROM closed WHERE v13 IS NOT NULL`,
}
