import type { ApprovalState } from './coverage.ts'

/** Everything the approvals service reads when a person answers. */
export interface AnswerSubject {
  readonly state: ApprovalState
  readonly argumentsHash: string
  readonly expiresAt: Date
  readonly toolVersion: number
  readonly connectionId: string | null
  readonly startedByActorId: string
  readonly approvers: readonly string[]
}

export interface AnswerContext {
  readonly now: Date
  readonly argumentsHash: string
  readonly liveToolVersion: number | null
  readonly toolEnabled: boolean
  readonly granted: boolean
  readonly connectionUsable: boolean
  readonly runOpen: boolean
  readonly deciderId: string
  readonly deciderRoles: readonly string[]
  readonly selfApproval: boolean
}

export type AnswerVerdict =
  | { readonly kind: 'ok' }
  | { readonly kind: 'decided'; readonly state: ApprovalState }
  | { readonly kind: 'expired' }
  | { readonly kind: 'hash_mismatch' }
  | { readonly kind: 'not_allowed'; readonly reason: 'own_run' | 'not_an_approver' }
  | { readonly kind: 'stale'; readonly reason: StaleReason }

export type StaleReason = 'tool_changed' | 'tool_unavailable' | 'grant_withdrawn' | 'connection_changed' | 'run_ended'

/**
 * May this person give this answer now? A rejection needs no live target: refusing something that moved is harmless,
 * so only an approval is checked for staleness.
 */
export function judgeAnswer(
  subject: AnswerSubject,
  context: AnswerContext,
  answer: 'approved' | 'rejected',
): AnswerVerdict {
  if (subject.state !== 'pending') return { kind: 'decided', state: subject.state }
  if (context.now >= subject.expiresAt) return { kind: 'expired' }
  if (context.deciderId === subject.startedByActorId && !context.selfApproval)
    return { kind: 'not_allowed', reason: 'own_run' }
  if (!mayDecide(subject.approvers, context)) return { kind: 'not_allowed', reason: 'not_an_approver' }
  if (context.argumentsHash !== subject.argumentsHash) return { kind: 'hash_mismatch' }
  if (!context.runOpen) return { kind: 'stale', reason: 'run_ended' }
  if (answer === 'rejected') return { kind: 'ok' }
  if (context.liveToolVersion === null || !context.toolEnabled) return { kind: 'stale', reason: 'tool_unavailable' }
  if (context.liveToolVersion !== subject.toolVersion) return { kind: 'stale', reason: 'tool_changed' }
  if (!context.granted) return { kind: 'stale', reason: 'grant_withdrawn' }
  if (!context.connectionUsable) return { kind: 'stale', reason: 'connection_changed' }
  return { kind: 'ok' }
}

function mayDecide(approvers: readonly string[], context: AnswerContext): boolean {
  return (
    approvers.length === 0 || approvers.some((who) => who === context.deciderId || context.deciderRoles.includes(who))
  )
}
