import { SegmentLost, type Segment } from '../runs/run-store.ts'
import type { StepError, StepRow, StepWait } from '../runs/workflow/step.ts'
import type { Ground, StepChange, StepQuestion, StepStore, StoredSteps } from '../runs/workflow/step-store.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

const STEPS = statement(
  'run_steps_load',
  `SELECT path, node, kind, state, attempt, output, error, wait, child_run_id AS "childRunId", started_at AS "startedAt"
   FROM agent.run_steps WHERE run_id = $1::uuid`,
)

const QUESTIONS = statement(
  'run_steps_questions',
  `SELECT id, pause_id AS "pauseId", state = 'pending' AND expires_at > clock_timestamp() AS open
   FROM agent.approvals WHERE run_id = $1::uuid AND pause_id IS NOT NULL`,
)

/*
 * One round trip for the whole boundary between two nodes. $3 holds the changes; $5 whether anything came to an end, so
 * that the run is no longer counted as failing; $6 whether the spend matters to a ceiling of the run.
 */
const RECORD = statement(
  'run_steps_record',
  `WITH owned AS (
     UPDATE agent.runs r SET
       tool_calls = $4::integer + coalesce((SELECT sum(c.tool_calls) FROM agent.runs c WHERE c.parent_run_id = r.id), 0)::integer,
       failures = CASE WHEN $5::boolean THEN 0 ELSE r.failures END,
       abandoned = CASE WHEN $5::boolean THEN 0 ELSE r.abandoned END
     WHERE r.id = $1::uuid AND r.segment_id = $2::uuid AND r.status = 'running'
     RETURNING r.id, r.organization_id, r.root_run_id, r.lane, r.tool_calls, r.wake_counter
   ), changes AS (
     SELECT * FROM json_to_recordset($3::json) AS c(path text, node text, kind text, state text, attempt integer, output json,
       error json, wait jsonb, child uuid, started timestamptz, span uuid, parent uuid, attributes jsonb)
   ), steps AS (
     INSERT INTO agent.run_steps AS s (run_id, organization_id, path, node, kind, state, attempt, output, error, wait, child_run_id, started_at, ended_at)
     SELECT o.id, o.organization_id, c.path, c.node, c.kind, c.state, c.attempt, c.output, c.error, c.wait, c.child, c.started,
       CASE WHEN c.state IN ('completed', 'failed') THEN clock_timestamp() END
     FROM owned o, changes c
     ON CONFLICT (run_id, path) DO UPDATE SET state = EXCLUDED.state, attempt = EXCLUDED.attempt, output = EXCLUDED.output,
       error = EXCLUDED.error, wait = EXCLUDED.wait, child_run_id = EXCLUDED.child_run_id, ended_at = EXCLUDED.ended_at
   ), spans AS (
     INSERT INTO agent.spans (id, organization_id, run_id, root_run_id, parent_id, kind, name, status, code, started_at, ended_at, attributes)
     SELECT c.span, o.organization_id, o.id, o.root_run_id, c.parent, 'node', c.path,
       CASE c.state WHEN 'completed' THEN 'ok' WHEN 'failed' THEN 'error' ELSE 'running' END, c.error ->> 'code', c.started,
       CASE WHEN c.state IN ('completed', 'failed') THEN clock_timestamp() END, c.attributes
     FROM owned o, changes c
     ON CONFLICT (id) DO UPDATE SET status = EXCLUDED.status, code = EXCLUDED.code, ended_at = EXCLUDED.ended_at, attributes = EXCLUDED.attributes
   )
   SELECT k.cancel_requested_at IS NOT NULL AS cancelled, k.cancel_reason AS reason,
     EXISTS (SELECT FROM agent.lanes l WHERE l.organization_id = o.organization_id AND l.lane = o.lane AND l.paused_at IS NOT NULL) AS paused,
     o.tool_calls - $4::integer AS "childToolCalls", o.wake_counter AS "wakeCounter",
     CASE WHEN $6::boolean THEN (SELECT coalesce(sum(u.cost_cents), 0)::float8 FROM public.ai_usage_log u
       WHERE u.organization_id = o.organization_id AND u.root_run_id = o.root_run_id) ELSE 0 END AS spent,
     d.max AS "dayMax",
     CASE WHEN d.max IS NOT NULL THEN (SELECT coalesce(sum(u.cost_cents), 0)::float8 FROM public.ai_usage_log u
       WHERE u.organization_id = o.organization_id AND u.created_at >= date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC') END AS "daySpent"
   FROM owned o
   JOIN agent.run_control k ON k.run_id = o.id
   JOIN agent.organizations g ON g.id = o.organization_id
   CROSS JOIN LATERAL (SELECT (g.settings ->> 'maxCostCentsPerDay')::float8 AS max) d`,
)

interface StoredGround {
  readonly cancelled: boolean
  readonly reason: string | null
  readonly paused: boolean
  readonly childToolCalls: number
  readonly wakeCounter: number
  readonly spent: number
  readonly dayMax: number | null
  readonly daySpent: number | null
}

interface StoredStep extends Omit<StepRow, 'error' | 'wait'> {
  readonly error: unknown
  readonly wait: unknown
}

export function stepStore(database: Queryable): StepStore {
  const questionsOf = async (runId: string): Promise<readonly StepQuestion[]> =>
    (await database.query<StepQuestion>(QUESTIONS, [runId])).rows
  return {
    questions: ({ run }) => questionsOf(run.id),
    async load({ run }): Promise<StoredSteps> {
      const { rows: steps } = await database.query<StoredStep>(STEPS, [run.id])
      const questions = await questionsOf(run.id)
      const stepOf = (row: StoredStep): StepRow => ({
        ...row,
        error: row.error as StepError | null,
        wait: row.wait as StepWait | null,
      })
      return { steps: steps.map(stepOf), questions }
    },
    async record(segment: Segment, changes, ownToolCalls): Promise<Ground> {
      const { run } = segment
      const { rows } = await database.query<StoredGround>(RECORD, [
        run.id,
        segment.id,
        JSON.stringify(changes.map(rowOf)),
        ownToolCalls,
        changes.some(({ state }) => state === 'completed' || state === 'failed' || state === 'waiting'),
        run.snapshot.ceilings.maxCostCents !== null,
      ])
      const row = rows[0]
      if (row === undefined) throw new SegmentLost(run.id)
      const { cancelled, reason, paused, childToolCalls, wakeCounter, spent, dayMax, daySpent } = row
      return {
        cancelled: cancelled ? { reason } : null,
        lanePaused: paused,
        spentCents: spent,
        day: dayMax === null ? null : { spentCents: daySpent ?? 0, maxCents: dayMax },
        childToolCalls,
        wakeCounter,
      }
    },
  }
}

function rowOf(change: StepChange): Record<string, unknown> {
  const { path, node, kind, state, attempt, output, error, wait } = change
  return {
    path,
    node,
    kind,
    state,
    attempt,
    output,
    error,
    wait,
    child: change.childRunId,
    started: change.startedAt.toISOString(),
    span: change.spanId,
    parent: change.parentSpanId,
    attributes: { node, kind, attempt, ...(wait === null ? {} : { wait: wait.kind, until: wait.until }) },
  }
}
