import { judgeAnswer, type AnswerVerdict, type StaleReason } from '../decision/staleness.ts'
import type { ApprovalState } from '../decision/coverage.ts'
import type { Page } from '../runs/run-store.ts'
import type { Actor } from '../tools/invocation.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import { failure, emptySuccess } from '../tools/result.ts'
import type {
  AnswerWrite,
  Approval,
  ApprovalFilter,
  ApprovalStore,
  ClaimAnswer,
  Decided,
  LockedApproval,
} from './approval-store.ts'

/** Who answers, with the roles the organization gave them. */
export interface Decider {
  readonly actor: Actor
  readonly roles: readonly string[]
}

export interface ApprovalAnswer {
  readonly organizationId: string
  readonly approvalId: string
  /** Hex hash of the arguments the person looked at. */
  readonly argumentsHash: string
  readonly decider: Decider
  readonly note: string | null
  /** On a question about an outcome: it arrived, or send it again. Approving such a question without one is refused. */
  readonly outcome?: 'arrived' | 'send_again'
  /** With a rejection: the run is to stop as well. */
  readonly stopRun?: boolean
}

export type AnswerOutcome =
  | { readonly kind: 'answered'; readonly approval: Approval }
  | { readonly kind: 'not_found' }
  | {
      readonly kind: 'already_decided'
      readonly state: ApprovalState
      readonly by: Actor | null
      readonly at: Date | null
    }
  | { readonly kind: 'expired'; readonly at: Date }
  | { readonly kind: 'stale'; readonly reason: StaleReason }
  | { readonly kind: 'hash_mismatch'; readonly argumentsHash: string }
  | { readonly kind: 'not_allowed'; readonly reason: 'own_run' | 'not_an_approver' }
  | { readonly kind: 'outcome_required' }

export interface ApprovalsService {
  list(organizationId: string, filter?: Partial<ApprovalFilter>): Promise<Page<Approval>>
  get(organizationId: string, id: string): Promise<Approval | null>
  approve(answer: ApprovalAnswer): Promise<AnswerOutcome>
  reject(answer: ApprovalAnswer): Promise<AnswerOutcome>
  /** Closes what nobody answered in time and wakes the runs. Returns how many. */
  expireDue(): Promise<number>
}

interface ServicePorts {
  readonly store: ApprovalStore
  readonly registry: ToolRegistry
  /** Tells the engine to look at a run again. The row already says so; this only saves the wait for the next sweep. */
  readonly wake: (runId: string) => Promise<void>
}

const PAGE = 50
const MAX_NOTE = 2_000

/** What a model reads about a call nobody knows the outcome of and nobody wants sent again. */
const LEFT_UNKNOWN = failure({
  code: 'timeout',
  message: 'nobody knows whether this call took effect; a person decided not to repeat it',
  stop: null,
})

export function approvalsService(ports: ServicePorts): ApprovalsService {
  return {
    list: (organizationId, filter = {}) => ports.store.list(organizationId, { limit: PAGE, cursor: null, ...filter }),
    get: (organizationId, id) => ports.store.get(organizationId, id),
    approve: (answer) => decide(ports, answer, 'approved'),
    reject: (answer) => decide(ports, answer, 'rejected'),
    async expireDue() {
      const runs = await ports.store.expireDue(PAGE, { kind: 'complete', result: LEFT_UNKNOWN })
      for (const runId of new Set(runs)) await ports.wake(runId)
      return runs.length
    },
  }
}

async function decide(
  ports: ServicePorts,
  answer: ApprovalAnswer,
  wanted: 'approved' | 'rejected',
): Promise<AnswerOutcome> {
  const judged = await ports.store.answer(answer.organizationId, answer.approvalId, (locked): AnswerWrite<Judged> => {
    const verdict = judge(ports, locked, { answer, wanted })
    return { write: writeOf(verdict, locked, { answer, wanted }), value: { verdict, locked } }
  })
  if (judged === null) return { kind: 'not_found' }
  const { verdict, locked } = judged
  if (['ok', 'expired', 'stale'].includes(verdict.kind)) await ports.wake(locked.approval.runId)
  switch (verdict.kind) {
    case 'ok': {
      const approval = await ports.store.get(answer.organizationId, answer.approvalId)
      return approval === null ? { kind: 'not_found' } : { kind: 'answered', approval }
    }
    case 'decided':
      return {
        kind: 'already_decided',
        state: verdict.state,
        by: locked.approval.decidedBy,
        at: locked.approval.decidedAt,
      }
    case 'expired':
      return { kind: 'expired', at: locked.approval.expiresAt }
    case 'hash_mismatch':
      return { kind: 'hash_mismatch', argumentsHash: locked.approval.argumentsHash }
    case 'stale':
      return { kind: 'stale', reason: verdict.reason }
    case 'not_allowed':
      return { kind: 'not_allowed', reason: verdict.reason }
    case 'outcome_required':
      return verdict
  }
}

interface Judged {
  readonly verdict: AnswerVerdict | { readonly kind: 'outcome_required' }
  readonly locked: LockedApproval
}

interface Wanted {
  readonly answer: ApprovalAnswer
  readonly wanted: 'approved' | 'rejected'
}

/**
 * A question about an outcome has two yeses, so an approval that does not say which is no answer. That the call arrived
 * is judged as a rejection is, since nothing is called after it: checked for a live target it would go stale and be asked
 * again without end, because the journal comes before the grant that is gone.
 */
function judge(ports: ServicePorts, locked: LockedApproval, { answer, wanted }: Wanted): Judged['verdict'] {
  const outcome = locked.approval.kind === 'outcome'
  const arrived = outcome && answer.outcome === 'arrived'
  const verdict = judgeAnswer(locked.subject, contextOf(ports, locked, answer), arrived ? 'rejected' : wanted)
  const unsaid = outcome && wanted === 'approved' && answer.outcome === undefined
  return verdict.kind === 'ok' && unsaid ? { kind: 'outcome_required' } : verdict
}

function contextOf(ports: ServicePorts, locked: LockedApproval, answer: ApprovalAnswer) {
  return {
    ...locked.context,
    argumentsHash: answer.argumentsHash,
    liveToolVersion: ports.registry.get(locked.approval.tool)?.version ?? null,
    deciderId: answer.decider.actor.id,
    deciderRoles: answer.decider.roles,
  }
}

/** Which row the verdict leaves: an answer, or a closing that explains why there was none. Nothing for a call that changes nothing. */
function writeOf(verdict: Judged['verdict'], locked: LockedApproval, { answer, wanted }: Wanted): Decided | null {
  const outcome = locked.approval.kind === 'outcome'
  switch (verdict.kind) {
    case 'ok':
      return {
        state: wanted,
        by: answer.decider.actor,
        note: answer.note?.slice(0, MAX_NOTE) ?? null,
        claim: outcome ? claimAnswer(wanted, answer) : null,
        ...stopOf(wanted, answer),
      }
    case 'expired':
      return {
        state: 'expired',
        by: null,
        note: null,
        claim: outcome ? { kind: 'complete', result: LEFT_UNKNOWN } : null,
      }
    case 'stale':
      return { state: 'stale', by: answer.decider.actor, note: verdict.reason, claim: null }
    case 'decided':
    case 'hash_mismatch':
    case 'not_allowed':
    case 'outcome_required':
      return null
  }
}

function stopOf(wanted: 'approved' | 'rejected', answer: ApprovalAnswer): Pick<Decided, 'stopRun'> {
  if (wanted === 'approved' || answer.stopRun !== true) return {}
  return {
    stopRun: { reason: answer.note?.slice(0, MAX_NOTE) ?? 'stopped with a rejection', by: answer.decider.actor },
  }
}

function claimAnswer(wanted: 'approved' | 'rejected', answer: ApprovalAnswer): ClaimAnswer {
  if (wanted === 'rejected') return { kind: 'complete', result: LEFT_UNKNOWN }
  return answer.outcome === 'send_again' ? { kind: 'reclaim' } : { kind: 'complete', result: emptySuccess() }
}
