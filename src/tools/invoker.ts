import type { AccrualVerdict } from '../decision/accrual.ts'
import type { ClaimEnding } from '../decision/claim-ending.ts'
import type { ApprovalState } from '../decision/coverage.ts'
import type { JournalRow } from '../decision/journal.ts'
import type { Stage2Outcome } from '../decision/stage-two.ts'
import type { JsonObject, JsonValue } from './json.ts'
import type { Actor, Credential, ToolInvocation } from './invocation.ts'
import type { ToolResult, ToolSpec } from './models.ts'

/** What the runtime hands along with one proposal. */
export interface InvokeOptions {
  /** Approvals answered for the pause this segment resumes. One that names another proposal is ignored. */
  readonly authorizedBy?: readonly string[]
  /** Groups the approvals filed for one pause, so that the segment after it finds them. */
  readonly pauseId?: string
  /** `decide` walks the path to the decision and files what needs a person; nothing is claimed or executed. */
  readonly mode?: 'execute' | 'decide'
}

/** The only code that runs a handler. */
export interface ToolInvoker {
  /**
   * @throws ApprovalRequired a person has to answer first
   * @throws ClaimInFlight another worker holds a live lease on this very call
   * @throws CancelRequested the run was told to stop
   * @throws Error a platform fault; the segment ends and the engine decides about a retry
   */
  invoke(toolName: string, args: unknown, invocation: ToolInvocation, options?: InvokeOptions): Promise<ToolResult>
}

export class ApprovalRequired extends Error {
  override readonly name = 'ApprovalRequired'
  readonly approvalId: string
  readonly expiresAt: Date
  constructor(approvalId: string, expiresAt: Date) {
    super(`approval ${approvalId} is pending`)
    this.approvalId = approvalId
    this.expiresAt = expiresAt
  }
}

export class ClaimInFlight extends Error {
  override readonly name = 'ClaimInFlight'
  /** When the other worker's lease runs out; the engine wakes the run then, without spending one of its retries. */
  readonly leaseUntil: Date
  constructor(tool: string, leaseUntil: Date) {
    super(`another worker is executing ${tool} until ${leaseUntil.toISOString()} at the latest`)
    this.leaseUntil = leaseUntil
  }
}

export class CancelRequested extends Error {
  override readonly name = 'CancelRequested'
  readonly reason: string | null
  constructor(reason: string | null) {
    super('the run was told to stop')
    this.reason = reason
  }
}

/** One call on its way: identity, contract and the arguments that are hashed, shown, stored and executed. */
export interface AdmittedCall {
  readonly invocation: ToolInvocation
  readonly rootRunId: string | null
  readonly spec: ToolSpec
  readonly args: JsonObject
  /** Hex sha-256 over the RFC 8785 form of `args`. */
  readonly argsHash: string
  /** `<run>:<step>:<args hash>`; derived once, used by read, file and claim. Null for a read that takes no claim. */
  readonly key: string | null
  readonly span: ToolSpan
}

/** The tool span of one call, written once when it closes. */
export interface ToolSpan {
  readonly id: string
  readonly parentId: string | null
  readonly startedAt: Date
  /** Redacted arguments. */
  readonly input: JsonValue
}

/** Which of the conditional facts `open` has to read. */
export interface Needs {
  readonly journal: boolean
  readonly spend: boolean
  readonly authorizedBy: readonly string[]
}

/** Everything one decision is made on, read in one statement. */
export interface CallState {
  /** Database clock. */
  readonly now: Date
  readonly journal: JournalRow | null
  readonly toolEnabled: boolean
  readonly granted: boolean
  readonly rulesVersion: number
  readonly cancelled: { readonly reason: string | null } | null
  readonly approval: ApprovalRow | null
  /** Cost of the run tree in cents; null unless it was asked for. */
  readonly spentCents: number | null
}

export interface ApprovalRow {
  readonly id: string
  readonly organizationId: string
  readonly runId: string
  readonly action: string
  readonly argumentsHash: string
  readonly state: ApprovalState
  readonly kind: ApprovalKind
  readonly decidedBy: Actor | null
  readonly note: string | null
  readonly expiresAt: Date
}

/** `action`: may this call run? `outcome`: it may have run and no answer came; did it arrive, or send again? */
export type ApprovalKind = 'action' | 'outcome'

/** A question for a person. */
export interface Hold {
  readonly approvalId: string
  readonly kind: ApprovalKind
  readonly preview: string | null
  readonly policy: Stage2Outcome | null
  readonly ttlS: number
  readonly pauseId: string | null
}

export type FileOutcome =
  | { readonly kind: 'filed'; readonly approvalId: string; readonly expiresAt: Date }
  /** The key already has a pending row: for this very call, or for another tool with the same arguments. */
  | { readonly kind: 'pending'; readonly approvalId: string; readonly expiresAt: Date; readonly sameCall: boolean }
  | { readonly kind: 'rejected'; readonly note: string | null }

/** What the decision was made on; the claim answers `moved` when any of it is no longer true. */
export interface Expected {
  readonly rulesVersion: number
  readonly leaseS: number
  /** Set when a person said *send again*: a claim that nobody knows the outcome of may be taken over. */
  readonly reclaimUnknown: boolean
}

export type ClaimOutcome =
  | { readonly kind: 'claimed'; readonly attempt: number }
  | { readonly kind: 'completed'; readonly response: StoredResponse }
  | { readonly kind: 'processing'; readonly leaseUntil: Date }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'moved' }

/** A completed claim's answer: read back by every later identical call of the run. */
export interface StoredResponse {
  readonly result: ToolResult
  readonly completedAt: Date
}

/** How one call ended, for the span, the decision row and the claim. */
export interface CallEnding {
  /** What happens to the claim; null when none was taken. */
  readonly claim: ClaimEnding | null
  /** Null when the call raised: the model reads nothing. */
  readonly result: ToolResult | null
  readonly status: 'ok' | 'error'
  /** Stable code, or `raised` with a class name that is safe to show. */
  readonly code: string | null
  readonly decision: DecisionRecord | null
  readonly replayed: boolean
  readonly attempt: number | null
  readonly usageId: string | null
}

export interface DecisionRecord {
  readonly stage: 1 | 2
  readonly outcome: 'allow' | 'deny' | 'require_approval' | 'fault'
  readonly policy: Stage2Outcome | null
  readonly approvalId: string | null
}

/** `stale`: a newer attempt owns the claim, so this attempt's answer reached nobody and must not be used. */
export type CloseOutcome = 'owned' | 'stale'

/** All I/O of a call's decision, implemented once in `storage/`. Each verb is one statement on the common path. */
export interface CallLedger {
  open(call: AdmittedCall, needs: Needs): Promise<CallState>
  file(call: AdmittedCall, hold: Hold): Promise<FileOutcome>
  claim(call: AdmittedCall, expected: Expected): Promise<ClaimOutcome>
  close(call: SpanSubject, ending: CallEnding): Promise<CloseOutcome>
  /** The one narrow read that decides between a bad call and a contract that moved under it. */
  toolEnabled(organizationId: string, tool: string): Promise<boolean>
  /** Writes what reads left in the batch. Called at every segment end. */
  flush(): Promise<void>
}

/** Enough of a call to write its span: a refusal may come before there are admitted arguments. */
export interface SpanSubject {
  readonly invocation: ToolInvocation
  readonly rootRunId: string | null
  readonly toolName: string
  readonly toolVersion: number | null
  readonly key: string | null
  readonly argsHash: string | null
  readonly span: ToolSpan
}

/** Resolves the account a tool acts with. Implementations check organization and provider on every call. */
export interface ConnectionResolver {
  /** @throws ConnectionError with a stable `connection_*` code */
  resolve(request: ConnectionRequest): Promise<Credential>
}

export interface ConnectionRequest {
  readonly organizationId: string
  readonly provider: string
  /** The public `connection_id` argument, when the tool declares one and the model chose. */
  readonly connectionId: string | null
}

/** Answers whether the run tree may spend more. Absent in a deploy that meters nothing; a metered call then is a wiring fault. */
export interface AccrualChecker {
  check(spentCents: number, maxCostCents: number | null): AccrualVerdict
}

/** Where faults that need an operator go. */
export interface ErrorReporter {
  report(error: unknown, context: Readonly<Record<string, string>>): void
}

export interface Logger {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
}
