import { ExpressionFault } from '../../policy/expression.ts'
import { compileValue } from '../../policy/value-expression.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { WorkflowDefinition, WorkflowNode } from './definition.ts'
import { nodeFault, type WorkflowFault } from './fault.ts'
import { partsOf } from './tree.ts'

/** Nodes that can never run, whatever the input, and containers without anything in them. */
export function unreachableFaults({ root }: WorkflowDefinition): readonly WorkflowFault[] {
  return faultsIn(root)
}

function faultsIn(node: WorkflowNode): WorkflowFault[] {
  return [...ownFaults(node), ...partsOf(node).flatMap(faultsIn)]
}

function ownFaults(node: WorkflowNode): WorkflowFault[] {
  switch (node.kind) {
    case 'sequence': {
      if (node.nodes.length === 0) return [nodeFault(node.id, 'nodes', 'there is nothing in it', 'leave it out')]
      const last = node.nodes.findIndex(alwaysEnds)
      if (last === -1) return []
      return node.nodes
        .slice(last + 1)
        .map(({ id }) =>
          nodeFault(id, 'id', 'it stands behind an end and never runs', 'move it before the end, or leave it out'),
        )
    }
    case 'parallel':
      return node.branches.length === 0
        ? [nodeFault(node.id, 'branches', 'there is nothing in it', 'leave it out')]
        : []
    case 'branch': {
      const answer = constant(node.when)
      if (answer === false) return [never(node.yes)]
      return answer === true && node.no !== undefined ? [never(node.no)] : []
    }
    case 'map': {
      const list = constant(node.over)
      return Array.isArray(list) && list.length === 0 ? [never(node.node)] : []
    }
    case 'tool':
    case 'agent':
    case 'wait':
    case 'end':
      return []
  }
}

function never({ id }: WorkflowNode): WorkflowFault {
  return nodeFault(id, 'id', 'what decides about it is always the same, and it never runs', 'leave it out')
}

function alwaysEnds(node: WorkflowNode): boolean {
  switch (node.kind) {
    case 'end':
      return true
    case 'sequence':
      return node.nodes.some(alwaysEnds)
    case 'branch':
      return node.no !== undefined && alwaysEnds(node.yes) && alwaysEnds(node.no)
    case 'tool':
    case 'agent':
    case 'wait':
    case 'parallel':
    case 'map':
      return false
  }
}

/** The value of an expression that reads nothing; undefined for every other one. */
function constant(source: string): JsonValue | undefined {
  const compiled = compileValue(source, { variables: {} })
  if (compiled.kind === 'invalid') return undefined
  try {
    return compiled.expression.evaluate({})
  } catch (error) {
    if (error instanceof ExpressionFault) return undefined
    throw error
  }
}
