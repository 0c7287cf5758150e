import type { JsonValue } from '../tools/json.ts'
import type { ToolResult, ToolSpec } from '../tools/models.ts'

/** A write, a send or a pausable read the model asked for; the framework paused on it and holds nothing it could execute. */
export interface Proposal {
  /** The framework's id of the call: where the result goes. Never a key: providers reuse ids. */
  readonly callId: string
  /** Platform name, mapped back by the adapter. A name the segment does not know stays as the model wrote it. */
  readonly toolName: string
  /** As the model wrote them; validated by the invoker and by nobody before it. */
  readonly args: JsonValue
}

/** A proposal's answer on its way into the paused call's own empty slot. */
export interface CallResult {
  readonly proposal: Proposal
  readonly result: ToolResult
}

export type SessionInput =
  | { readonly kind: 'start'; readonly text: string }
  /** Goes on after a restart: the saved state ends where the model is to speak next. */
  | { readonly kind: 'continue' }
  /** One result for every open proposal, delivered together. */
  | { readonly kind: 'results'; readonly results: readonly CallResult[] }

/** Why a segment stopped before its loop was finished. The first writer wins; it belongs to one segment. */
export type SegmentStop =
  | { readonly kind: 'ceiling'; readonly reason: string }
  | { readonly kind: 'cancelled'; readonly reason: string | null }
  /** `error` is what the engine decides about a retry by; `code` alone ends the run for good. */
  | { readonly kind: 'failed'; readonly code: string; readonly message: string; readonly error: unknown }

export interface ModelUsage {
  readonly provider: string
  readonly model: string
  readonly inputTokens: number
  readonly outputTokens: number
}

export type SessionEvent =
  | { readonly type: 'turn-start' }
  | { readonly type: 'text-delta'; readonly text: string }
  /** One a model turn, after the reads of the turn have run; the consumer records spend and saves before it pulls on. */
  | { readonly type: 'turn-end'; readonly usage: ModelUsage; readonly text: string }
  /** Exactly one, last. */
  | { readonly type: 'end'; readonly end: SessionEnd }

export type SessionEnd =
  | { readonly kind: 'finished'; readonly text: string }
  | { readonly kind: 'paused'; readonly proposals: readonly Proposal[] }
  | { readonly kind: 'stopped'; readonly stop: SegmentStop }

/** One conversation of one run, driven segment by segment. */
export interface AgentSession {
  advance(input: SessionInput, signal: AbortSignal): AsyncIterable<SessionEvent>
  /** What is needed to go on in another process. */
  save(): SessionState
}

/** Versioned, with upcasters in the adapter: a newer build picks up an older run. */
export interface SessionState {
  readonly framework: string
  readonly version: number
  readonly state: JsonValue
}

/** The first stop a segment meets. One slot a segment, so that two segments of one process never read each other's. */
export interface StopSlot {
  readonly current: SegmentStop | null
  /** Keeps the first. */
  record(stop: SegmentStop): void
}

export interface SessionRequest {
  readonly instructions: string
  /** The frozen contracts, in the order the definition names them. */
  readonly contracts: readonly ToolSpec[]
  /** Reads that a person may have to be asked about: declared without an executor and proposed, as a write is. */
  readonly pausable: ReadonlySet<string>
  readonly model: string
  readonly saved: SessionState | null
  readonly stop: StopSlot
  /**
   * Runs one read inside the loop. Never throws: a fault is recorded in `stop` before it answers, and the adapter must
   * look at `stop` before it lets the framework go on.
   */
  callRead(toolName: string, args: JsonValue): Promise<ToolResult>
}

/** A framework adapter. Holds no rules: it declares contracts and moves calls and results. */
export interface AgentFramework {
  readonly name: string
  open(request: SessionRequest): AgentSession
}
