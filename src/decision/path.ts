import type { ErrorCode } from '../tools/errors.ts'
import type {
  AdmittedCall,
  ApprovalKind,
  ApprovalRow,
  CallState,
  ClaimOutcome,
  DecisionRecord,
  PolicyReading,
  StoredResponse,
} from '../tools/invoker.ts'
import type { ToolStop } from '../tools/models.ts'
import type { AccrualVerdict } from './accrual.ts'
import { checkContract, type LiveTool } from './admit.ts'
import { readApproval } from './coverage.ts'
import { readJournal, takeoverOf } from './journal.ts'
import { checkAuthority } from './stage-one.ts'
import type { Stage2Outcome } from './stage-two.ts'

/** What a decision says to do. Everything but `run` ends the call. */
export type Verdict =
  | {
      readonly kind: 'run'
      readonly record: DecisionRecord
      readonly rulesVersion: number
      /** The account the approval was asked for; null when nobody was asked, or no account was named. */
      readonly connectionId: string | null
    }
  | Refusal
  | { readonly kind: 'replay'; readonly response: StoredResponse }
  | {
      readonly kind: 'ask'
      readonly approval: ApprovalKind
      readonly record: DecisionRecord
      readonly ttlS: number
      readonly claimedAt: Date | null
    }
  | { readonly kind: 'pending'; readonly approvalId: string; readonly expiresAt: Date }
  | { readonly kind: 'in_flight'; readonly leaseUntil: Date }
  | { readonly kind: 'cancelled'; readonly reason: string | null }

/** A verdict that ends the call without running it. */
export type Ended = Exclude<Verdict, { kind: 'run' }>

export interface Refusal {
  readonly kind: 'refuse'
  readonly code: ErrorCode
  readonly message: string
  readonly stop: ToolStop | null
  readonly record: DecisionRecord | null
  /** Static cause of a fault of the deploy or of the call site; reported once. */
  readonly fault: string | null
}

/** Default seconds a person has to say whether a call arrived. */
const OUTCOME_TTL_S = 7 * 24 * 3600

/**
 * Contract, journal, approval: what answers a call before policy is asked. `completed` is answered before anything
 * later is looked at: a decision about an effect that already happened is not a decision.
 */
export function answerBeforePolicy(
  call: AdmittedCall,
  state: CallState,
  live: LiveTool | undefined,
): Ended | { readonly kind: 'proceed'; readonly approved: ApprovalRow | null } {
  if (state.cancelled !== null) return { kind: 'cancelled', reason: state.cancelled.reason }
  const moved = checkContract(call.spec, live, state.toolEnabled)
  if (moved !== null) return refuse(moved, contractMessage(moved))
  const replay = answerFromJournal(call, state)
  if (replay !== null) return replay
  const subject = coverageSubject(call)
  switch (readApproval(state.approval, subject)) {
    case 'none':
      return { kind: 'proceed', approved: null }
    case 'approved':
      return { kind: 'proceed', approved: state.approval }
    case 'refused':
      return refusedByPerson(state.approval)
    case 'pending':
      return state.approval === null
        ? { kind: 'proceed', approved: null }
        : { kind: 'pending', approvalId: state.approval.id, expiresAt: state.approval.expiresAt }
  }
}

function answerFromJournal(call: AdmittedCall, state: CallState): Ended | null {
  if (call.spec.sideEffects === 'read') return null
  const reading = readJournal(state.journal, {
    argsHash: call.argsHash,
    now: state.now,
    takeoverS: takeoverOf(call.spec),
  })
  switch (reading) {
    case 'absent':
      return null
    case 'completed':
      return state.response === null ? unreadableJournal() : { kind: 'replay', response: state.response }
    case 'processing':
      return { kind: 'in_flight', leaseUntil: state.journal?.leaseUntil ?? state.now }
    case 'conflict':
      return refuse('conflict', 'this call was already made with other arguments under the same key')
    case 'unknown':
      return askOutcome(state.journal?.claimedAt ?? state.now)
  }
}

export interface PolicyGround {
  readonly state: CallState
  readonly policy: PolicyReading
  /** The approval that covers this call. */
  readonly approved: ApprovalRow | null
  /** Null when the deploy wired no meter. */
  readonly accrual: ((spentCents: number | null, maxCostCents: number | null) => AccrualVerdict) | null
}

/**
 * Stage 1, stage 2, accrual. An approval answers the `require_approval` a person already decided and nothing else: a
 * grant withdrawn or a rule added while they deliberated still refuses.
 */
export function decideByPolicy(call: AdmittedCall, ground: PolicyGround): Verdict {
  const { outcome } = ground.policy
  if (outcome.effect === 'fault') {
    const record = recordOf(outcome, ground, 'fault')
    return {
      kind: 'refuse',
      code: 'internal_error',
      message: 'policy could not be evaluated',
      stop: 'fault',
      record,
      fault: `policy:${outcome.ruleName ?? 'facts'}`,
    }
  }
  const authority = checkAuthority(call.spec.name, call.invocation.principal.scopes, ground.state.granted)
  if (authority !== 'held') {
    return refuse('denied', 'this agent holds no right to call this tool', {
      stage: 1,
      outcome: 'deny',
      policy: null,
      message: authority,
      approvalId: null,
    })
  }
  if (outcome.effect === 'deny') return refuse('denied', denial(outcome), recordOf(outcome, ground, 'deny'))
  if (outcome.effect === 'require_approval' && ground.approved === null) {
    const ttlS = outcome.ttlS ?? ground.policy.approvalTtlS
    return {
      kind: 'ask',
      approval: 'action',
      record: recordOf(outcome, ground, 'require_approval'),
      ttlS,
      claimedAt: null,
    }
  }
  const record = recordOf(outcome, ground, 'allow')
  const connectionId = ground.approved?.connectionId ?? null
  return (
    checkBudget(call, ground, record) ?? { kind: 'run', record, rulesVersion: ground.policy.rulesVersion, connectionId }
  )
}

/** Only a metered call pays for the read; wiring faults are `internal_error`, never the money code, which would send an operator to the wrong place. */
function checkBudget(call: AdmittedCall, ground: PolicyGround, record: DecisionRecord): Refusal | null {
  if (!call.spec.metered) return null
  if (ground.accrual === null) return meterFault('no accrual checker is wired', record)
  if (call.rootRunId === null) return meterFault('the call ran outside a run scope', record)
  switch (ground.accrual(ground.state.spentCents, call.invocation.ceilings.maxCostCents)) {
    case 'allow':
      return null
    case 'deny':
      return {
        kind: 'refuse',
        code: 'budget_exhausted',
        message: 'the cost ceiling of this run is reached',
        stop: 'budget_exhausted',
        record,
        fault: null,
      }
    case 'fault':
      return meterFault('the meter did not answer', record)
  }
}

/** What a lost claim says. `moved` and a claim that became unknown are decided again from the start. */
export function answerFromClaim(claim: Exclude<ClaimOutcome, { kind: 'claimed' }>): Ended | null {
  switch (claim.kind) {
    case 'completed':
      return { kind: 'replay', response: claim.response }
    case 'processing':
      return { kind: 'in_flight', leaseUntil: claim.leaseUntil }
    case 'conflict':
      return refuse('conflict', 'this call was already made with other arguments under the same key')
    case 'unknown':
    case 'moved':
      return null
  }
}

/** A call that failed schema or batch size on the frozen contract: did the contract move under it, or is the call bad? */
export function refuseBadCall(
  call: { readonly code: 'invalid_input' | 'batch_too_large'; readonly message: string },
  moved: ReturnType<typeof checkContract>,
): Refusal {
  return moved === null ? refuse(call.code, call.message) : refuse(moved, contractMessage(moved))
}

export function unknownTool(): Refusal {
  return refuse('tool_unavailable', contractMessage('tool_unavailable'))
}

/** A person's refusal, or nobody's answer in time, in words the model can act on. */
export function refusedByPerson(approval: { readonly state: string; readonly note: string | null } | null): Refusal {
  if (approval?.state === 'expired')
    return refuse('rejected', 'nobody answered the approval in time; the call was not made')
  const note = approval?.note?.trim() ?? ''
  return refuse(
    'rejected',
    note === '' ? 'a person rejected this call' : `a person rejected this call: ${note.slice(0, 500)}`,
  )
}

export function coverageSubject(call: AdmittedCall) {
  return {
    organizationId: call.invocation.organizationId,
    runId: call.invocation.runId,
    action: call.spec.name,
    argumentsHash: call.argsHash,
  }
}

function askOutcome(claimedAt: Date): Ended {
  const record: DecisionRecord = {
    stage: 2,
    outcome: 'require_approval',
    policy: null,
    message: 'outcome_unknown',
    approvalId: null,
  }
  return { kind: 'ask', approval: 'outcome', record, ttlS: OUTCOME_TTL_S, claimedAt }
}

function recordOf(policy: Stage2Outcome, ground: PolicyGround, outcome: DecisionRecord['outcome']): DecisionRecord {
  return {
    stage: 2,
    outcome,
    policy,
    message: null,
    approvalId: outcome === 'allow' ? (ground.approved?.id ?? null) : null,
  }
}

/** Says that a limit is reached, so that a model does not take it for a mistake it could mend; never which rule. */
function denial({ message }: Stage2Outcome): string {
  const refused = 'a rule of the organization refuses this call'
  return message === null ? refused : `${refused}: ${message}`
}

function contractMessage(code: 'tool_unavailable' | 'tool_changed'): string {
  return code === 'tool_changed'
    ? 'the contract of this tool changed since the run started; do not call it again in this run'
    : 'this tool is not available'
}

function unreadableJournal(): Refusal {
  return {
    kind: 'refuse',
    code: 'internal_error',
    message: 'the recorded answer of this call cannot be read',
    stop: 'fault',
    record: null,
    fault: 'journal:response_missing',
  }
}

function meterFault(cause: string, record: DecisionRecord): Refusal {
  return {
    kind: 'refuse',
    code: 'internal_error',
    message: 'this metered call cannot be counted',
    stop: 'fault',
    record,
    fault: `meter:${cause}`,
  }
}

function refuse(code: ErrorCode, message: string, record: DecisionRecord | null = null): Refusal {
  return { kind: 'refuse', code, message, stop: null, record, fault: null }
}
