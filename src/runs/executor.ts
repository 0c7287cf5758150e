import type { CallLedger, ErrorReporter, Logger, PolicyEngine } from '../tools/invoker.ts'
import type { JsonValue } from '../tools/json.ts'
import { isDaySpent, type DayCost } from './day-cost.ts'
import { callRead, drain, type SegmentOutcome } from './drain-loop.ts'
import type { BeginRules, LaneOf } from './lane.ts'
import { pausableReads } from './pausable-reads.ts'
import { endingOf } from './run-ending.ts'
import { SegmentLost, type RunStore, type Segment, type SegmentFault } from './run-store.ts'
import { SegmentState, type SegmentDependencies } from './segment-state.ts'
import { stopSlot } from './segment-stop.ts'
import type { AgentFramework, SessionInput } from './session.ts'
import { UnreadableSession } from './unreadable-session.ts'
import { endIfOver } from './waiting-run.ts'
import type { WorkflowOutcome } from './workflow/outcome.ts'

export interface ExecutorDependencies extends SegmentDependencies {
  readonly store: RunStore
  readonly ledger: CallLedger
  readonly policy: Pick<PolicyEngine, 'mayAsk'>
  readonly frameworks: ReadonlyMap<string, AgentFramework>
  /** Runs the segments of workflow runs; everything around a segment is the same for both. */
  readonly workflows: { runSegment(segment: Segment, leave: AbortSignal): Promise<WorkflowOutcome> }
  /** Read before each segment of an agent; a workflow reads it between its nodes. */
  readonly dayCost: DayCost
  /** Never raises. */
  readonly wake: (runId: string) => Promise<void>
  readonly reporter: ErrorReporter
  readonly logger: Logger
  readonly rules: BeginRules
  /** Seconds between two heartbeats of a live segment; several fit into `rules.staleS`. */
  readonly beatS: number
  /** Told when a segment has left its place in a lane. Never raises. */
  readonly freed: (lane: LaneOf) => Promise<void>
  /** Segments that may fail in a row before the run fails. */
  readonly maxFailures: number
}

/** What the engine does next: nothing, the same run again now, or the same run again at a time. */
export type AdvanceOutcome =
  | { readonly kind: 'idle' }
  | { readonly kind: 'again' }
  | { readonly kind: 'at'; readonly at: Date }

/** Enough for restarts in a row, and few enough that a run which ends its process does not take every process along. */
const MAX_ABANDONED = 10

/** Runs one segment of a run. Safe to call twice at any time: the run row says who owns it. */
export class AgentExecutor {
  readonly #deps: ExecutorDependencies
  readonly #live = new Map<string, { readonly segment: Segment; readonly controller: AbortController }>()
  #leaving = false

  constructor(deps: ExecutorDependencies) {
    this.#deps = deps
  }

  async advance(runId: string): Promise<AdvanceOutcome> {
    return (await this.tryAdvance(runId)) ?? { kind: 'idle' }
  }

  /**
   * Null when there was nothing to take: another segment owns the run, or it is over. `leave` ends the segment before
   * its next turn or call, and the run is due again.
   */
  async tryAdvance(runId: string, leave?: AbortSignal): Promise<AdvanceOutcome | null> {
    if (this.#leaving) return null
    const begun = await this.#deps.store.begin(runId, this.#deps.newId(), this.#deps.rules)
    if (begun.kind === 'waiting') await endIfOver(begun, this.#deps)
    return begun.kind === 'begun' ? this.#advance(begun.segment, leave) : null
  }

  async #advance(segment: Segment, leave: AbortSignal | undefined): Promise<AdvanceOutcome> {
    const controller = new AbortController()
    this.#live.set(segment.id, { segment, controller })
    // The process may have begun to leave while the run was being taken.
    if (this.#leaving) controller.abort(new ShuttingDown())
    const heart = this.#startHeart(segment, controller)
    this.#changed(segment)
    try {
      const outcome = await this.#runSegment(segment, controller.signal, leave)
      await this.#deps.ledger.flush()
      return await this.#conclude(segment, outcome)
    } catch (error) {
      return await this.#interrupted(segment, error)
    } finally {
      clearInterval(heart)
      this.#live.delete(segment.id)
      this.#changed(segment)
      await this.#deps.freed(segment.run)
    }
  }

  /** Aborts model calls in flight, so that a process can end; effects in flight settle. Runs go on elsewhere or later. */
  shutDown(): void {
    this.#leaving = true
    for (const { controller } of this.#live.values()) controller.abort(new ShuttingDown())
  }

  /**
   * Gives back the runs whose segments have not ended by themselves, so that another process takes them now and not once
   * they count as dead. Their effects in flight keep their claims: whoever goes on waits for those.
   */
  async handOver(): Promise<void> {
    for (const { segment } of this.#live.values()) await this.#interrupted(segment, new ShuttingDown())
  }

  async #runSegment(
    segment: Segment,
    signal: AbortSignal,
    leave?: AbortSignal,
  ): Promise<SegmentOutcome | WorkflowOutcome> {
    const { run, saved } = segment
    if (segment.abandoned >= MAX_ABANDONED) return this.#givenUp(segment)
    if (run.kind === 'workflow') {
      const leaving = leave === undefined ? signal : AbortSignal.any([signal, leave])
      return this.#deps.workflows.runSegment(segment, leaving)
    }
    const framework = this.#deps.frameworks.get(run.snapshot.framework)
    if (framework === undefined)
      return {
        kind: 'failed',
        code: 'internal_error',
        message: `this deployment has no ${run.snapshot.framework} adapter`,
      }
    if (this.#deps.now() >= run.deadline) return { kind: 'limit_reached', reason: 'max_duration' }
    if (isDaySpent(await this.#deps.dayCost(run.organizationId))) return { kind: 'partial', reason: 'max_cost_day' }
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
    return drain(session, state.ports, {
      pause: saved?.pause ?? null,
      input: firstInput(segment),
      stop,
      signal,
      leave: leave === undefined ? signal : AbortSignal.any([signal, leave]),
    })
  }

  /** Whatever the run does ends the process and with it the work of others, so it is not tried for ever. */
  #givenUp({ run, abandoned }: Segment): SegmentOutcome {
    const message = `the process ended ${abandoned} times in a row while it worked on this run`
    const { id: runId, organizationId } = run
    this.#deps.reporter.report(new Error(message), { runId, organizationId })
    return { kind: 'failed', code: 'internal_error', message }
  }

  async #conclude(segment: Segment, outcome: SegmentOutcome | WorkflowOutcome): Promise<AdvanceOutcome> {
    const { store } = this.#deps
    switch (outcome.kind) {
      case 'needs_approval':
        return this.#park(segment, earliest(outcome.expiresAt, segment.run.deadline))
      case 'in_flight':
        return this.#park(segment, earliest(outcome.until, segment.run.deadline))
      case 'waits':
        return this.#park(segment, earliest(outcome.until, segment.run.deadline))
      case 'lane_paused':
        await store.release(segment, null)
        return { kind: 'idle' }
      case 'ended':
      case 'completed':
      case 'cancelled':
      case 'partial':
      case 'limit_reached':
      case 'failed':
        await store.end(segment, endingOf(outcome))
        await this.#ended(segment.run)
        return { kind: 'idle' }
    }
  }

  async #park(segment: Segment, wakeAt: Date): Promise<AdvanceOutcome> {
    const parked = await this.#deps.store.park(segment, { wakeAt })
    return parked === 'moved' ? { kind: 'again' } : { kind: 'at', at: wakeAt }
  }

  /** A fault of the platform or of the model's provider. The run goes back to the queue until its tries are spent; no text of it reaches a model. */
  async #interrupted(segment: Segment, error: unknown): Promise<AdvanceOutcome> {
    if (error instanceof SegmentLost) return this.#lost(segment)
    const { logger, store, reporter } = this.#deps
    const context = { runId: segment.run.id, organizationId: segment.run.organizationId }
    const leaving = error instanceof ShuttingDown
    if (!leaving) logger.error('a segment failed', { ...context, error })
    try {
      await this.#deps.ledger.flush()
      const released = await store.release(segment, leaving ? null : this.#faultOf(error))
      // Once, by whoever ended the run: the last try and the end are one step.
      if (released.kind === 'failed') {
        reporter.report(error, { ...context, failures: String(released.failures) })
        await this.#ended(segment.run)
      }
    } catch (again) {
      if (!(again instanceof SegmentLost))
        logger.error('a failed segment could not be given back; the reaper will find it', { ...context, error: again })
    }
    return { kind: 'idle' }
  }

  /**
   * Somebody took the run over while this segment was silent, and may wait for the very call that has just come to its
   * end here: without a word it would wait until the lease of that call is over.
   */
  async #lost({ run }: Segment): Promise<AdvanceOutcome> {
    try {
      await this.#deps.ledger.flush()
      await this.#deps.store.nudge(run.id)
      await this.#deps.wake(run.id)
    } catch (error) {
      this.#deps.logger.warn('the run of a lost segment could not be woken', { runId: run.id, error })
    }
    return { kind: 'idle' }
  }

  #faultOf(error: unknown): SegmentFault {
    const message = faultMessage(error)
    const ending = { status: 'failed', reason: 'internal_error', message, output: null } as const
    return { message, final: { maxFailures: this.#deps.maxFailures, ending } }
  }

  #startHeart(segment: Segment, controller: AbortController): NodeJS.Timeout {
    return setInterval(() => {
      this.#deps.store.beat(segment).catch((error: unknown) => {
        if (error instanceof SegmentLost) controller.abort(error)
        else this.#deps.logger.warn('a heartbeat could not be written', { runId: segment.run.id, error })
      })
    }, this.#deps.beatS * 1000)
  }

  /** The run that waits for this one was told in the same step that ended it. */
  async #ended({ parentRunId }: Segment['run']): Promise<void> {
    if (parentRunId !== null) await this.#deps.wake(parentRunId)
  }

  #changed(segment: Segment): void {
    this.#deps.onChange(segment.run.organizationId, segment.run.id)
  }
}

/** Raised into a model call when the process ends, and at the next boundary when the time given to a segment is over. */
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
