import type { JsonValue } from '../../tools/json.ts'
import type { RunStatus } from '../definition.ts'
import type { NewRun, RunRow } from '../run-store.ts'

export type StartedChild =
  /** By this call, or by an earlier one of the same step. */
  | { readonly kind: 'started'; readonly run: RunRow }
  /** The run that wants it has ended or was told to stop. */
  | { readonly kind: 'parent_cancelled' }

/** How a child stands. */
export interface ChildLook {
  readonly status: RunStatus
  readonly reason: string | null
  readonly message: string | null
  readonly output: JsonValue | null
}

/** Runs that steps start. */
export interface ChildStore {
  /** One run a step, whoever asks and however often. */
  start(child: NewRun): Promise<StartedChild>
  /** Runs below a run, at any distance. */
  below(organizationId: string, runId: string): Promise<readonly string[]>
  /** Null when it is gone. */
  look(organizationId: string, runId: string): Promise<ChildLook | null>
}
