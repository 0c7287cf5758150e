import type { ClaimEnding } from '../decision/claim-ending.ts'
import type { ApprovalState } from '../decision/coverage.ts'
import type { JournalRow } from '../decision/journal.ts'
import type { LimitCount, LimitGround } from '../decision/limits.ts'
import type { Stage2Outcome } from '../decision/stage-two.ts'
import type { JsonObject, JsonValue } from './json.ts'
import type { Credential, ToolInvocation, UsageRecord } from './invocation.ts'
import type { ToolResult, ToolSpec } from './models.ts'

/** What the runtime hands along with one proposal. */
export interface InvokeOptions {
  /** Approvals filed for the pause this segment resumes. One that names another proposal is ignored. */
  readonly authorizedBy?: readonly string[]
  /**
   * Groups the approvals filed for one pause, so that the segment after it finds them. Given by a caller that holds the
   * call at a pause; a read inside a framework's loop has none, and cannot wait for a person.
   */
  readonly pauseId?: string
}

/** A call the model asked for, as it asked for it. */
export interface ProposedCall {
  /** Platform name. */
  readonly toolName: string
  readonly args: unknown
}

/** The only code that runs a handler. */
export interface ToolInvoker {
  /**
   * @throws ApprovalRequired a person has to answer first
   * @throws ReadHeld a rule wants a person for a read, and a read has no pause to carry the answer
   * @throws ClaimInFlight another worker holds a live lease on this very call
   * @throws CancelRequested the run was told to stop
   * @throws Error a platform fault; the segment ends and the engine decides about a retry
   */
  invoke(proposed: ProposedCall, invocation: ToolInvocation, options?: InvokeOptions): Promise<ToolResult>
  /**
   * Walks the same path to the decision and files the question if a person is needed; claims and executes nothing.
   * Used for the proposals behind the first hold of a turn, so that a person sees the whole turn at once. Answers the
   * question the call waits for, or null when it waits for nobody.
   */
  foresee(proposed: ProposedCall, invocation: ToolInvocation, options?: InvokeOptions): Promise<ApprovalRequired | null>
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

export class ReadHeld extends Error {
  override readonly name = 'ReadHeld'
  constructor(tool: string) {
    super(`a rule requires approval for the read ${tool}, and a read cannot wait for a person`)
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

/** A call from the moment its span opens: a refusal may come before there are admitted arguments. */
export interface SpanSubject {
  readonly invocation: ToolInvocation
  /** Null outside a run scope. */
  readonly rootRunId: string | null
  /** As proposed; a platform name once the call is admitted. */
  readonly toolName: string
  readonly span: ToolSpan
}

/** One call on its way: contract and the arguments that are hashed, shown, stored and executed. */
export interface AdmittedCall extends SpanSubject {
  readonly spec: ToolSpec
  readonly args: JsonObject
  /** Hex sha-256 over the RFC 8785 form of `args`. */
  readonly argsHash: string
  /** `<run>:<step>:<args hash>`; derived once, used by open, file and claim. A read files under it and never claims it. */
  readonly key: string
}

/** The tool span of one call. */
export interface ToolSpan {
  readonly id: string
  readonly parentId: string | null
  readonly startedAt: Date
  /** Redacted arguments. */
  readonly input: JsonValue
}

/** Which of the conditional facts `open` has to read. */
export interface Needs {
  readonly spend: boolean
  readonly authorizedBy: readonly string[]
}

/** Everything one decision is made on, read in one statement. */
export interface CallState {
  /** Database clock. */
  readonly now: Date
  readonly journal: JournalRow | null
  /** The stored answer of a completed claim. */
  readonly response: StoredResponse | null
  readonly toolEnabled: boolean
  readonly granted: boolean
  readonly rulesVersion: number
  readonly cancelled: { readonly reason: string | null } | null
  readonly approval: ApprovalRow | null
  /** Cost of the run tree in cents; null unless it was asked for. */
  readonly spentCents: number | null
  /** Tools that brought untrusted content into the run tree before this call, in the order of their names. */
  readonly taintSources: readonly string[]
  /** What rules with a limit have counted in the periods this call falls into. */
  readonly limits: LimitGround
}

/** The handed approval that names this call, if any does. */
export interface ApprovalRow {
  readonly id: string
  readonly organizationId: string
  readonly runId: string
  readonly action: string
  readonly argumentsHash: string
  readonly state: ApprovalState
  readonly note: string | null
  readonly expiresAt: Date
  /** The account the call was to act with when the person was asked. */
  readonly connectionId: string | null
}

/** `action`: may this call run? `outcome`: it may have run and no answer came; did it arrive, or send again? */
export type ApprovalKind = 'action' | 'outcome'

/** A question for a person. */
export interface Hold {
  readonly approvalId: string
  readonly kind: ApprovalKind
  readonly preview: string | null
  readonly decision: DecisionRecord
  readonly ttlS: number
  readonly pauseId: string | null
  /** The account the call would act with; null when it needs none, or none can be used. */
  readonly connectionId: string | null
}

export type FileOutcome =
  | { readonly kind: 'filed'; readonly approvalId: string; readonly expiresAt: Date }
  /** The key already has a pending row: for this very call, or for another tool with the same arguments. */
  | { readonly kind: 'pending'; readonly approvalId: string; readonly expiresAt: Date; readonly sameCall: boolean }
  | { readonly kind: 'rejected'; readonly note: string | null }

/** What the decision was made on; the claim answers `moved` when any of it is no longer true. */
export interface Expected {
  readonly rulesVersion: number
  /** Seconds a claim of this call is believed. */
  readonly leaseS: number
}

export type ClaimOutcome =
  | { readonly kind: 'claimed'; readonly attempt: number }
  | { readonly kind: 'completed'; readonly response: StoredResponse }
  | { readonly kind: 'processing'; readonly leaseUntil: Date }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'unknown'; readonly journal: JournalRow }
  | { readonly kind: 'moved' }

/** A completed claim's answer: read back by every later identical call of the run. */
export interface StoredResponse {
  readonly result: ToolResult
  readonly completedAt: Date
}

/** How one call ended, for the span, the decision row and the claim. */
export interface CallEnding {
  /** What happens to the claim; null when this call took none. */
  readonly claim: ClaimEnding | null
  /** Null when the call raised: the model reads nothing. */
  readonly result: ToolResult | null
  readonly status: 'ok' | 'error'
  /** Stable code, or the class name of what was raised. */
  readonly code: string | null
  /** Not yet written: a claim writes its decision with itself. */
  readonly decision: DecisionRecord | null
  readonly replayed: boolean
  readonly attempt: number | null
}

export interface DecisionRecord {
  readonly stage: 1 | 2
  readonly outcome: 'allow' | 'deny' | 'require_approval' | 'fault'
  /** What stage 2 said; null when stage 1 refused. */
  readonly policy: Stage2Outcome | null
  readonly message: string | null
  /** The approval that answered a `require_approval`. */
  readonly approvalId: string | null
}

/** `stale`: a newer attempt owns the claim, so this attempt's answer reached nobody and must not be used. */
export type CloseOutcome = 'owned' | 'stale'

/** All I/O of a call's decision, implemented once in `storage/`. Each verb is one statement on the common path. */
export interface CallLedger {
  open(call: AdmittedCall, needs: Needs): Promise<CallState>
  file(call: AdmittedCall, hold: Hold): Promise<FileOutcome>
  /** Takes the key and counts what the decision says, together or not at all; `moved` when a limit has no room left. */
  claim(call: AdmittedCall, decision: DecisionRecord, expected: Expected): Promise<ClaimOutcome>
  /** For a read, which takes no claim: counts it before it runs, in all of the counters or in none. */
  count(call: AdmittedCall, counts: readonly LimitCount[]): Promise<'counted' | 'moved'>
  /** An untrusted result taints the run tree before this resolves. */
  close(call: SpanSubject | AdmittedCall, ending: CallEnding): Promise<CloseOutcome>
  /** The one narrow read that decides between a bad call and a contract that moved under it. */
  toolEnabled(organizationId: string, tool: string): Promise<boolean>
  /** Writes what successful reads left in the batch. Awaited at every segment end; rejects if any write failed. */
  flush(): Promise<void>
}

/** Loads the organization's rules and resolves the facts a matching rule mentions, once per decision. */
export interface PolicyEngine {
  gather(call: AdmittedCall, ground: PolicyInput): Promise<PolicyReading>
  /** The ones of these contracts that a person may have to be asked about, by the rules as they stand now. */
  mayAsk(organizationId: string, contracts: readonly ToolSpec[]): Promise<ReadonlySet<string>>
}

/** What stage 2 needs of a call's state. */
export type PolicyInput = Pick<CallState, 'rulesVersion' | 'taintSources' | 'limits'>

/** Everything stage 2 is decided on. */
export interface PolicyReading {
  readonly outcome: Stage2Outcome
  readonly approvalTtlS: number
  /** The version the rules were actually read at; the claim is made on this one. */
  readonly rulesVersion: number
}

/** Resolves the account a tool acts with. Implementations check organization and provider on every call. */
export interface ConnectionResolver {
  /** @throws ConnectionError with a stable `connection_*` code */
  resolve(request: ConnectionRequest): Promise<Credential>
  /**
   * The id of the account `resolve` would take. Reads no secret.
   * @throws ConnectionError as `resolve` does
   */
  choose(request: ConnectionRequest): Promise<string>
  /** The provider refused the account's credential: it needs a person before it can be used again. */
  refused(account: RefusedAccount): Promise<void>
}

export interface RefusedAccount {
  readonly organizationId: string
  readonly connectionId: string
  /** For whoever reconnects it; holds nothing secret. */
  readonly reason: string
}

export interface ConnectionRequest {
  readonly organizationId: string
  readonly provider: string
  /** The public `connection_id` argument, when the tool declares one and the model chose. */
  readonly connectionId: string | null
}

/** Writes usage rows. */
export interface UsageWriter {
  write(row: UsageRow): Promise<void>
}

export interface UsageRow {
  readonly id: string
  readonly organizationId: string
  readonly rootRunId: string
  readonly runId: string
  readonly spanId: string
  readonly usage: UsageRecord
}

/** Span identity is ambient; the invoker opens each tool span as a child of whatever is current. */
export interface AmbientSpans {
  current(): Omit<AmbientSpan, 'organizationId'> | null
  enter<T>(span: AmbientSpan, work: () => Promise<T>): Promise<T>
}

export interface AmbientSpan {
  readonly organizationId: string
  readonly runId: string
  readonly rootRunId: string
  readonly spanId: string
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
