import type { WorkflowNode } from './definition.ts'

/** The direct parts of a node, in the order they are written. */
export function partsOf(node: WorkflowNode): readonly WorkflowNode[] {
  switch (node.kind) {
    case 'tool':
    case 'agent':
    case 'wait':
    case 'end':
      return []
    case 'sequence':
      return node.nodes
    case 'parallel':
      return node.branches
    case 'branch':
      return node.no === undefined ? [node.yes] : [node.yes, node.no]
    case 'map':
      return [node.node]
  }
}

/** The node and everything below it, outside in. */
export function nodesIn(node: WorkflowNode): readonly WorkflowNode[] {
  return [node, ...partsOf(node).flatMap(nodesIn)]
}

/** Names that a map gives: its own items and those of the maps around it, outside in. */
export interface MapName {
  readonly map: string
  readonly as: string
}

/** Where a node stands. */
export interface Place {
  readonly node: WorkflowNode
  readonly depth: number
  /** Maps around it, outside in. */
  readonly maps: readonly MapName[]
  /**
   * Nodes that are over, one way or the other, when this one begins: they can be read. A side of a branch that was not
   * taken is over too, and has no value.
   */
  readonly before: ReadonlySet<string>
}

/** Every node with its place, outside in. */
export function placesIn(root: WorkflowNode): readonly Place[] {
  return place({ node: root, depth: 1, maps: [], before: new Set() })
}

function place(here: Place): Place[] {
  const { node, maps, depth } = here
  const below = (part: WorkflowNode, more: Partial<Place> = {}): Place[] =>
    place({ ...here, node: part, depth: depth + 1, ...more })
  switch (node.kind) {
    case 'tool':
    case 'agent':
    case 'wait':
    case 'end':
      return [here]
    case 'sequence': {
      const before = new Set(here.before)
      return [
        here,
        ...node.nodes.flatMap((part) => {
          const placed = below(part, { before: new Set(before) })
          for (const id of readableFrom(part)) before.add(id)
          return placed
        }),
      ]
    }
    case 'parallel':
      return [here, ...node.branches.flatMap((part) => below(part))]
    case 'branch':
      return [here, ...partsOf(node).flatMap((part) => below(part))]
    case 'map':
      return [here, ...below(node.node, { maps: [...maps, { map: node.id, as: node.as }] })]
  }
}

/** What can be read once a node is over. The inside of a map has many values for one id, so only the map itself is. */
export function readableFrom(node: WorkflowNode): readonly string[] {
  return node.kind === 'map' ? [node.id] : [node.id, ...partsOf(node).flatMap(readableFrom)]
}

/** Path of a node among the items it stands in: `people[3].contact`. */
export function pathOf(prefix: string, id: string): string {
  return `${prefix}${id}`
}

export function itemPrefix(mapPath: string, index: number): string {
  return `${mapPath}[${index}].`
}
