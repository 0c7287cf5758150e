import type { Statement } from './database.ts'
import { statement } from './statement.ts'

/*
 * What retention removes. Every statement touches at most so many rows and waits for no lock, so that it never stands in
 * anybody's way. $1 is the usual cutoff, $2 the cutoffs that differ, by organization, $3 the latest of them all, by which
 * rows are found, $4 how many rows.
 */

const OWN_CUTOFFS = `jsonb_to_recordset($2::jsonb) AS w(organization_id uuid, before timestamptz)`

/** A run that is open keeps everything, however old. The states as the index of open runs has them: most runs have ended. */
function openRun(id: string): string {
  return `EXISTS (SELECT FROM agent.runs o WHERE o.id = ${id} AND o.status IN ('queued', 'running', 'parked'))`
}

export const REMOVE_SPANS = statement(
  'retention_spans',
  `WITH old AS (
     SELECT s.id FROM agent.spans s LEFT JOIN ${OWN_CUTOFFS} ON w.organization_id = s.organization_id
     WHERE s.started_at < $3::timestamptz AND coalesce(s.ended_at, s.started_at) < coalesce(w.before, $1::timestamptz)
       AND NOT ${openRun('s.run_id')}
     LIMIT $4::integer FOR UPDATE OF s SKIP LOCKED),
   payloads AS (DELETE FROM agent.span_payloads WHERE span_id IN (SELECT id FROM old) RETURNING 1),
   spans AS (DELETE FROM agent.spans WHERE id IN (SELECT id FROM old) RETURNING 1)
   SELECT (SELECT count(*)::integer FROM spans) AS spans, (SELECT count(*)::integer FROM payloads) AS span_payloads`,
)

export const REMOVE_DECISIONS = statement(
  'retention_decisions',
  `WITH old AS (
     SELECT d.id FROM agent.policy_decisions d LEFT JOIN ${OWN_CUTOFFS} ON w.organization_id = d.organization_id
     WHERE d.decided_at < $3::timestamptz AND d.decided_at < coalesce(w.before, $1::timestamptz) AND NOT ${openRun('d.run_id')}
     LIMIT $4::integer FOR UPDATE OF d SKIP LOCKED)
   DELETE FROM agent.policy_decisions WHERE id IN (SELECT id FROM old)`,
)

/**
 * Ended runs of trees that ended as a whole before their cutoff. A root comes last: as long as it is there, what is left
 * of its tree is found by it.
 */
export const OLD_RUNS = statement(
  'retention_old_runs',
  `SELECT r.id, r.organization_id, r.root_run_id FROM agent.runs r
   LEFT JOIN ${OWN_CUTOFFS} ON w.organization_id = r.organization_id
   WHERE r.ended_at < $3::timestamptz AND r.ended_at < coalesce(w.before, $1::timestamptz)
     AND r.status NOT IN ('queued', 'running', 'parked')
     AND NOT EXISTS (SELECT FROM agent.runs root WHERE root.id = r.root_run_id
       AND (root.ended_at IS NULL OR root.ended_at >= coalesce(w.before, $1::timestamptz)))
     AND NOT EXISTS (SELECT FROM agent.runs c WHERE c.root_run_id = r.root_run_id AND c.parent_run_id IS NOT NULL
       AND (c.ended_at IS NULL OR c.ended_at >= coalesce(w.before, $1::timestamptz)))
     AND (r.id <> r.root_run_id
       OR NOT EXISTS (SELECT FROM agent.runs c WHERE c.root_run_id = r.id AND c.parent_run_id IS NOT NULL))
   ORDER BY r.ended_at LIMIT $4::integer`,
)

/** $1 runs, $2 their organizations, $3 how many rows. */
function ofRuns(table: string, where: string): Statement {
  const name = `retention_run_${table.slice(table.indexOf('.') + 1)}`
  return statement(
    name,
    `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM ${table} t WHERE ${where} LIMIT $3::integer FOR UPDATE SKIP LOCKED))`,
  )
}

const OF_RUN = `t.run_id = ANY ($1::uuid[]) AND t.organization_id = ANY ($2::uuid[])`

/** Everything that belongs to a run, in this order, before the run itself. Children of children come first. */
export const RUN_PARTS: readonly (readonly [table: string, statement: Statement])[] = [
  [
    'span_payloads',
    ofRuns(
      'agent.span_payloads',
      `t.span_id IN (SELECT s.id FROM agent.spans s WHERE s.run_id = ANY ($1::uuid[]) AND s.organization_id = ANY ($2::uuid[]))`,
    ),
  ],
  [
    'provider_job_results',
    ofRuns(
      'agent.provider_job_results',
      `t.job_id IN (SELECT j.id FROM agent.provider_jobs j WHERE j.run_id = ANY ($1::uuid[]) AND j.organization_id = ANY ($2::uuid[]))`,
    ),
  ],
  ...(
    [
      'provider_jobs',
      'spans',
      'policy_decisions',
      'idempotency_keys',
      'approvals',
      'run_signals',
      'run_steps',
      'run_sessions',
      'run_control',
      'run_heartbeats',
    ] as const
  ).map((table): readonly [string, Statement] => [table, ofRuns(`agent.${table}`, OF_RUN)]),
  [
    'run_taints',
    ofRuns('agent.run_taints', `t.root_run_id = ANY ($1::uuid[]) AND t.organization_id = ANY ($2::uuid[])`),
  ],
  [
    'rule_counters',
    ofRuns(
      'agent.rule_counters',
      `t.organization_id = ANY ($2::uuid[]) AND t.period IN (SELECT 'run:' || id::text FROM unnest($1::uuid[]) AS run(id))`,
    ),
  ],
]

/** $1 runs. An ended run is never opened again; the condition says so to whoever reads this alone. */
export const REMOVE_RUNS = statement(
  'retention_runs',
  `DELETE FROM agent.runs WHERE id = ANY ($1::uuid[]) AND ended_at IS NOT NULL AND status NOT IN ('queued', 'running', 'parked')`,
)

/** $1 now, $2 how many rows. Periods are named in UTC; two days later no clock counts in them any more. */
export const REMOVE_COUNTERS = statement(
  'retention_counters',
  `DELETE FROM agent.rule_counters WHERE ctid = ANY (ARRAY(
     SELECT c.ctid FROM agent.rule_counters c
     WHERE (c.period LIKE 'hour:%' OR c.period LIKE 'day:%')
       AND left(split_part(c.period, ':', 2), 10) < to_char(($1::timestamptz - interval '2 days') AT TIME ZONE 'UTC', 'YYYY-MM-DD')
     LIMIT $2::integer FOR UPDATE SKIP LOCKED))`,
)

export const REMOVE_SESSIONS = statement(
  'retention_sessions',
  `DELETE FROM agent.console_sessions WHERE ctid = ANY (ARRAY(
     SELECT s.ctid FROM agent.console_sessions s WHERE s.expires_at < $1::timestamptz LIMIT $2::integer FOR UPDATE SKIP LOCKED))`,
)

export const REMOVE_AUTHORIZATIONS = statement(
  'retention_authorizations',
  `DELETE FROM agent.connection_authorizations WHERE ctid = ANY (ARRAY(
     SELECT a.ctid FROM agent.connection_authorizations a WHERE a.expires_at < $1::timestamptz LIMIT $2::integer FOR UPDATE SKIP LOCKED))`,
)

/** Money of a run tree that is open is what its ceiling is compared with. */
export const REMOVE_USAGE = statement(
  'retention_usage',
  `WITH old AS (
     SELECT u.id FROM public.ai_usage_log u LEFT JOIN ${OWN_CUTOFFS} ON w.organization_id = u.organization_id
     WHERE u.created_at < $3::timestamptz AND u.created_at < coalesce(w.before, $1::timestamptz)
       AND NOT ${openRun('u.run_id')} AND NOT ${openRun('u.root_run_id')}
       AND NOT EXISTS (SELECT FROM agent.runs c WHERE c.root_run_id = u.root_run_id AND c.parent_run_id IS NOT NULL AND c.ended_at IS NULL)
     LIMIT $4::integer FOR UPDATE OF u SKIP LOCKED)
   DELETE FROM public.ai_usage_log WHERE id IN (SELECT id FROM old)`,
)

export const OWN_SETTINGS = statement(
  'retention_settings',
  `SELECT id AS "organizationId", settings -> 'retention' AS retention FROM agent.organizations WHERE settings ? 'retention'`,
)
