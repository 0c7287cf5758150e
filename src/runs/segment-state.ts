import { remainder, type RunUse } from '../decision/ceilings.ts'
import type { ToolInvocation } from '../tools/invocation.ts'
import type { AmbientSpans, ToolInvoker } from '../tools/invoker.ts'
import type { PriceBook } from '../usage/prices.ts'
import type { EndedTurn, SegmentPorts } from './drain-loop.ts'
import type { Pause, RunRow, RunStore, Segment } from './run-store.ts'
import type { SessionState } from './session.ts'

export interface SegmentDependencies {
  readonly store: Pick<RunStore, 'cancelRequested' | 'lanePaused' | 'recordTurn' | 'saveSession' | 'spentCents'>
  readonly invoker: ToolInvoker
  readonly ambient: AmbientSpans
  readonly prices: PriceBook
  readonly now: () => Date
  readonly newId: () => string
  /** Told when something about a run changed, for live views. */
  readonly onChange: (organizationId: string, runId: string) => void
  readonly onText?: (runId: string, delta: string) => void
  /** Told when the model is asked for a turn, which writes nothing yet. */
  readonly onTurn?: (turn: { readonly run: RunRow; readonly spanId: string; readonly startedAt: Date }) => void
}

/** The moving parts of one segment: what it used, where it stands, how it saves. */
export class SegmentState {
  readonly ports: SegmentPorts
  readonly #segment: Segment
  readonly #deps: SegmentDependencies
  readonly #save: () => SessionState
  readonly #openedAt: number
  #turns: number
  #toolCalls: number
  #spentCents: number
  #turn: { id: string; startedAt: Date }
  /** Open until a turn got past it: a turn that a fault broke off leaves the proposals where they were. */
  #pause: Pause | null

  /** `save` answers the session as it stands whenever it is asked. */
  constructor(segment: Segment, deps: SegmentDependencies, save: () => SessionState) {
    this.#segment = segment
    this.#deps = deps
    this.#save = save
    this.#openedAt = deps.now().getTime()
    this.#turns = segment.use.turns
    this.#toolCalls = segment.use.toolCalls
    this.#spentCents = segment.use.spentCents
    this.#pause = segment.saved?.pause ?? null
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
      // A run of somebody's own loop is in no lane.
      lanePaused: async () => run.source !== 'library' && (await deps.store.lanePaused(segment)),
      inTurn: (work) =>
        deps.ambient.enter(
          { organizationId: run.organizationId, runId: run.id, rootRunId: run.rootRunId, spanId: this.#turn.id },
          work,
        ),
      turnStarted: () => {
        this.#turn = { id: deps.newId(), startedAt: deps.now() }
        deps.onTurn?.({ run, spanId: this.#turn.id, startedAt: this.#turn.startedAt })
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

  async #turnEnded(turn: EndedTurn): Promise<void> {
    const { run } = this.#segment
    const costCents = this.#deps.prices.costCents(turn.usage) ?? 0
    if (turn.progressed) this.#pause = null
    await this.#deps.store.recordTurn(this.#segment, {
      span: { id: this.#turn.id, startedAt: this.#turn.startedAt, text: turn.text },
      usage: { ...turn.usage, costCents, usageId: this.#deps.newId() },
      saved: { session: this.#save(), pause: this.#pause },
      toolCalls: this.#toolCalls,
      progressed: turn.progressed,
    })
    this.#turns += 1
    this.#spentCents =
      run.snapshot.ceilings.maxCostCents === null
        ? 0
        : await this.#deps.store.spentCents(run.organizationId, run.rootRunId)
    this.#deps.onChange(run.organizationId, run.id)
  }

  async #paused(pause: Pause): Promise<Pause> {
    await this.#deps.store.saveSession(this.#segment, { session: this.#save(), pause })
    this.#pause = pause
    return pause
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
