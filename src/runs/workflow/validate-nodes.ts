import { STEP_BUDGET_S } from '../../tools/models.ts'
import { compileValue } from '../../policy/value-expression.ts'
import { isCelWord, isReserved } from '../../tools/fact-name.ts'
import { nearest } from '../../tools/spelling.ts'
import {
  WORKFLOW_LIMITS,
  type AgentNode,
  type MapNode,
  type ParallelNode,
  type ToolNode,
  type WaitNode,
} from './definition.ts'
import { nodeFault, type WorkflowFault } from './fault.ts'
import { isLiteral } from './template.ts'
import { nodesIn, type MapName, type Place } from './tree.ts'
import type { Surroundings } from './validate.ts'
import { templateFaults } from './validate-template.ts'

/** What is wrong with a node itself, its expressions left aside. */
export function nodeFaults(place: Place, around: Surroundings): readonly WorkflowFault[] {
  const { id } = place.node
  const word =
    compileValue(`steps.${id}`, { variables: { steps: 'map' } }).kind === 'invalid'
      ? [nodeFault(id, 'id', `${id} is a word of CEL, and steps.${id} cannot be read`, 'take another id')]
      : []
  return [...word, ...kindFaults(place, around)]
}

function kindFaults({ node, maps }: Place, around: Surroundings): readonly WorkflowFault[] {
  switch (node.kind) {
    case 'tool':
      return toolFaults(node, around)
    case 'agent':
      return agentFaults(node, around)
    case 'wait':
      return waitFaults(node)
    case 'map':
      return mapFaults(node, maps)
    case 'parallel':
      return parallelFaults(node)
    case 'sequence':
    case 'branch':
    case 'end':
      return []
  }
}

function toolFaults(node: ToolNode, { registry }: Surroundings): WorkflowFault[] {
  const spec = registry.get(node.tool)
  if (spec === undefined) {
    const meant = nearest(node.tool, registry.names())
    const remedy = meant === null ? `known are ${registry.names().join(', ')}` : `did you mean ${meant}?`
    return [nodeFault(node.id, 'tool', `there is no tool ${JSON.stringify(node.tool.slice(0, 130))}`, remedy)]
  }
  const slow =
    spec.timeoutS > STEP_BUDGET_S
      ? [
          nodeFault(
            node.id,
            'tool',
            `${spec.name} may take ${spec.timeoutS} s, and a step has ${STEP_BUDGET_S} s`,
            'submit the work and collect it',
          ),
        ]
      : []
  return [
    ...slow,
    ...templateFaults({
      node: node.id,
      field: 'args',
      template: node.args,
      schema: spec.inputSchema,
      takes: spec.name,
    }),
  ]
}

function agentFaults(node: AgentNode, { definitions }: Surroundings): WorkflowFault[] {
  const known = definitions.get(node.definition)
  if (known === undefined) {
    // One that starts itself is told about that alone.
    const meant = nearest(node.definition, definitions.keys())
    const remedy = meant === null ? 'publish it before this workflow' : `did you mean ${meant}?`
    return [nodeFault(node.id, 'definition', `there is no definition ${JSON.stringify(node.definition)}`, remedy)]
  }
  const { inputSchema: schema } = known
  if (schema === null) return []
  return [...templateFaults({ node: node.id, field: 'input', template: node.input, schema, takes: node.definition })]
}

const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/

/** Milliseconds since 1970 of an ISO 8601 text with a time zone; null for anything else. */
export function instantOf(value: unknown): number | null {
  if (typeof value !== 'string' || !INSTANT.test(value)) return null
  const time = Date.parse(value)
  return Number.isNaN(time) ? null : time
}

function waitFaults({ id, until, forS }: WaitNode): WorkflowFault[] {
  if (until !== undefined && isLiteral(until) && instantOf(until) === null)
    return [nodeFault(id, 'until', 'this is no instant', 'write it as 2026-05-04T10:00:00Z, or compute it with $expr')]
  if (forS !== undefined && isLiteral(forS) && !(typeof forS === 'number' && forS >= 0))
    return [
      nodeFault(id, 'forS', 'this is no number of seconds', 'write a number of at least 0, or compute it with $expr'),
    ]
  return []
}

const TAKEN_NAMES: readonly string[] = ['input', 'steps', 'index']
const NAME = /^[a-z][a-z0-9_]{0,47}$/

function mapFaults(node: MapNode, maps: readonly MapName[]): WorkflowFault[] {
  const { id, as, fanoutConcurrency, maxItems } = node
  const faults: WorkflowFault[] = []
  if (
    !NAME.test(as) ||
    TAKEN_NAMES.includes(as) ||
    isCelWord(as) ||
    isReserved(as) ||
    maps.some((outer) => outer.as === as)
  )
    faults.push(
      nodeFault(
        id,
        'as',
        `an item cannot be called ${JSON.stringify(as.slice(0, 60))}`,
        'take a name of lower case letters that means nothing else here',
      ),
    )
  if (!whole(fanoutConcurrency, WORKFLOW_LIMITS.fanoutConcurrency))
    faults.push(
      nodeFault(
        id,
        'fanoutConcurrency',
        'this is no number of items',
        `take a whole number from 1 to ${WORKFLOW_LIMITS.fanoutConcurrency}`,
      ),
    )
  if (!whole(maxItems, WORKFLOW_LIMITS.maxItems))
    faults.push(
      nodeFault(
        id,
        'maxItems',
        'this is no number of items',
        `take a whole number from 1 to ${WORKFLOW_LIMITS.maxItems}`,
      ),
    )
  const inside = nodesIn(node.node)
  for (const wait of inside.filter(({ kind }) => kind === 'wait'))
    faults.push(nodeFault(wait.id, 'kind', `a wait stands inside of map ${id}`, 'wait before or behind the map'))
  for (const end of inside.filter(({ kind }) => kind === 'end'))
    faults.push(nodeFault(end.id, 'kind', `an end stands inside of map ${id}`, 'end behind the map'))
  return faults
}

function whole(value: number, most: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= most
}

function parallelFaults({ id, branches }: ParallelNode): WorkflowFault[] {
  const parking = branches.filter((part) => nodesIn(part).some(({ kind }) => kind === 'wait'))
  const ends = branches.flatMap(nodesIn).filter(({ kind }) => kind === 'end')
  return [
    ...(parking.length > 1
      ? [
          nodeFault(
            id,
            'branches',
            `${parking.length} branches hold a wait: ${parking.map((part) => part.id).join(', ')}`,
            'keep at most one, or wait behind the parallel',
          ),
        ]
      : []),
    ...ends.map((end) =>
      nodeFault(end.id, 'kind', `an end stands inside of parallel ${id}`, 'end behind the parallel'),
    ),
  ]
}
