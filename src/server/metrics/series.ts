import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** Seconds a tool call or a turn takes. */
const CALL_S = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120]
const SEGMENT_S = [0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 3600]
/** Seconds people take: from half a minute to three days. */
const WAIT_S = [30, 120, 600, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600]

/** Everything that is counted as it happens. Labels take values of lists that code or configuration closes; never an id. */
export function eventSeries(registry: Registry) {
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name: `bailiff_${name}_total`, help, labelNames: [...labelNames], registers: [registry] })
  const seconds = <Label extends string>(
    name: string,
    help: string,
    { labels, buckets }: { readonly labels: readonly Label[]; readonly buckets: number[] },
  ) => new Histogram({ name: `bailiff_${name}_seconds`, help, labelNames: [...labels], buckets, registers: [registry] })
  return {
    calls: counter('calls', 'Tool calls by how they ended', ['tool', 'outcome', 'code']),
    callSeconds: seconds('call_duration', 'From the proposal to the answer; without the wait for a person', {
      labels: ['tool', 'outcome'],
      buckets: CALL_S,
    }),
    decisions: counter('decisions', 'Decisions that were recorded', ['tool', 'effect', 'stage']),
    claims: counter('claims', 'Claims of writes and sends by how they ended', ['tool', 'ending']),
    replays: counter('replays', 'Calls answered from the journal instead of being made again', ['tool']),
    questionsFiled: counter('questions_filed', 'Approvals that were asked for', ['tool', 'question']),
    questionsDecided: counter('questions_decided', 'Approvals that were answered or ran out', ['state']),
    questionSeconds: seconds('question_wait', 'From a question to its answer by a person', {
      labels: ['state'],
      buckets: WAIT_S,
    }),
    runsCreated: counter('runs_created', 'Runs that were started', ['lane']),
    runsEnded: counter('runs_ended', 'Runs that ended', ['status', 'lane']),
    segments: counter('segments', 'Stretches of runs by how they ended', ['ending', 'lane']),
    segmentSeconds: seconds('segment_duration', 'One uninterrupted stretch of a run', {
      labels: ['lane'],
      buckets: SEGMENT_S,
    }),
    turnSeconds: seconds('turn_duration', 'One turn of a model, with the reads it made', {
      labels: ['model'],
      buckets: CALL_S,
    }),
    tokens: counter('model_tokens', 'Tokens of models', ['model', 'direction']),
    cents: counter('cost_cents', 'What models and tools cost, in cents', ['kind', 'provider']),
    dropped: counter('dropped', 'Records that could not be written', ['what']),
  }
}

export type EventSeries = ReturnType<typeof eventSeries>

/** Everything that is read when somebody asks. */
export function stateSeries(registry: Registry) {
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `bailiff_${name}`, help, labelNames: [...labelNames], registers: [registry] })
  return {
    openRuns: gauge('open_runs', 'Runs that have not ended, in the whole deployment', ['status', 'lane']),
    heldRuns: gauge('held_runs', 'Runs that wait for an operator, in the whole deployment'),
    questions: gauge('questions_pending', 'Approvals that wait for a person, in the whole deployment'),
    oldestDue: gauge('oldest_due_seconds', 'How long the run that is due the longest has waited to be taken'),
    sweepAge: gauge('sweep_age_seconds', 'Since this process last looked for due work with success'),
    taking: gauge('engine_taking_work', '1 while this process takes work'),
    pool: gauge('database_pool_connections', 'Connections of this process to the database', ['state']),
  }
}

export type StateSeries = ReturnType<typeof stateSeries>
