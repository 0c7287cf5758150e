import {
  context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type Span,
  type SpanContext,
  type SpanOptions,
  type Tracer,
} from '@opentelemetry/api'
import type { CallScope, ObservedEvent, Observer } from '../observing/observer.ts'
import {
  callAttributes,
  endedRunAttributes,
  endedTurnAttributes,
  segmentAttributes,
  toolName,
  turnAttributes,
} from './attributes.ts'
import { identified, identityOf } from './span-ids.ts'

export interface OpenTelemetryOptions {
  /** The one of the global provider when absent. */
  readonly tracer?: Tracer
}

/** Spans of which children may still come, when the SDK did not take their ids from us. */
const CONTEXTS_KEPT = 5_000

/**
 * Traces of runs, through the API alone: the SDK is yours, and without one nothing happens. A run tree is one trace, whose
 * id is that of its root run, over all processes that work on it. It holds a span for the run, each segment, each turn of
 * the model and each tool call; never an argument, an answer or a text.
 *
 * Give the SDK `idGenerator: spanIds()`. Otherwise spans name parents as Bailiff knows them, which only this process can
 * translate.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Observer {
  const spans = new RunSpans(options.tracer ?? trace.getTracer('bailiff'))
  return {
    observe: (event) => spans.observe(event),
    insideCall: (scope, work) => spans.insideCall(scope, work),
  }
}

type Event<Kind extends ObservedEvent['kind']> = Extract<ObservedEvent, { kind: Kind }>

/** Where a span of ours stands. A parent that is null makes it the root of its trace. */
interface Place {
  readonly rootRunId: string
  readonly id: string
  readonly parentId: string | null
}

class RunSpans {
  readonly #tracer: Tracer
  readonly #open = new Map<string, Span>()
  readonly #contexts = new Map<string, SpanContext>()
  /** Segment and turn that are under way, by run. */
  readonly #segments = new Map<string, string>()
  readonly #turns = new Map<string, string>()

  constructor(tracer: Tracer) {
    this.#tracer = tracer
  }

  observe(event: ObservedEvent): void {
    switch (event.kind) {
      case 'segment_started':
        return this.#segmentStarted(event)
      case 'segment_ended':
        return this.#segmentEnded(event)
      case 'turn_started':
        return this.#turnStarted(event)
      case 'turn_ended':
        return this.#turnEnded(event)
      case 'call_ended':
        return this.#callEnded(event)
      case 'run_ended':
        return this.#runEnded(event)
      case 'run_created':
      case 'decision':
      case 'question_filed':
      case 'question_answered':
      case 'questions_expired':
      case 'spent':
      case 'dropped':
        return undefined
    }
  }

  /** What the call does, such as a request to a vendor, stands under its span. */
  async insideCall<T>({ rootRunId, spanId, parentId }: CallScope, work: () => Promise<T>): Promise<T> {
    const span = this.#start({ rootRunId, id: spanId, parentId }, 'execute_tool', {})
    this.#open.set(spanId, span)
    try {
      return await context.with(trace.setSpan(context.active(), span), work)
    } finally {
      // One that nothing was recorded of, such as the second look at a question, is no span: it never ends.
      this.#open.delete(spanId)
    }
  }

  #segmentStarted(event: Event<'segment_started'>): void {
    const place = { rootRunId: event.rootRunId, id: event.segmentId, parentId: event.runId }
    const options = { startTime: event.at, attributes: segmentAttributes(event) }
    this.#segments.set(event.runId, event.segmentId)
    this.#open.set(event.segmentId, this.#start(place, `segment ${event.agent}`, options))
  }

  #segmentEnded(event: Event<'segment_ended'>): void {
    const turn = this.#turns.get(event.runId)
    if (turn !== undefined) {
      this.#turns.delete(event.runId)
      this.#end(turn, event.ending)
    }
    this.#segments.delete(event.runId)
    const span = this.#open.get(event.segmentId)
    span?.setAttribute('bailiff.segment.ending', event.ending)
    this.#end(event.segmentId, event.ending === 'failed' || event.ending === 'lost' ? event.ending : null)
  }

  #turnStarted(event: Event<'turn_started'>): void {
    const parentId = this.#segments.get(event.runId) ?? event.runId
    const place = { rootRunId: event.rootRunId, id: event.spanId, parentId }
    const options = { kind: SpanKind.CLIENT, startTime: event.at, attributes: turnAttributes(event) }
    this.#open.set(event.spanId, this.#start(place, `chat ${event.model}`, options))
    this.#turns.set(event.runId, event.spanId)
  }

  #turnEnded(event: Event<'turn_ended'>): void {
    this.#turns.delete(event.runId)
    this.#open.get(event.spanId)?.setAttributes(endedTurnAttributes(event))
    this.#end(event.spanId, null)
  }

  #callEnded(event: Event<'call_ended'>): void {
    const { rootRunId, spanId, parentId, startedAt } = event
    const name = `execute_tool ${toolName(event)}`
    const span =
      this.#open.get(spanId) ?? this.#start({ rootRunId, id: spanId, parentId }, name, { startTime: startedAt })
    span.updateName(name)
    span.setAttributes(callAttributes(event))
    this.#open.set(spanId, span)
    this.#end(spanId, event.outcome === 'error' ? (event.code ?? 'error') : null)
  }

  /** Told by whoever ended it, about the whole of it: its segments may have been anywhere. */
  #runEnded(event: Event<'run_ended'>): void {
    const parentId = event.runId === event.rootRunId ? null : event.rootRunId
    const options = { startTime: event.startedAt, attributes: endedRunAttributes(event) }
    const place = { rootRunId: event.rootRunId, id: event.runId, parentId }
    this.#open.set(event.runId, this.#start(place, `invoke_agent ${event.agent}`, options))
    this.#end(
      event.runId,
      event.status === 'failed' || event.status === 'cancelled' ? (event.reason ?? event.status) : null,
    )
  }

  #start({ rootRunId, id, parentId }: Place, name: string, options: SpanOptions): Span {
    const identity = identityOf(rootRunId, id)
    const parent = parentId === null ? ROOT_CONTEXT : this.#under(rootRunId, parentId)
    const span = identified(identity, () => this.#tracer.startSpan(name, options, parent))
    const isOurs = span.spanContext().traceId === identity.traceId
    // An SDK with ids of its own would begin another trace here; the run stands beside its segments instead.
    if (!isOurs && parentId === null) return this.#tracer.startSpan(name, options, this.#under(rootRunId, id))
    this.#keep(id, span.spanContext())
    return span
  }

  #under(rootRunId: string, parentId: string): Context {
    const foreign = { ...identityOf(rootRunId, parentId), traceFlags: TraceFlags.SAMPLED, isRemote: true }
    return trace.setSpanContext(ROOT_CONTEXT, this.#contexts.get(parentId) ?? foreign)
  }

  #keep(id: string, spanContext: SpanContext): void {
    this.#contexts.set(id, spanContext)
    const [oldest] = this.#contexts.keys()
    if (this.#contexts.size > CONTEXTS_KEPT && oldest !== undefined) this.#contexts.delete(oldest)
  }

  #end(id: string, fault: string | null): void {
    const span = this.#open.get(id)
    this.#open.delete(id)
    if (fault !== null) {
      span?.setAttribute('error.type', fault)
      span?.setStatus({ code: SpanStatusCode.ERROR, message: fault })
    }
    span?.end()
  }
}
