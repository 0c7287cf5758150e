import type { AnswerContext, AnswerSubject } from '../decision/staleness.ts'
import type { ApprovalState } from '../decision/coverage.ts'
import type { Page } from '../runs/run-store.ts'
import type { Actor, Principal } from '../tools/invocation.ts'
import type { ApprovalKind } from '../tools/invoker.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { ToolResult } from '../tools/models.ts'

/** An approval as a person sees it. */
export interface Approval {
  readonly id: string
  readonly organizationId: string
  readonly runId: string
  readonly spanId: string
  readonly kind: ApprovalKind
  readonly state: ApprovalState
  readonly tool: string
  readonly toolVersion: number
  readonly arguments: JsonObject
  readonly argumentsHash: string
  readonly connectionId: string | null
  readonly preview: string | null
  /** The rule that held the call; null when the organization's default did. */
  readonly rule: string | null
  readonly facts: Readonly<Record<string, JsonValue>>
  readonly approvers: readonly string[]
  readonly principal: Principal
  readonly requestedAt: Date
  readonly expiresAt: Date
  readonly decidedAt: Date | null
  readonly decidedBy: Actor | null
  readonly note: string | null
}

export interface ApprovalFilter {
  readonly state?: ApprovalState
  readonly runId?: string
  /** Any of these runs. */
  readonly runIds?: readonly string[]
  readonly limit: number
  readonly cursor: string | null
}

/** The row under lock, with everything the answer is judged on. */
export interface LockedApproval {
  readonly approval: Approval
  readonly subject: AnswerSubject
  readonly context: Pick<
    AnswerContext,
    'now' | 'toolEnabled' | 'granted' | 'connectionUsable' | 'runOpen' | 'selfApproval'
  >
}

export interface Decided {
  readonly state: Exclude<ApprovalState, 'pending'>
  readonly by: Actor | null
  readonly note: string | null
  /** What becomes of a claim nobody knew the outcome of. */
  readonly claim: ClaimAnswer | null
  /** Asks the run to stop, in the same transaction: no step of it fits between the two. */
  readonly stopRun?: { readonly reason: string | null; readonly by: Actor }
}

/** `complete` records the given answer; `reclaim` lets the next attempt run with the same downstream key. */
export type ClaimAnswer = { readonly kind: 'complete'; readonly result: ToolResult } | { readonly kind: 'reclaim' }

export interface ApprovalStore {
  get(organizationId: string, id: string): Promise<Approval | null>
  list(organizationId: string, filter: ApprovalFilter): Promise<Page<Approval>>
  /**
   * Locks one approval, lets `decide` judge it, and writes what it answers together with the wake-up of the run. Two
   * answers in the same instant are ordered by the lock: the second one finds the first.
   */
  answer<T>(organizationId: string, id: string, decide: (locked: LockedApproval) => AnswerWrite<T>): Promise<T | null>
  /** Closes pending approvals past their time; answers the runs to wake. */
  expireDue(limit: number, claimAnswer: ClaimAnswer): Promise<readonly string[]>
}

export interface AnswerWrite<T> {
  readonly write: Decided | null
  readonly value: T
}
