import { collectDefaultMetrics, Registry } from 'prom-client'
import type { ObservedEvent, Observer } from '../../observing/observer.ts'
import type { RuntimeHealth } from '../../runtime.ts'
import type { Database } from '../../storage/database.ts'
import { readOpenWork } from '../../storage/operations-store.ts'
import type { MetricsPage } from '../app-env.ts'
import { eventSeries, stateSeries, type EventSeries, type StateSeries } from './series.ts'

/** What the figures that are read on request are read from. */
export interface MetricsSources {
  readonly database: Database
  readonly engine: () => RuntimeHealth
  /** Whether a tool of this name is declared: no other name becomes a label. */
  readonly knows: (tool: string) => boolean
  readonly now: () => Date
}

export interface Metrics {
  readonly observer: Observer
  /** Names of tools are told apart from here on. */
  attach(sources: MetricsSources): Pick<MetricsPage, 'render'>
}

/** What stands for every name that is not on a list. */
const OTHER = 'other'

/** Codes and model names are closed lists in practice; these bounds hold if one of them is not. */
const MOST_CODES = 200
const MOST_MODELS = 100

/** Counts for one process, in a registry of its own. */
export function serverMetrics(): Metrics {
  const registry = new Registry()
  const series = eventSeries(registry)
  const state = stateSeries(registry)
  // CPU, memory, garbage collection and the delay of the event loop.
  collectDefaultMetrics({ register: registry })
  const names = new Names()
  return {
    observer: { observe: (event) => count(series, names, event) },
    attach(sources) {
      names.knows = sources.knows
      const attachedAt = sources.now()
      return {
        async render() {
          await read(state, sources, attachedAt)
          return { contentType: registry.contentType, text: await registry.metrics() }
        },
      }
    },
  }
}

/** Keeps the number of label values bounded, whatever text comes. */
class Names {
  knows: (tool: string) => boolean = () => false
  readonly code = limited(MOST_CODES)
  readonly model = limited(MOST_MODELS)
  readonly provider = limited(MOST_MODELS)

  tool({ admitted, tool }: { readonly admitted: boolean; readonly tool: string }): string {
    return admitted && this.knows(tool) ? tool : OTHER
  }
}

function limited(most: number): (name: string) => string {
  const seen = new Set<string>()
  return (name) => {
    if (seen.has(name)) return name
    if (seen.size >= most || name.length > 128) return OTHER
    seen.add(name)
    return name
  }
}

function count(series: EventSeries, names: Names, event: ObservedEvent): void {
  switch (event.kind) {
    case 'call_ended':
      return countCall(series, names, event)
    case 'decision':
      return series.decisions.inc({ tool: names.tool(event), effect: event.effect, stage: event.stage })
    case 'question_filed':
      return series.questionsFiled.inc({ tool: names.tool(event), question: event.question })
    case 'question_answered':
      series.questionsDecided.inc({ state: event.state })
      return series.questionSeconds.observe({ state: event.state }, event.waitedMs / 1000)
    case 'questions_expired':
      return series.questionsDecided.inc({ state: 'expired' }, event.count)
    case 'run_created':
      return series.runsCreated.inc({ lane: event.lane })
    case 'run_ended':
      return series.runsEnded.inc({ status: event.status, lane: event.lane })
    case 'segment_ended':
      series.segments.inc({ ending: event.ending, lane: event.lane })
      return series.segmentSeconds.observe({ lane: event.lane }, event.ms / 1000)
    case 'turn_ended':
      return countTurn(series, names, event)
    case 'spent':
      return series.cents.inc({ kind: 'tool', provider: names.provider(event.provider) }, event.costCents)
    case 'dropped':
      return series.dropped.inc({ what: event.what })
    case 'segment_started':
    case 'turn_started':
      return undefined
  }
}

function countCall(series: EventSeries, names: Names, event: Extract<ObservedEvent, { kind: 'call_ended' }>): void {
  const tool = names.tool(event)
  const { outcome } = event
  series.calls.inc({ tool, outcome, code: event.code === null ? '' : names.code(event.code) })
  series.callSeconds.observe({ tool, outcome }, event.ms / 1000)
  if (event.claim !== null) series.claims.inc({ tool, ending: event.claim })
  if (event.replayed) series.replays.inc({ tool })
}

function countTurn(series: EventSeries, names: Names, event: Extract<ObservedEvent, { kind: 'turn_ended' }>): void {
  const model = names.model(`${event.provider}/${event.model}`)
  series.turnSeconds.observe({ model }, event.ms / 1000)
  series.tokens.inc({ model, direction: 'input' }, event.inputTokens)
  series.tokens.inc({ model, direction: 'output' }, event.outputTokens)
  series.cents.inc({ kind: 'model', provider: names.provider(event.provider) }, event.costCents)
}

async function read(state: StateSeries, { database, engine, now }: MetricsSources, since: Date): Promise<void> {
  const open = await readOpenWork(database)
  state.openRuns.reset()
  for (const { status, lane, count: runs } of open.runs) state.openRuns.set({ status, lane }, runs)
  state.heldRuns.set(open.held)
  state.questions.set(open.questions)
  state.oldestDue.set(open.oldestDueS)
  const { state: engineState, lastSweepAt } = engine()
  state.taking.set(engineState === 'taking' ? 1 : 0)
  // One that has never succeeded is as old as the process.
  state.sweepAge.set(Math.max(0, now().getTime() - (lastSweepAt ?? since).getTime()) / 1000)
  const pool = database.connections?.()
  if (pool === undefined) return
  state.pool.set({ state: 'idle' }, pool.idle)
  state.pool.set({ state: 'busy' }, pool.total - pool.idle)
  state.pool.set({ state: 'waiting' }, pool.waiting)
}
