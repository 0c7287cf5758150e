import type { JsonObject, JsonValue } from '../tools/json.ts'

/** One node of the run tree, with what a person needs to see of it. */
export interface SpanNode {
  readonly id: string
  readonly runId: string
  readonly parentId: string | null
  readonly kind: 'run' | 'segment' | 'llm' | 'tool' | 'node'
  readonly name: string
  readonly status: 'running' | 'ok' | 'error'
  readonly code: string | null
  readonly startedAt: Date
  readonly endedAt: Date | null
  readonly attributes: JsonObject
  /** Redacted and bounded before they were written. */
  readonly input: JsonValue | null
  readonly output: JsonValue | null
  readonly decision: SpanDecision | null
}

export interface SpanDecision {
  readonly stage: number
  readonly outcome: string
  readonly rule: string | null
  readonly message: string | null
  readonly facts: JsonObject
  readonly shadow: JsonValue
  readonly approvalId: string | null
}

export interface SpanStore {
  /** Every span of a run and of the runs below it, oldest first. */
  tree(organizationId: string, runId: string, below?: readonly string[]): Promise<readonly SpanNode[]>
}
