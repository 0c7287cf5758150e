import { remainder, type RunUse } from '../decision/ceilings.ts'
import type { AmbientSpans, CallLedger, ErrorReporter, Logger, ToolInvoker } from '../tools/invoker.ts'
import type { ToolInvocation } from '../tools/invocation.ts'
import type { JsonValue } from '../tools/json.ts'
import type { PriceBook } from '../usage/prices.ts'
import { callRead, drain, type SegmentOutcome, type SegmentPorts } from './drain-loop.ts'
import { SegmentLost, type Pause, type RunEnding, type RunStore, type Segment } from './run-store.ts'
import { stopSlot } from './segment-stop.ts'
import type { AgentFramework, AgentSession, ModelUsage, SessionInput } from './session.ts'

export interface ExecutorDependencies {
  readonly store: RunStore
  readonly invoker: ToolInvoker
  readonly ledger: CallLedger
  readonly ambient: AmbientSpans
  readonly frameworks: ReadonlyMap<string, AgentFramework>
  readonly prices: PriceBook
  readonly reporter: ErrorReporter
  readonly logger: Logger
  readonly now: () => Date
  readonly newId: () => string
  /** Told when something about a run changed, for live views. */
  readonly onChange: (organizationId: string, runId: string) => void
  readonly onText?: (runId: string, delta: string) => void
  /** Seconds after which a silent segment counts as dead, and between two heartbeats of a live one. */
  readonly staleS: number
  readonly beatS: number
  /** Segments that may fail in a row before the run fails. */
  readonly maxFailures: number
}

/** What the engine does next: nothing, the same run again now, or the same run again at a time. */
export type AdvanceOutcome = { readonly kind: 'idle' } | { readonly kind: 'again' } | { readonly kind: 'at'; readonly at: Date }

/** Runs one segment of a run. Safe to call twice at any time: the run row says who owns it. */
export class AgentExecutor {
  readonly #deps: ExecutorDependencies
  readonly #live = new Map<string, AbortController>()

  constructor(deps: ExecutorDependencies) {
    this.#deps = deps
  }

  async advance(runId: string): Promise<AdvanceOutcome> {
    const begun = await this.#deps.store.begin(runId, this.#deps.newId(), this.#deps.staleS)
    if (begun.kind !== 'begun') return { kind: 'idle' }
    const { segment } = begun
    const controller = new AbortController()
    this.#live.set(segment.id, controller)
    const heart = this.#startHeart(segment, controller)
    this.#changed(segment)
    try {
      const outcome = await this.#runSegment(segment, controller.signal)
      await this.#deps.ledger.flush()
      return await this.#conclude(segment, outcome)
    } catch (error) {
      return await this.#interrupted(segment, error)
    } finally {
      clearInterval(heart)
      this.#live.delete(segment.id)
      this.#changed(segment)
    }
  }

  /** Aborts model calls in flight, so that a process can end; effects in flight settle. Runs go on elsewhere or later. */
  shutDown(): void {
    for (const controller of this.#live.values()) controller.abort(new ShuttingDown())
  }

  async #runSegment(segment: Segment, signal: AbortSignal): Promise<SegmentOutcome> {
    const { run, saved } = segment
    const framework = this.#deps.frameworks.get(run.snapshot.framework)
    if (framework === undefined) return { kind: 'failed', code: 'internal_error', message: `this deployment has no ${run.snapshot.framework} adapter` }
    if (this.#deps.now() >= run.deadline) return { kind: 'limit_reached', reason: 'max_duration' }
    const stop = stopSlot()
    const state = new SegmentState(segment, this.#deps)
    const session = framework.open({
      instructions: run.snapshot.instructions,
      contracts: Object.values(run.snapshot.contracts),
      model: run.snapshot.model,
      saved: saved?.session ?? null,
      stop,
      callRead: (toolName, args) => callRead(toolName, args, { ...state.ports, stop }),
    })
    state.session = session
    return drain(session, state.ports, { pause: saved?.pause ?? null, input: firstInput(segment), stop, signal })
  }

  async #conclude(segment: Segment, outcome: SegmentOutcome): Promise<AdvanceOutcome> {
    const { store } = this.#deps
    switch (outcome.kind) {
      case 'needs_approval':
        return this.#park(segment, earliest(outcome.expiresAt, segment.run.deadline))
      case 'in_flight':
        return this.#park(segment, earliest(outcome.until, segment.run.deadline))
      case 'completed':
      case 'cancelled':
      case 'partial':
      case 'limit_reached':
      case 'failed':
        await store.end(segment, endingOf(outcome))
        return { kind: 'idle' }
    }
  }

  async #park(segment: Segment, wakeAt: Date): Promise<AdvanceOutcome> {
    const parked = await this.#deps.store.park(segment, { wakeAt })
    return parked === 'moved' ? { kind: 'again' } : { kind: 'at', at: wakeAt }
  }

  /** A fault of the platform or of the model's provider. The run goes back to the queue until its tries are spent; no text of it reaches a model. */
  async #interrupted(segment: Segment, error: unknown): Promise<AdvanceOutcome> {
    if (error instanceof SegmentLost) return { kind: 'idle' }
    const { logger, store, reporter } = this.#deps
    const context = { runId: segment.run.id, organizationId: segment.run.organizationId }
    logger.error('a segment failed', { ...context, error })
    try {
      await this.#deps.ledger.flush()
      const failures = await store.release(segment)
      if (error instanceof ShuttingDown || failures <= this.#deps.maxFailures) return { kind: 'idle' }
      reporter.report(error, context)
      await store.fail(segment.run.id, { status: 'failed', reason: 'internal_error', message: faultMessage(error), output: null })
    } catch (again) {
      if (!(again instanceof SegmentLost)) logger.error('a failed segment could not be given back; the reaper will find it', { ...context, error: again })
    }
    return { kind: 'idle' }
  }

  #startHeart(segment: Segment, controller: AbortController): NodeJS.Timeout {
    return setInterval(() => {
      this.#deps.store.beat(segment).catch((error: unknown) => {
        if (error instanceof SegmentLost) controller.abort(error)
        else this.#deps.logger.warn('a heartbeat could not be written', { runId: segment.run.id, error })
      })
    }, this.#deps.beatS * 1000)
  }

  #changed(segment: Segment): void {
    this.#deps.onChange(segment.run.organizationId, segment.run.id)
  }
}

/** Raised into a model call when the process ends. */
export class ShuttingDown extends Error {
  override readonly name = 'ShuttingDown'
}

/** The moving parts of one segment: what it used, where it stands, how it saves. */
class SegmentState {
  readonly ports: SegmentPorts
  session: AgentSession | null = null
  readonly #segment: Segment
  readonly #deps: ExecutorDependencies
  readonly #openedAt: number
  #turns: number
  #toolCalls: number
  #spentCents: number
  #turn: { id: string; startedAt: Date }

  constructor(segment: Segment, deps: ExecutorDependencies) {
    this.#segment = segment
    this.#deps = deps
    this.#openedAt = deps.now().getTime()
    this.#turns = segment.use.turns
    this.#toolCalls = segment.use.toolCalls
    this.#spentCents = segment.use.spentCents
    // The proposals of a resumed pause stay under the turn that made them.
    this.#turn = { id: segment.saved?.pause?.turnSpanId ?? segment.run.id, startedAt: deps.now() }
    const { run } = segment
    this.ports = {
      invoker: deps.invoker,
      invocation: invocationOf(segment),
      ceilings: run.snapshot.ceilings,
      authorizedBy: segment.approvals,
      use: () => this.#use(),
      cancelRequested: () => deps.store.cancelRequested(segment),
      inTurn: (work) => deps.ambient.enter({ organizationId: run.organizationId, runId: run.id, rootRunId: run.rootRunId, spanId: this.#turn.id }, work),
      turnStarted: () => {
        this.#turn = { id: deps.newId(), startedAt: deps.now() }
      },
      turnEnded: (turn) => this.#turnEnded(turn),
      paused: (proposals) => this.#paused({ id: deps.newId(), turnSpanId: this.#turn.id, proposals }),
      answered: (calls) => {
        this.#toolCalls += calls
      },
      onText: (delta) => deps.onText?.(run.id, delta),
    }
  }

  #use(): RunUse {
    const elapsedS = this.#segment.use.elapsedS + (this.#deps.now().getTime() - this.#openedAt) / 1000
    return { turns: this.#turns, toolCalls: this.#toolCalls, elapsedS, spentCents: this.#spentCents }
  }

  async #turnEnded(turn: { readonly usage: ModelUsage; readonly text: string }): Promise<void> {
    const { run } = this.#segment
    const costCents = this.#deps.prices.costCents(turn.usage) ?? 0
    await this.#deps.store.recordTurn(this.#segment, {
      span: { id: this.#turn.id, startedAt: this.#turn.startedAt, text: turn.text },
      usage: { ...turn.usage, costCents, usageId: this.#deps.newId() },
      saved: { session: this.#saved(), pause: null },
      toolCalls: this.#toolCalls,
    })
    this.#turns += 1
    this.#spentCents = run.snapshot.ceilings.maxCostCents === null ? 0 : await this.#deps.store.spentCents(run.organizationId, run.rootRunId)
    this.#deps.onChange(run.organizationId, run.id)
  }

  async #paused(pause: Pause): Promise<Pause> {
    await this.#deps.store.saveSession(this.#segment, { session: this.#saved(), pause })
    return pause
  }

  #saved() {
    if (this.session === null) throw new Error('the segment has no session')
    return this.session.save()
  }
}

function invocationOf(segment: Segment): ToolInvocation {
  const { run, use } = segment
  return {
    organizationId: run.organizationId,
    userId: run.snapshot.principal.userId,
    runId: run.id,
    definitionId: run.definitionId,
    stepPath: 'agent',
    principal: run.snapshot.principal,
    ceilings: remainder(run.snapshot.ceilings, use),
    deadline: run.deadline,
    source: run.source,
    contracts: run.snapshot.contracts,
  }
}

function firstInput(segment: Segment): SessionInput {
  return segment.saved === null ? { kind: 'start', text: inputText(segment.run.input) } : { kind: 'continue' }
}

function inputText(input: JsonValue): string {
  return typeof input === 'string' ? input : JSON.stringify(input)
}

function endingOf(outcome: Exclude<SegmentOutcome, { kind: 'needs_approval' | 'in_flight' }>): RunEnding {
  switch (outcome.kind) {
    case 'completed':
      return { status: 'completed', reason: null, message: null, output: outcome.text }
    case 'cancelled':
      return { status: 'cancelled', reason: 'cancelled', message: outcome.reason, output: null }
    case 'partial':
      return { status: 'partial', reason: outcome.reason, message: 'the run stopped with the work it had done', output: null }
    case 'limit_reached':
      return { status: 'partial', reason: outcome.reason, message: 'the run reached a ceiling', output: null }
    case 'failed':
      return { status: 'failed', reason: outcome.code, message: outcome.message, output: null }
  }
}

function earliest(a: Date, b: Date): Date {
  return a < b ? a : b
}

/** For a person: the kind of fault, without text that may carry a provider's or a database's details. */
function faultMessage(error: unknown): string {
  return error instanceof Error ? `${error.name}; the log has the details` : 'a fault; the log has the details'
}
