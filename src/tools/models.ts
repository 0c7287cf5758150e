import type { ErrorCode } from './errors.ts'
import type { JsonObject, JsonValue } from './json.ts'

export type SideEffects = 'read' | 'write' | 'send'
export type ToolKind = 'internal' | 'vendor' | 'mcp'

/** Names a handler in the registry the deploy owns. A stored row can never introduce code. */
export interface HandlerBinding {
  readonly handlerKey: string
}

/** Names a tool of a remote server by connection and published name, as two fields so that nobody parses a string. */
export interface RemoteBinding {
  readonly connectionId: string
  readonly remoteName: string
}

/** The framework-neutral contract of one tool. Plain JSON: it is frozen into runs and compared across deployments. */
export interface ToolSpec {
  /** Platform name `domain.verb`, globally unique. The model never sees it; see {@link modelToolName}. */
  readonly name: string
  /** The model reads this. */
  readonly description: string
  readonly inputSchema: JsonObject
  readonly outputSchema: JsonObject
  /** A stored function of `schemaHash`: two deployments that run side by side agree on it. */
  readonly version: number
  /** Hex sha-256 over the RFC 8785 form of `{ input, output }`. */
  readonly schemaHash: string
  readonly kind: ToolKind
  readonly binding: HandlerBinding | RemoteBinding
  readonly sideEffects: SideEffects
  /** The call carries its arguments out of the organization: every send, and each read that asks an outside service. */
  readonly egress: boolean
  /** Provider key the connection resolver must satisfy. */
  readonly connection: string | null
  /** Seconds. At most `STEP_BUDGET_S`. */
  readonly timeoutS: number
  /** `safe` on reads only. */
  readonly retry: 'none' | 'safe'
  /** The handler writes a usage row, so accrual is checked before it runs. */
  readonly metered: boolean
  /** `false` on every write and send, `null` on every read. */
  readonly repeatable: boolean | null
  /** The handler renders the one line a person reads before deciding. */
  readonly approvalPreview: boolean
  /** Facts a rule may read about this call beyond its arguments. */
  readonly policyFacts: readonly string[]
  /** Top-level array argument that `maxBatchSize` counts. */
  readonly batchArgument: string | null
  readonly maxBatchSize: number | null
  /** Items kept of an array output, applied before the byte bound. */
  readonly maxResults: number | null
  /** Bytes of the bounded answer; may lower the platform limit, never raise it. */
  readonly maxOutputBytes: number | null
  /** Resource kind of one item of `data`; lets a dropped item be named by reference. */
  readonly itemKind: string | null
  /** The handler passes the idempotency key to the receiver, and the receiver honours it. */
  readonly downstreamKey: boolean
  /**
   * Seconds the receiver remembers a key, counted from the first attempt; null for a receiver that never forgets. Past
   * them another attempt with the same key would be another effect, so a person is asked instead.
   */
  readonly downstreamKeyS: number | null
  /** What a claim whose lease ran out means: `reclaim` runs it again, `ask` lets a person say whether it arrived. */
  readonly onUnknown: 'reclaim' | 'ask'
}

/** Writes and sends are journalled; a read is not, and may be made again. */
export function takesClaim({ sideEffects }: Pick<ToolSpec, 'sideEffects'>): boolean {
  return sideEffects !== 'read'
}

export interface ToolError {
  readonly code: ErrorCode
  readonly message: string
  readonly retryable: boolean
}

export interface ToolResultMeta {
  /** Items that remain after both bounds, for an array answer. */
  readonly count?: number
  readonly truncated: boolean
  readonly untrusted: boolean
  readonly usageId?: string
  readonly partialReason?: string
  /** ISO time of the effect, when this answer was read back from the journal. */
  readonly replayedFrom?: string
}

/** What the run does about a refusal the invoker made. Written by the invoker alone and never shown to a model. */
export type ToolStop = 'budget_exhausted' | 'fault'

export interface ToolResult {
  readonly ok: boolean
  readonly data: JsonValue
  readonly error: ToolError | null
  readonly meta: ToolResultMeta
  readonly stop: ToolStop | null
}

/** What a handler answers. Failures are raised, never built (`errors.ts`). */
export interface HandlerAnswer<Out> {
  readonly ok: true
  readonly data: Out
  readonly meta?: { readonly untrusted?: boolean; readonly usageId?: string; readonly partialReason?: string }
}

export function ok<Out>(data: Out, meta?: HandlerAnswer<Out>['meta']): HandlerAnswer<Out> {
  return meta === undefined ? { ok: true, data } : { ok: true, data, meta }
}

/** `domain.verb`: lower case, one dot. Length is capped so that a derived name can be refused with a clear message. */
export const NAME_PATTERN = /^[a-z][a-z0-9_]{0,62}\.[a-z][a-z0-9_]{0,62}$/

/** The lowest cap any provider documents (OpenAI, 64). Truncating would map two names onto one, so longer names are refused. */
export const MAX_MODEL_TOOL_NAME_LENGTH = 64

/** The name a provider accepts: every character outside `[a-zA-Z0-9_-]` becomes an underscore. Lossy, so collisions are refused. */
export function modelToolName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/g, '_')
}

/** Seconds a tool call may take. Work that takes longer is submitted and collected. */
export const STEP_BUDGET_S = 120

/** Bytes of one bounded answer, measured with the encoder that renders it. */
export const PLATFORM_OUTPUT_BYTES = 32 * 1024
