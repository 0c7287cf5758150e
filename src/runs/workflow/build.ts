import type { JsonValue } from '../../tools/json.ts'
import type {
  AgentNode,
  BranchNode,
  EndNode,
  MapNode,
  ParallelNode,
  SequenceNode,
  ToolNode,
  WaitNode,
  WorkflowDefinition,
  WorkflowNode,
} from './definition.ts'

/** Helpers that write definitions. Each answers plain JSON and checks nothing: `publish` does. */

type Options = Pick<WorkflowNode, 'continueOnError'>

/** Stands in a template for the value of a CEL expression. */
export function expr(source: string): { readonly $expr: string } {
  return { $expr: source }
}

/** The same; where the value is null, the field it stands in is left out. */
export function optionalExpr(source: string): { readonly $expr: string; readonly $optional: true } {
  return { $expr: source, $optional: true }
}

export function workflow(definition: Omit<WorkflowDefinition, 'kind'>): WorkflowDefinition {
  return { kind: 'workflow', ...definition }
}

export function tool(id: string, call: Omit<ToolNode, 'kind' | 'id'>): ToolNode {
  return { kind: 'tool', id, ...call }
}

/** A run of a published agent or workflow. */
export function agent(id: string, run: Omit<AgentNode, 'kind' | 'id'>): AgentNode {
  return { kind: 'agent', id, ...run }
}

export function waitUntil(id: string, until: JsonValue): WaitNode {
  return { kind: 'wait', id, until }
}

export function waitFor(id: string, forS: JsonValue): WaitNode {
  return { kind: 'wait', id, forS }
}

export function waitForSignal(id: string, signal: NonNullable<WaitNode['signal']>): WaitNode {
  return { kind: 'wait', id, signal }
}

export function waitForProviderJob(id: string, providerJob: NonNullable<WaitNode['providerJob']>): WaitNode {
  return { kind: 'wait', id, providerJob }
}

export function sequence(id: string, nodes: readonly WorkflowNode[], options: Options = {}): SequenceNode {
  return { kind: 'sequence', id, nodes, ...options }
}

export function parallel(id: string, branches: readonly WorkflowNode[], options: Options = {}): ParallelNode {
  return { kind: 'parallel', id, branches, ...options }
}

/** `when` is CEL. */
export function branch(id: string, sides: Omit<BranchNode, 'kind' | 'id'>): BranchNode {
  return { kind: 'branch', id, ...sides }
}

/** `over` is CEL. */
export function map(id: string, options: Omit<MapNode, 'kind' | 'id'>): MapNode {
  return { kind: 'map', id, ...options }
}

export function end(id: string, reason?: string): EndNode {
  return { kind: 'end', id, ...(reason === undefined ? {} : { reason }) }
}
