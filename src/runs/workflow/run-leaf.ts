import { ExpressionFault } from '../../policy/expression.ts'
import { NotFoundError, ValidationError } from '../../tools/errors.ts'
import type { ToolInvocation } from '../../tools/invocation.ts'
import {
  ApprovalRequired,
  CancelRequested,
  ClaimInFlight,
  type AmbientSpans,
  type ToolInvoker,
} from '../../tools/invoker.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { ToolResult } from '../../tools/models.ts'
import type { RunRow } from '../run-store.ts'
import { stopOfResult } from '../segment-stop.ts'
import { ParentCancelled, type StartChild } from '../start.ts'
import type { AgentNode, ToolNode, WaitNode } from './definition.ts'
import type { Halt } from './halt.ts'
import type { Rest } from './step-book.ts'
import { instantOf } from './validate-nodes.ts'

/** What became of a step that this segment worked on. */
export type Settled =
  | { readonly kind: 'rest'; readonly rest: Rest; readonly halt?: Halt }
  /** Nothing is known of it yet: it begins again with the next segment. */
  | { readonly kind: 'broken_off'; readonly halt: Halt }
  /** Another call of the same node is being made; look again when that is over. */
  | { readonly kind: 'in_flight'; readonly until: Date }

/** Codes that no workflow can act on: they end its run, whatever the node says. */
const PLATFORM_STOP_CODES: readonly string[] = ['internal_error']

export interface ToolStep {
  readonly node: ToolNode
  readonly args: () => JsonValue
  readonly invocation: ToolInvocation
  readonly spanId: string
  readonly rootRunId: string
  readonly pauseId: string
  readonly authorizedBy: readonly string[]
}

/** Makes the call of a tool node, through the invoker like every other. */
export async function runTool(
  { invoker, ambient }: { readonly invoker: ToolInvoker; readonly ambient: AmbientSpans },
  step: ToolStep,
): Promise<Settled> {
  const { node, invocation, rootRunId, spanId, pauseId, authorizedBy } = step
  const { organizationId, runId } = invocation
  try {
    const args = step.args()
    const result = await ambient.enter({ organizationId, runId, rootRunId, spanId }, () =>
      invoker.invoke({ toolName: node.tool, args }, invocation, { authorizedBy, pauseId }),
    )
    return settledBy(result)
  } catch (error) {
    if (error instanceof ApprovalRequired) {
      const { approvalId, expiresAt } = error
      return rest({ kind: 'waiting', wait: { kind: 'approval', approvalId, until: expiresAt.toISOString() } })
    }
    if (error instanceof ClaimInFlight) return { kind: 'in_flight', until: error.leaseUntil }
    if (error instanceof CancelRequested)
      return { kind: 'broken_off', halt: { kind: 'cancelled', reason: error.reason } }
    return raised(error)
  }
}

/** A marked refusal ends the run; the code of an unmarked one says whether the workflow may go on without the node. */
function settledBy(result: ToolResult): Settled {
  if (result.ok) return rest({ kind: 'completed', output: result.data })
  const { code, message } = result.error ?? { code: 'internal_error' as const, message: '' }
  const failed: Rest = { kind: 'failed', error: { code, message } }
  const stop = stopOfResult(result)
  if (stop?.kind === 'ceiling') return { ...rest(failed), halt: { kind: 'partial', reason: stop.reason } }
  if (stop !== null || PLATFORM_STOP_CODES.includes(code))
    return { ...rest(failed), halt: { kind: 'failed', code, message } }
  return rest(failed)
}

export interface AgentStep {
  readonly node: AgentNode
  readonly input: () => JsonValue
  readonly start: (child: Pick<StartChild, 'definition' | 'input'>) => Promise<RunRow>
}

/** Starts the run of an agent node, once. What becomes of it is looked at like every other wait. */
export async function startAgent({ node, input, start }: AgentStep): Promise<Settled> {
  try {
    const child = await start({ definition: node.definition, input: input() })
    const wait = { kind: 'child', runId: child.id, until: child.deadline.toISOString() } as const
    return rest({ kind: 'waiting', wait, childRunId: child.id })
  } catch (error) {
    if (error instanceof ParentCancelled) return failed('parent_cancelled', error.message)
    if (error instanceof NotFoundError) return failed('not_found', error.message)
    if (error instanceof ValidationError) return failed('invalid_input', error.message)
    return raised(error)
  }
}

export interface WaitStep {
  readonly node: WaitNode
  readonly render: (template: JsonValue) => JsonValue
  readonly now: Date
  readonly deadline: Date
}

/** Registers a wait. Whether it is over at once is looked at like every other one. */
export function beginWait({ node, render, now, deadline }: WaitStep): Settled {
  try {
    const { signal, providerJob } = node
    const timeoutS = (signal ?? providerJob)?.timeoutS
    const at = timeoutS === undefined ? instantFor(node, render, now) : now.getTime() + timeoutS * 1000
    if (at === null)
      return failed('expression_failed', 'the wait has no time: it needs an ISO 8601 instant, or seconds')
    // Nothing outlives its run.
    const until = new Date(Math.min(at, deadline.getTime())).toISOString()
    if (signal !== undefined) return rest({ kind: 'waiting', wait: { kind: 'signal', name: signal.name, until } })
    if (providerJob === undefined) return rest({ kind: 'waiting', wait: { kind: 'time', until } })
    const jobId = render(providerJob.jobId)
    if (typeof jobId !== 'string')
      return failed('expression_failed', 'the wait has no job: it needs the jobId of a submit')
    return rest({ kind: 'waiting', wait: { kind: 'provider_job', jobId, until } })
  } catch (error) {
    return raised(error)
  }
}

function instantFor({ until, forS }: WaitNode, render: WaitStep['render'], now: Date): number | null {
  if (until !== undefined) return instantOf(render(until))
  const seconds = render(forS ?? null)
  return typeof seconds === 'number' && seconds >= 0 ? now.getTime() + seconds * 1000 : null
}

function rest(how: Rest): { readonly kind: 'rest'; readonly rest: Rest } {
  return { kind: 'rest', rest: how }
}

function failed(
  code: 'parent_cancelled' | 'not_found' | 'invalid_input' | 'expression_failed',
  message: string,
): Settled {
  return rest({ kind: 'failed', error: { code, message } })
}

function raised(error: unknown): Settled {
  if (error instanceof ExpressionFault) return failed('expression_failed', error.message)
  return { kind: 'broken_off', halt: { kind: 'fault', error } }
}
