import type { AccrualVerdict } from '../decision/accrual.ts'
import { countsOf } from '../decision/limits.ts'
import {
  answerBeforePolicy,
  answerFromClaim,
  decideByPolicy,
  type Ended,
  type Refusal,
  type Verdict,
} from '../decision/path.ts'
import { admitCall } from './admission.ts'
import { executeCall } from './execute.ts'
import { holdCall } from './hold.ts'
import type { ToolInvocation } from './invocation.ts'
import {
  ApprovalRequired,
  CancelRequested,
  ClaimInFlight,
  type AdmittedCall,
  type AmbientSpans,
  type CallLedger,
  type ConnectionResolver,
  type DecisionRecord,
  type ErrorReporter,
  type InvokeOptions,
  type Logger,
  type PolicyEngine,
  type ProposedCall,
  type SpanSubject,
  type ToolInvoker,
  type UsageWriter,
} from './invoker.ts'
import { takesClaim, type ToolResult } from './models.ts'
import type { ToolRegistry } from './registry.ts'
import { failure, replayed } from './result.ts'
import { insideSpan, openSpan } from './span.ts'

export interface InvokerDependencies {
  readonly registry: ToolRegistry
  readonly ledger: CallLedger
  readonly policy: PolicyEngine
  readonly connections: ConnectionResolver
  readonly usage: UsageWriter
  readonly ambient: AmbientSpans
  /** Null in a deploy that wired no meter: a metered call is then a fault, not an empty purse. */
  readonly accrual: ((spentCents: number | null, maxCostCents: number | null) => AccrualVerdict) | null
  readonly reporter: ErrorReporter
  readonly logger: Logger
  readonly now: () => Date
  readonly newId: () => string
}

/**
 * A decision whose ground moved before the claim is made again. Three rounds: ground that moves faster than a call can
 * be decided is something a person should hear of.
 */
const DECISION_ROUNDS = 3

/** Added to the tool's timeout, so that a claim outlives its own worker's last write. Seconds. */
const LEASE_MARGIN_S = 30

/** The decision path: `#run` is the list of its steps, and the functions it names hold the detail. */
export class DefaultToolInvoker implements ToolInvoker {
  readonly #deps: InvokerDependencies
  /** Faults already reported. Their causes are static, so one report lasts for the life of the invoker. */
  readonly #reported = new Set<string>()

  constructor(deps: InvokerDependencies) {
    this.#deps = deps
  }

  async invoke(proposed: ProposedCall, invocation: ToolInvocation, options: InvokeOptions = {}): Promise<ToolResult> {
    const subject = openSpan(this.#deps, proposed, invocation)
    return insideSpan(this.#deps.ambient, subject, () => this.#run(subject, proposed, options))
  }

  async foresee(
    proposed: ProposedCall,
    invocation: ToolInvocation,
    options: InvokeOptions = {},
  ): Promise<ApprovalRequired | null> {
    const subject = openSpan(this.#deps, proposed, invocation)
    return insideSpan(this.#deps.ambient, subject, () => this.#foresee(subject, proposed, options))
  }

  async #run(subject: SpanSubject, { args }: ProposedCall, options: InvokeOptions): Promise<ToolResult> {
    const admission = await this.#guard(subject, () => admitCall(this.#deps, subject, args))
    if (admission.kind === 'refuse') return this.#refuse(subject, admission)
    const { call } = admission
    for (let round = 0; round < DECISION_ROUNDS; round += 1) {
      const verdict = await this.#guard(call, () => this.#decide(call, options))
      if (verdict.kind !== 'run') return this.#settle(call, verdict, options)
      const { record, connectionId } = verdict
      if (!takesClaim(call.spec)) {
        const counted = await this.#counted(call, record)
        if (counted) return executeCall(this.#deps, call, { attempt: null, record, connectionId })
        continue
      }
      const expected = { rulesVersion: verdict.rulesVersion, leaseS: call.spec.timeoutS + LEASE_MARGIN_S }
      const claim = await this.#deps.ledger.claim(call, record, expected)
      if (claim.kind === 'claimed')
        return executeCall(this.#deps, call, { attempt: claim.attempt, record: null, connectionId })
      const lost = answerFromClaim(claim)
      if (lost !== null) return this.#settle(call, lost, options)
    }
    const rounds = `no decision in ${DECISION_ROUNDS} rounds`
    return this.#raise(call, new Error(`${call.toolName}: rules, limits, grants or run control kept moving; ${rounds}`))
  }

  /** Read once, then decide: contract, journal, approval, facts, grant, rules, budget. */
  async #decide(call: AdmittedCall, options: InvokeOptions): Promise<Verdict> {
    const needs = { spend: call.spec.metered, authorizedBy: options.authorizedBy ?? [] }
    const state = await this.#deps.ledger.open(call, needs)
    const early = answerBeforePolicy(call, state, this.#deps.registry.get(call.spec.name))
    if (early.kind !== 'proceed') return early
    const policy = await this.#deps.policy.gather(call, state)
    return decideByPolicy(call, { state, policy, approved: early.approved, accrual: this.#deps.accrual })
  }

  /** A read has no claim that could count it, so it is counted on its own before it runs. Most are about no limit. */
  async #counted(call: AdmittedCall, record: DecisionRecord): Promise<boolean> {
    const counts = countsOf(record)
    return counts.length === 0 || (await this.#deps.ledger.count(call, counts)) === 'counted'
  }

  /** Ends a call without running it: with a value, or by raising what the runtime waits for. */
  async #settle(call: AdmittedCall, verdict: Ended, options: InvokeOptions): Promise<ToolResult> {
    switch (verdict.kind) {
      case 'refuse':
        return this.#refuse(call, verdict)
      case 'replay':
        return this.#answer(call, replayed(verdict.response), null)
      case 'cancelled':
        return this.#raise(call, new CancelRequested(verdict.reason))
      case 'in_flight':
        return this.#raise(call, new ClaimInFlight(call.toolName, verdict.leaseUntil))
      case 'ask':
      case 'pending': {
        const held = await holdCall(this.#deps, call, { verdict, pauseId: options.pauseId ?? null })
        if (held.kind === 'rejected') return this.#refuse(call, held.refusal)
        throw held.error
      }
    }
  }

  async #foresee(
    subject: SpanSubject,
    { args }: ProposedCall,
    options: InvokeOptions,
  ): Promise<ApprovalRequired | null> {
    const admission = await admitCall(this.#deps, subject, args)
    if (admission.kind === 'refuse') return null
    const verdict = await this.#decide(admission.call, options)
    if (verdict.kind !== 'ask' && verdict.kind !== 'pending') return null
    const held = await holdCall(this.#deps, admission.call, { verdict, pauseId: options.pauseId ?? null })
    return held.kind === 'held' && held.error instanceof ApprovalRequired ? held.error : null
  }

  /** A fault before anything was claimed: the segment ends, and the tree says at which call. */
  async #guard<T>(subject: SpanSubject, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const fault = error instanceof Error ? error : new Error(String(error), { cause: error })
      return this.#raise(subject, fault)
    }
  }

  async #refuse(subject: SpanSubject, refusal: Refusal): Promise<ToolResult> {
    if (refusal.fault !== null) this.#reportFault(subject, refusal.fault)
    return this.#answer(subject, failure(refusal), refusal.record)
  }

  /** A refusal is written before it is answered, so that what policy stopped is in the tree. */
  async #answer(subject: SpanSubject, result: ToolResult, decision: DecisionRecord | null): Promise<ToolResult> {
    const status = result.ok ? 'ok' : 'error'
    const ending = {
      claim: null,
      result,
      status,
      code: result.error?.code ?? null,
      decision,
      replayed: result.meta.replayedFrom !== undefined,
      attempt: null,
    } as const
    await this.#deps.ledger.close(subject, ending)
    return result
  }

  /** Closes the span and raises. A span that cannot be written must not hide what is raised. */
  async #raise(subject: SpanSubject, error: Error): Promise<never> {
    const ending = {
      claim: null,
      result: null,
      status: 'error',
      code: error.name,
      decision: null,
      replayed: false,
      attempt: null,
    } as const
    await this.#deps.ledger.close(subject, ending).catch((cause: unknown) => {
      this.#deps.logger.error('the span of a raised call could not be written', {
        tool: subject.toolName,
        error: cause,
      })
    })
    throw error
  }

  /** One report an invoker and cause, so that a fan-out does not bury every other defect; the log has every call. */
  #reportFault(subject: SpanSubject, cause: string): void {
    const context = { tool: subject.toolName, cause, runId: subject.invocation.runId }
    this.#deps.logger.error('a call could not be governed', context)
    const key = `${subject.toolName}:${cause}`
    if (this.#reported.has(key)) return
    this.#reported.add(key)
    this.#deps.reporter.report(new Error(`${subject.toolName}: ${cause}`), { tool: subject.toolName, cause })
  }
}
