import type { CallShape } from '../../usage/vendor-arithmetic.ts'
import type { WorkflowDefinition, WorkflowNode } from './definition.ts'
import { partsOf } from './tree.ts'

/**
 * How the calls of one run of a workflow can come together, for the arithmetic of vendor accounts. A run that an agent
 * node starts counts in its own lane, and with nothing here.
 */
export function callShapeOf(
  { root }: Pick<WorkflowDefinition, 'root'>,
  vendorsOf: (tool: string) => readonly string[],
): CallShape {
  return shapeOf(root, vendorsOf)
}

function shapeOf(node: WorkflowNode, vendorsOf: (tool: string) => readonly string[]): CallShape {
  const below = (part: WorkflowNode): CallShape => shapeOf(part, vendorsOf)
  switch (node.kind) {
    case 'tool':
      return { kind: 'call', vendors: vendorsOf(node.tool), width: 1 }
    case 'sequence':
      return { kind: 'sequence', parts: node.nodes.map(below) }
    case 'parallel':
      return { kind: 'parallel', parts: node.branches.map(below) }
    case 'branch':
      return { kind: 'branch', parts: partsOf(node).map(below) }
    case 'map': {
      const item = below(node.node)
      return { kind: 'parallel', parts: Array.from({ length: node.fanoutConcurrency }, () => item) }
    }
    case 'agent':
    case 'wait':
    case 'end':
      return { kind: 'sequence', parts: [] }
  }
}
