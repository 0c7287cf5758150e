import { statement } from './statement.ts'

/** Without the result, which is large and which only a collect reads. */
const COLUMNS = `j.id, j.organization_id, j.root_run_id, j.run_id, j.tool_call_id, j.provider, j.provider_job_id, j.contact_refs, j.state,
  j.cost, j.usage_id, j.submitted_at, j.updated_at, j.terminal_at`

/** $1 id, $2 organization, $3 root run, $4 run, $5 span, $6 provider, $7 refs. No row: another insert won and cannot be seen yet. */
export const RESERVE = statement(
  'provider_job_reserve',
  `WITH won AS (
     INSERT INTO agent.provider_jobs (id, organization_id, root_run_id, run_id, tool_call_id, provider, contact_refs, state)
     VALUES ($1::uuid, $2::uuid, $3::uuid, $4::uuid, $5::uuid, $6::text, $7::jsonb, 'submitted')
     ON CONFLICT (id) DO NOTHING RETURNING *)
   SELECT true AS won, ${COLUMNS} FROM won j
   UNION ALL
   SELECT false AS won, ${COLUMNS} FROM agent.provider_jobs j
   WHERE j.organization_id = $2 AND j.provider = $6 AND j.id = $1 AND NOT EXISTS (SELECT FROM won)`,
)

/** $1 organization, $2 id, $3 the vendor's id. */
export const BIND = statement(
  'provider_job_bind',
  `UPDATE agent.provider_jobs SET provider_job_id = $3::text, updated_at = clock_timestamp()
   WHERE organization_id = $1::uuid AND id = $2::uuid AND provider_job_id IS NULL`,
)

/** $1 organization, $2 provider, $3 id. */
export const READ = statement(
  'provider_job_read',
  `SELECT ${COLUMNS}, j.result FROM agent.provider_jobs j
   WHERE j.organization_id = $1::uuid AND j.provider = $2::text AND j.id = $3::uuid`,
)

/** $1 provider, $2 id. For callbacks, which know no organization before they have read this. */
export const FIND = statement(
  'provider_job_find',
  `SELECT ${COLUMNS} FROM agent.provider_jobs j WHERE j.id = $2::uuid AND j.provider = $1::text`,
)

/** $1 organization, $2 job, $3 hex digest. */
export const RESULT = statement(
  'provider_job_result',
  `SELECT result FROM agent.provider_job_results
   WHERE organization_id = $1::uuid AND job_id = $2::uuid AND result_digest = decode($3::text, 'hex')`,
)

/** $1 job, $2 organization, $3 hex digest, $4 result. */
export const KEEP_RESULT = statement(
  'provider_job_keep_result',
  `INSERT INTO agent.provider_job_results (job_id, organization_id, result_digest, result)
   VALUES ($1::uuid, $2::uuid, decode($3::text, 'hex'), $4::jsonb)
   ON CONFLICT (job_id, result_digest) DO NOTHING`,
)

/**
 * $1 organization, $2 id, $3 the vendor's id, $4 state, $5 states it may come from, $6 cost, $7 result. Whoever may have
 * to go on is written down with the transition: the run that submitted and those above it, which may be about to wait,
 * and every step that waits already.
 */
export const ADVANCE = statement(
  'provider_job_advance',
  `WITH RECURSIVE moved AS (
     UPDATE agent.provider_jobs SET provider_job_id = $3::text, state = $4::text, updated_at = clock_timestamp(),
       cost = coalesce($6::jsonb, cost), result = coalesce($7::jsonb, result),
       terminal_at = CASE WHEN $4::text IN ('completed', 'failed', 'cancelled') THEN clock_timestamp() END
     WHERE organization_id = $1::uuid AND id = $2::uuid AND state = ANY ($5::text[])
       AND (provider_job_id IS NULL OR provider_job_id = $3::text)
     RETURNING *
   ), line AS (
     SELECT r.id, r.parent_run_id FROM agent.runs r JOIN moved m ON r.id = m.run_id
     WHERE r.organization_id = $1 AND m.terminal_at IS NOT NULL
     UNION ALL
     SELECT r.id, r.parent_run_id FROM agent.runs r JOIN line l ON r.id = l.parent_run_id WHERE r.organization_id = $1
   ), interested AS (
     SELECT id FROM line
     UNION
     SELECT s.run_id FROM agent.run_steps s JOIN moved m ON m.terminal_at IS NOT NULL
     WHERE s.organization_id = $1 AND s.state = 'waiting' AND s.wait ->> 'kind' = 'provider_job' AND s.wait ->> 'jobId' = $2::uuid::text
   ), held AS (
     SELECT r.id FROM agent.runs r WHERE r.id IN (SELECT id FROM interested) AND r.organization_id = $1
       AND r.status IN ('queued', 'running', 'parked')
     ORDER BY r.id FOR NO KEY UPDATE
   ), woken AS (
     UPDATE agent.runs r SET wake_counter = r.wake_counter + 1,
       wake_at = CASE WHEN r.status = 'parked' THEN clock_timestamp() ELSE r.wake_at END
     FROM held WHERE r.id = held.id RETURNING r.id
   )
   SELECT ${COLUMNS}, (SELECT coalesce(json_agg(id), '[]') FROM woken) AS wake FROM moved j`,
)

/** $1 organization, $2 scope, $3 key, $4 hex hash, $5 owner. No status: another insert won and cannot be seen yet. */
export const CLAIM = statement(
  'provider_job_claim',
  `WITH taken AS (
     INSERT INTO agent.idempotency_keys (organization_id, scope, key, status, request_hash, owner, lease_until)
     VALUES ($1::uuid, $2::text, $3::text, 'processing', decode($4::text, 'hex'), $5::uuid, clock_timestamp())
     ON CONFLICT (organization_id, scope, key) DO NOTHING RETURNING 1)
   SELECT EXISTS (SELECT FROM taken) AS taken, k.status, k.request_hash = decode($4::text, 'hex') AS same
   FROM (SELECT 1) one
   LEFT JOIN agent.idempotency_keys k ON k.organization_id = $1 AND k.scope = $2 AND k.key = $3`,
)

/** $1 organization, $2 scope, $3 key. */
export const FINISH = statement(
  'provider_job_finish',
  `UPDATE agent.idempotency_keys SET status = 'completed', completed_at = clock_timestamp()
   WHERE organization_id = $1::uuid AND scope = $2::text AND key = $3::text AND status = 'processing'`,
)

/** $1 organization, $2 id, $3 usage row. The span that submitted ended long ago, and may be gone. */
export const STAMP = statement(
  'provider_job_stamp',
  `WITH stamped AS (
     UPDATE agent.provider_jobs SET usage_id = $3::uuid, updated_at = clock_timestamp()
     WHERE organization_id = $1::uuid AND id = $2::uuid AND usage_id IS NULL RETURNING tool_call_id
   ), span AS (
     UPDATE agent.spans SET attributes = attributes || jsonb_build_object('usageId', $3::uuid)
     WHERE organization_id = $1 AND id IN (SELECT tool_call_id FROM stamped)
   )
   SELECT EXISTS (SELECT FROM stamped) AS stamped`,
)

/** $1 before when, $2 how many rows. A vendor that may send a delivery again must still find that it was taken. */
export const REMOVE_CLAIMS = statement(
  'provider_job_remove_claims',
  `DELETE FROM agent.idempotency_keys WHERE ctid = ANY (ARRAY(
     SELECT k.ctid FROM agent.idempotency_keys k WHERE k.scope LIKE 'webhook.%' AND k.first_claimed_at < $1::timestamptz
     LIMIT $2::integer FOR UPDATE SKIP LOCKED))`,
)
