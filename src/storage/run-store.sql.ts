import { statement } from './statement.ts'

export const BEAT = statement(
  'run_beat',
  `INSERT INTO agent.run_heartbeats AS h (run_id, organization_id, segment_id, beat_at)
   SELECT id, organization_id, $2::uuid, clock_timestamp() FROM agent.runs WHERE id = $1::uuid AND segment_id = $2::uuid AND status = 'running'
   ON CONFLICT (run_id) DO UPDATE SET segment_id = EXCLUDED.segment_id, beat_at = EXCLUDED.beat_at
   RETURNING run_id`,
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
