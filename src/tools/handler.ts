import type { JsonValue } from './json.ts'
import type { HandlerContext, ToolInvocation } from './invocation.ts'
import type { HandlerAnswer } from './models.ts'

/** The code that does a tool's work. Raises for every failure; see the exception classes in `errors.ts`. */
export interface ToolHandler<In, Out> {
  execute(invocation: ToolInvocation, args: In, context: HandlerContext): Promise<HandlerAnswer<Out>>
}

/**
 * Renders the line a person reads before deciding. Runs on a call nobody has allowed yet: read only, no metered call,
 * under the shorter of the tool timeout and the run deadline. May fail; the approval is filed all the same.
 */
export interface ApprovalPreviewHandler<In> {
  preview(invocation: ToolInvocation, args: In, signal: AbortSignal): Promise<string>
}

/** For handlers in files of their own: the type that `internalTool` infers for an inline one. */
export type HandlerOf<In, Out> = ToolHandler<In, Out> & Partial<ApprovalPreviewHandler<In>>

export type FactType = 'bool' | 'string' | 'int' | 'double' | 'list' | 'map'

/**
 * A named value a rule may read that is not in the arguments. Resolved by the invoker before policy, only when a
 * matching rule mentions it. It must ignore what the call's own run tree wrote.
 */
export interface FactResolver {
  readonly name: string
  readonly type: FactType
  resolve(request: FactRequest): Promise<JsonValue>
}

export interface FactRequest {
  readonly invocation: ToolInvocation
  /** Root of the run tree whose own writes the fact must not see. */
  readonly rootRunId: string | null
  readonly tool: string
  readonly args: Readonly<Record<string, JsonValue>>
  readonly signal: AbortSignal
}
