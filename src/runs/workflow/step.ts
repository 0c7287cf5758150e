import type { ErrorCode } from '../../tools/errors.ts'
import type { JsonObject, JsonValue } from '../../tools/json.ts'
import { sha256Hex } from '../../tools/canonical.ts'

/** What became of a step, beyond what a tool can answer. None of these ever stands in a tool result. */
export type StepErrorCode =
  | ErrorCode
  /** An expression had no value. */
  | 'expression_failed'
  /** A map went over more items than it may. */
  | 'too_many_items'
  /** The run was told to stop before it could start another run. */
  | 'parent_cancelled'
  | 'child_failed'
  | 'child_cancelled'
  /** The child ended `partial`; its output is there, and the step counts as done. */
  | 'child_partial'

export interface StepError {
  readonly code: StepErrorCode
  readonly message: string
  /** Path of the step that failed; its containers fail with the same error. */
  readonly at?: string
}

/** What a step waits for. `until` is when to look again if nothing comes: an ISO instant. */
export type StepWait =
  | { readonly kind: 'time'; readonly until: string }
  | { readonly kind: 'signal'; readonly name: string; readonly until: string }
  | { readonly kind: 'approval'; readonly approvalId: string; readonly until: string }
  | { readonly kind: 'child'; readonly runId: string; readonly until: string }
  | { readonly kind: 'provider_job'; readonly jobId: string; readonly until: string }
  /** Another worker makes this very call. */
  | { readonly kind: 'lease'; readonly until: string }

export type StepState = 'running' | 'waiting' | 'completed' | 'failed' | 'skipped'

/** A row of `agent.run_steps`. */
export interface StepRow {
  readonly path: string
  readonly node: string
  readonly kind: string
  readonly state: StepState
  readonly attempt: number
  /** Of a container: its {@link ContainerNote}. */
  readonly output: JsonValue
  readonly error: StepError | null
  readonly wait: StepWait | null
  readonly childRunId: string | null
  readonly startedAt: Date
}

/** What a container has to remember. What it answers is put together from the steps below it. */
export interface ContainerNote extends JsonObject {
  /** Side of a branch; null where it has none. */
  readonly taken: 'yes' | 'no' | null
  /** Items of a map. */
  readonly items: number
  /** Why the run will be `partial`. */
  readonly partial: string | null
  /** An `end` was reached inside. */
  readonly ended: { readonly reason: string | null } | null
}

/**
 * Id of the span of a step and of the approvals it asks for: the same in every process and on every attempt.
 * A UUID of version 8, out of run and path.
 */
export function stepId(runId: string, path: string): string {
  const hex = sha256Hex(`${runId}:${path}`)
  const variant = ((Number.parseInt(hex.slice(16, 18), 16) & 0x3f) | 0x80).toString(16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${variant}${hex.slice(18, 20)}-${hex.slice(20, 32)}`
}
