import { jobIdOf } from '../../provider-jobs/job-id.ts'
import type { NewJob } from '../../provider-jobs/job.ts'
import { currentScope } from '../../spans/ambient.ts'
import { argumentsHash } from '../../tools/canonical.ts'
import type { ToolInvocation } from '../../tools/invocation.ts'
import type { JsonObject } from '../../tools/json.ts'

/** Where a deployment takes callbacks. Never from a request: a model must not choose where a vendor sends results. */
export type CallbackUrl = (provider: string, jobId: string) => string

/**
 * The job that a call stands for.
 * @throws Error outside a run scope: a job is paid for by a run tree
 */
export function submittedJob(
  invocation: ToolInvocation,
  { provider, args, refs }: { readonly provider: string; readonly args: object; readonly refs: readonly string[] },
): NewJob {
  const scope = currentScope()
  if (scope === null) throw new Error(`a ${provider} job was submitted outside a run scope`)
  const { organizationId, runId, stepPath } = invocation
  // Parsed arguments are plain JSON, whatever their static type says of fields that may be left out.
  const id = jobIdOf({ organizationId, runId, stepPath, provider, argsHash: argumentsHash(args as JsonObject) })
  const { rootRunId, spanId: toolCallId } = scope
  return { id, organizationId, rootRunId, runId, toolCallId, provider, contactRefs: refs }
}
