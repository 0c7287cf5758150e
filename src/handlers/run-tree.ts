import { currentScope } from '../spans/ambient.ts'
import type { ToolInvocation } from '../tools/invocation.ts'

/**
 * Root of the run tree a call belongs to. Outside a run scope a run is its own root: what a handler records as its own
 * and what a fact leaves out as the run's own must be the same id, or a run could vouch for itself.
 */
export function rootRunOf(invocation: ToolInvocation): string {
  return currentScope()?.rootRunId ?? invocation.runId
}
