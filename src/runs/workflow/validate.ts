import type { JsonObject } from '../../tools/json.ts'
import type { ToolRegistry } from '../../tools/registry.ts'
import { WORKFLOW_LIMITS, WorkflowSchema, type WorkflowDefinition } from './definition.ts'
import { nodeFault, wholeFault, type WorkflowFault } from './fault.ts'
import { expressionFaults } from './validate-expressions.ts'
import { unreachableFaults } from './validate-reach.ts'
import { nodeFaults } from './validate-nodes.ts'
import { nodesIn, placesIn, type Place } from './tree.ts'

/** A published definition, as an agent node needs it. */
export interface KnownDefinition {
  readonly tools: readonly string[]
  readonly inputSchema: JsonObject | null
  /** Definitions its own agent nodes start; none for an agent. */
  readonly starts: readonly string[]
}

export interface Surroundings {
  readonly registry: Pick<ToolRegistry, 'get' | 'names'>
  /** Everything that can be reached through agent nodes. */
  readonly definitions: ReadonlyMap<string, KnownDefinition>
}

/**
 * Everything that keeps a workflow from being published, all at once. What passes can be started: every name is known,
 * every expression compiles and reads what has run before it, and nothing stands where it can never run.
 */
export function validateWorkflow(definition: WorkflowDefinition, around: Surroundings): readonly WorkflowFault[] {
  const shape = shapeFaults(definition)
  // What has not the shape of a workflow, or is larger than one may be, is not looked into.
  if (shape.length > 0) return shape
  const places = placesIn(definition.root)
  const own = { tools: [], inputSchema: definition.inputSchema ?? null, starts: [] }
  const known = { ...around, definitions: new Map([...around.definitions, [definition.slug, own]]) }
  const twice = duplicateFaults(places)
  return [
    ...twice,
    ...places.flatMap((place) => nodeFaults(place, known)),
    ...recursionFaults(definition, around),
    // An id that stands for two nodes makes every reading of it doubtful.
    ...(twice.length > 0 ? [] : expressionFaults(definition, places)),
    ...unreachableFaults(definition),
  ]
}

function shapeFaults(definition: WorkflowDefinition): WorkflowFault[] {
  if (isNestedDeeper(definition, MAX_NESTING))
    return [wholeFault('root', 'its JSON is nested too deeply', 'write it flatter')]
  if (depthOf(definition.root) > WORKFLOW_LIMITS.depth)
    return [
      wholeFault(
        'root',
        `nodes are nested more than ${WORKFLOW_LIMITS.depth} deep`,
        'move a part into a workflow of its own',
      ),
    ]
  const parsed = WorkflowSchema.safeParse(definition)
  if (!parsed.success)
    return parsed.error.issues.map((issue) =>
      wholeFault(issue.path.map(String).join('.'), issue.message, 'write it as the type WorkflowDefinition says'),
    )
  const count = nodesIn(definition.root).length
  return count > WORKFLOW_LIMITS.nodes
    ? [
        wholeFault(
          'root',
          `there are ${count} nodes, and at most ${WORKFLOW_LIMITS.nodes} are allowed`,
          'move a part into a workflow of its own',
        ),
      ]
    : []
}

/** Levels of JSON, nodes and templates together. */
const MAX_NESTING = 100

function isNestedDeeper(value: unknown, limit: number): boolean {
  let level: readonly unknown[] = [value]
  for (let depth = 0; depth <= limit && level.length > 0; depth += 1)
    level = level.flatMap((part): unknown[] => (typeof part === 'object' && part !== null ? Object.values(part) : []))
  return level.length > 0
}

/** Looks no deeper than it has to: what comes from outside may be nested without end. */
function depthOf(root: unknown): number {
  let level: readonly unknown[] = [root]
  let depth = 0
  for (; level.length > 0 && depth <= WORKFLOW_LIMITS.depth; depth += 1) level = level.flatMap(below)
  return depth
}

function below(node: unknown): readonly unknown[] {
  if (typeof node !== 'object' || node === null) return []
  const fields: Record<string, unknown> = { ...node }
  return ['nodes', 'branches', 'yes', 'no', 'node'].flatMap((field) => {
    const value = fields[field]
    return Array.isArray(value) ? (value as unknown[]) : typeof value === 'object' && value !== null ? [value] : []
  })
}

function duplicateFaults(places: readonly Place[]): WorkflowFault[] {
  const ids = places.map(({ node }) => node.id)
  const twice = new Set(ids.filter((id, index) => ids.indexOf(id) !== index))
  return [...twice].map((id) => nodeFault(id, 'id', 'two nodes have this id', 'give every node an id of its own'))
}

/** A workflow that starts itself, at whatever distance, never ends. */
function recursionFaults(definition: WorkflowDefinition, { definitions }: Surroundings): WorkflowFault[] {
  const reaches = (slug: string, seen: ReadonlySet<string>): boolean => {
    if (slug === definition.slug) return true
    if (seen.has(slug)) return false
    return (definitions.get(slug)?.starts ?? []).some((next) => reaches(next, new Set([...seen, slug])))
  }
  return nodesIn(definition.root).flatMap((node) =>
    node.kind === 'agent' && reaches(node.definition, new Set())
      ? [
          nodeFault(
            node.id,
            'definition',
            `${node.definition} starts this workflow again`,
            'start a definition that does not',
          ),
        ]
      : [],
  )
}
