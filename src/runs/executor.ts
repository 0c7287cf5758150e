import type { CallLedger, ErrorReporter, Logger, PolicyEngine } from '../tools/invoker.ts'
import type { JsonValue } from '../tools/json.ts'
import { callRead, drain, type SegmentOutcome } from './drain-loop.ts'
import { pausableReads } from './pausable-reads.ts'
import { endingOf } from './run-ending.ts'
import { SegmentLost, type RunStore, type Segment } from './run-store.ts'
import { SegmentState, type SegmentDependencies } from './segment-state.ts'
import { stopSlot } from './segment-stop.ts'
import type { AgentFramework, SessionInput } from './session.ts'
import { UnreadableSession } from './unreadable-session.ts'

export interface ExecutorDependencies extends SegmentDependencies {
  readonly store: RunStore
  readonly ledger: CallLedger
  readonly policy: Pick<PolicyEngine, 'mayAsk'>
  readonly frameworks: ReadonlyMap<string, AgentFramework>
  readonly reporter: ErrorReporter
  readonly logger: Logger
  /** Seconds after which a silent segment counts as dead, and between two heartbeats of a live one. */
  readonly staleS: number
  readonly beatS: number
  /** Segments that may fail in a row before the run fails. */
  readonly maxFailures: number
}

/** What the engine does next: nothing, the same run again now, or the same run again at a time. */
export type AdvanceOutcome =
  | { readonly kind: 'idle' }
  | { readonly kind: 'again' }
  | { readonly kind: 'at'; readonly at: Date }

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
    if (framework === undefined)
      return {
        kind: 'failed',
        code: 'internal_error',
        message: `this deployment has no ${run.snapshot.framework} adapter`,
      }
    if (this.#deps.now() >= run.deadline) return { kind: 'limit_reached', reason: 'max_duration' }
    const contracts = Object.values(run.snapshot.contracts)
    const pausable = await pausableReads(this.#deps.policy, run.organizationId, contracts)
    const stop = stopSlot()
    const state: SegmentState = new SegmentState(segment, this.#deps, () => session.save())
    const session = framework.open({
      instructions: run.snapshot.instructions,
      contracts,
      pausable,
      model: run.snapshot.model,
      saved: saved?.session ?? null,
      stop,
      callRead: (toolName, args) => callRead(toolName, args, { ...state.ports, stop }),
    })
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
    const leaving = error instanceof ShuttingDown
    if (!leaving) logger.error('a segment failed', { ...context, error })
    try {
      await this.#deps.ledger.flush()
      const failures = await store.release(segment, leaving ? null : faultMessage(error))
      if (leaving || failures <= this.#deps.maxFailures) return { kind: 'idle' }
      reporter.report(error, context)
      await store.fail(segment.run.id, {
        status: 'failed',
        reason: 'internal_error',
        message: faultMessage(error),
        output: null,
      })
    } catch (again) {
      if (!(again instanceof SegmentLost))
        logger.error('a failed segment could not be given back; the reaper will find it', { ...context, error: again })
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

function firstInput(segment: Segment): SessionInput {
  return segment.saved === null ? { kind: 'start', text: inputText(segment.run.input) } : { kind: 'continue' }
}

function inputText(input: JsonValue): string {
  return typeof input === 'string' ? input : JSON.stringify(input)
}

function earliest(a: Date, b: Date): Date {
  return a < b ? a : b
}

/** For a person: the kind of fault, without text that may carry a provider's or a database's details. */
function faultMessage(error: unknown): string {
  if (error instanceof UnreadableSession) return error.message
  return error instanceof Error ? `${error.name}; the log has the details` : 'a fault; the log has the details'
}
