import { SegmentLost } from '../runs/run-store.ts'
import type { SignalStore } from '../runs/workflow/signal-store.ts'
import type { JsonValue } from '../tools/json.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

const SEND = statement(
  'run_signal_send',
  `WITH woken AS (
     UPDATE agent.runs SET wake_counter = wake_counter + 1, wake_at = CASE WHEN status = 'parked' THEN clock_timestamp() ELSE wake_at END
     WHERE organization_id = $2::uuid AND id = $3::uuid AND status IN ('queued', 'running', 'parked') RETURNING id
   )
   INSERT INTO agent.run_signals (id, organization_id, run_id, name, payload, sent_by)
   SELECT $1::uuid, $2::uuid, woken.id, $4::text, $5::json, $6::jsonb FROM woken RETURNING id`,
)

/** A step that was interrupted after it took a signal is given the same one again. */
const TAKE = statement(
  'run_signal_take',
  `WITH owned AS (
     SELECT id FROM agent.runs WHERE id = $1::uuid AND segment_id = $2::uuid AND status = 'running'
   ), found AS (
     SELECT s.id FROM agent.run_signals s JOIN owned ON owned.id = s.run_id
     WHERE s.name = $3::text AND (s.consumed_by IS NULL OR s.consumed_by = $4::text)
     ORDER BY s.consumed_by IS NULL, s.id LIMIT 1
   ), taken AS (
     UPDATE agent.run_signals s SET consumed_by = $4::text FROM found WHERE s.id = found.id RETURNING s.payload
   )
   SELECT (SELECT count(*)::integer FROM owned) AS owned, (SELECT count(*)::integer FROM taken) AS taken, (SELECT payload FROM taken) AS payload`,
)

export function signalStore(database: Queryable): SignalStore {
  return {
    async send({ id, organizationId, runId, name, payload, by }) {
      const values = [id, organizationId, runId, name, JSON.stringify(payload), JSON.stringify(by)]
      const { rows } = await database.query<{ id: string }>(SEND, values)
      return rows.length > 0
    },
    async take({ id, run }, name, path) {
      const { rows } = await database.query<{ owned: number; taken: number; payload: JsonValue }>(TAKE, [
        run.id,
        id,
        name,
        path,
      ])
      const row = rows[0]
      if (row === undefined || row.owned === 0) throw new SegmentLost(run.id)
      return row.taken === 0 ? null : { payload: row.payload }
    },
  }
}
