import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

/** What is open on a database, over all organizations. */
export interface OpenWork {
  readonly runs: readonly { readonly status: string; readonly lane: string; readonly count: number }[]
  /** Runs that an operator has to let go on. */
  readonly held: number
  readonly questions: number
  /** Seconds the run that is due the longest has waited for somebody to take it; 0 when none is due. */
  readonly oldestDueS: number
}

const OPEN_RUNS = statement(
  'operations_open_runs',
  `SELECT status, lane, count(*)::integer AS count, count(held_at)::integer AS held,
     coalesce(max(extract(epoch FROM clock_timestamp() - coalesce(wake_at, begun_at, created_at))) FILTER (
       WHERE held_at IS NULL AND source <> 'library'
         AND ((status = 'queued' AND wake_at IS NULL) OR (status IN ('queued', 'parked') AND wake_at <= clock_timestamp()))
     ), 0)::float8 AS oldest
   FROM agent.runs WHERE status IN ('queued', 'running', 'parked') GROUP BY status, lane`,
)

const QUESTIONS = statement(
  'operations_questions',
  `SELECT count(*)::integer AS count FROM agent.approvals WHERE state = 'pending'`,
)

const ANY_HELD = statement(
  'operations_any_held',
  `SELECT EXISTS (SELECT FROM agent.runs WHERE status IN ('queued', 'running', 'parked') AND held_at IS NOT NULL) AS held`,
)

interface OpenRow {
  readonly status: string
  readonly lane: string
  readonly count: number
  readonly held: number
  readonly oldest: number
}

/** For gauges: two statements, neither of which looks at a run or a question that is over. */
export async function readOpenWork(database: Queryable): Promise<OpenWork> {
  const { rows } = await database.query<OpenRow>(OPEN_RUNS)
  const questions = await database.query<{ count: number }>(QUESTIONS)
  return {
    runs: rows.map(({ status, lane, count }) => ({ status, lane, count })),
    held: rows.reduce((sum, { held }) => sum + held, 0),
    questions: questions.rows[0]?.count ?? 0,
    oldestDueS: rows.reduce((most, { oldest }) => Math.max(most, oldest), 0),
  }
}

export async function anyRunHeld(database: Queryable): Promise<boolean> {
  const { rows } = await database.query<{ held: boolean }>(ANY_HELD)
  return rows[0]?.held === true
}
