export {
  agent,
  branch,
  end,
  expr,
  map,
  optionalExpr,
  parallel,
  sequence,
  tool,
  waitFor,
  waitForProviderJob,
  waitForSignal,
  waitUntil,
  workflow,
} from './build.ts'
export { callShapeOf } from './call-shape.ts'
export {
  WORKFLOW_LIMITS,
  type AgentNode,
  type BranchNode,
  type EndNode,
  type MapNode,
  type ParallelNode,
  type SequenceNode,
  type Template,
  type ToolNode,
  type WaitNode,
  type WorkflowDefinition,
  type WorkflowNode,
} from './definition.ts'
export type { WorkflowFault } from './fault.ts'
export { validateWorkflow, type KnownDefinition, type Surroundings } from './validate.ts'
