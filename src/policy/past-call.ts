import type { ApprovalState } from '../decision/coverage.ts'
import type { Effect } from '../decision/stage-two.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { CallOrigin } from './rule-set.ts'

/** A call that the rules decided, as it was recorded. One that waited for a person is one call, decided when it was filed. */
export interface PastCall {
  readonly spanId: string
  readonly rootRunId: string
  readonly rootStartedAt: Date
  readonly tool: string
  readonly decidedAt: Date
  readonly origin: CallOrigin
  /** Of the arguments that were decided on. */
  readonly argumentsHash: string
  /** The whole arguments, of a call a person was asked about. */
  readonly filedArguments: JsonObject | null
  /** As the run tree keeps them: before defaults, redacted and bounded. */
  readonly input: JsonValue
  /** What the rules of the time read, and what tainted the run. */
  readonly facts: Readonly<Record<string, JsonValue>>
  readonly outcome: Effect | 'fault'
  readonly rule: string | null
  /** What became of the question; null for a call nobody was asked about. */
  readonly approval: ApprovalState | null
  /** Ended as an error: it may have come to nothing. */
  readonly failed: boolean
}

export interface PastCalls {
  /** The newest calls of these tools, oldest first; `complete` when there are no older ones since then. */
  list(request: {
    readonly organizationId: string
    readonly tools: readonly string[]
    readonly since: Date | null
    readonly limit: number
  }): Promise<{ readonly calls: readonly PastCall[]; readonly complete: boolean }>
}
