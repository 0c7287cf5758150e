import { statement } from './statement.ts'

export const NOW = statement('database_now', 'SELECT clock_timestamp() AS now')

export const BEAT = statement(
  'run_beat',
  `INSERT INTO agent.run_heartbeats AS h (run_id, organization_id, segment_id, beat_at)
   SELECT id, organization_id, $2::uuid, clock_timestamp() FROM agent.runs WHERE id = $1::uuid AND segment_id = $2::uuid AND status = 'running'
   ON CONFLICT (run_id) DO UPDATE SET segment_id = EXCLUDED.segment_id, beat_at = EXCLUDED.beat_at
   RETURNING run_id`,
)

/*
 * A racer that waited for the row sees its new version but the heartbeats of its own older snapshot, so the time at which
 * the row was taken is compared too: without it, the loser of a race finds no heartbeat and takes a live run over.
 */
export const BEGIN = statement(
  'run_begin',
  `UPDATE agent.runs r SET status = 'running', segment_id = $2::uuid, begun_at = clock_timestamp(), wake_at = NULL, message = NULL, started_at = coalesce(r.started_at, clock_timestamp())
   WHERE r.id = $1::uuid AND (
     r.status IN ('queued', 'parked')
     OR (r.status = 'running' AND r.begun_at <= clock_timestamp() - make_interval(secs => $3::float8) AND NOT EXISTS (
       SELECT FROM agent.run_heartbeats h WHERE h.run_id = r.id AND h.segment_id = r.segment_id
         AND h.beat_at > clock_timestamp() - make_interval(secs => $3::float8))))
   RETURNING r.*`,
)

export const DUE = statement(
  'run_due',
  `SELECT r.id FROM agent.runs r
   WHERE r.source <> 'library' AND ((r.status IN ('queued', 'parked') AND (r.wake_at IS NULL OR r.wake_at <= clock_timestamp()) AND (r.status = 'queued' OR r.wake_at IS NOT NULL))
      OR (r.status = 'running' AND r.begun_at <= clock_timestamp() - make_interval(secs => $1::float8) AND NOT EXISTS (
        SELECT FROM agent.run_heartbeats h WHERE h.run_id = r.id AND h.segment_id = r.segment_id
          AND h.beat_at > clock_timestamp() - make_interval(secs => $1::float8))))
   ORDER BY r.created_at LIMIT $2::integer`,
)

/** $3 is the longest wait in seconds: a failed segment waits 1, 2, 4 … up to it. $4 is the fault; without one nothing failed. */
export const RELEASE = statement(
  'run_release',
  `UPDATE agent.runs SET status = 'queued', segment_id = NULL, message = $4::text,
     failures = failures + CASE WHEN $4::text IS NULL THEN 0 ELSE 1 END,
     wake_at = CASE WHEN $4::text IS NOT NULL THEN clock_timestamp() + make_interval(secs => least($3::float8, power(2, failures)::float8)) END
   WHERE id = $1::uuid AND segment_id = $2::uuid RETURNING failures`,
)

/** Open questions before their run, as an answer takes them: the other way round, an answer while the run ends is a deadlock. */
export const LOCK_QUESTIONS = statement(
  'run_lock_questions',
  `SELECT id FROM agent.approvals WHERE run_id = $1::uuid AND state = 'pending' ORDER BY id FOR UPDATE`,
)
