import { ValidationError } from '../tools/errors.ts'
import type { Actor } from '../tools/invocation.ts'
import type { AgentDefinition } from './definition.ts'
import type { StoredBody } from './freeze.ts'
import type { ManagerDependencies } from './manager.ts'
import { isWorkflow, type WorkflowDefinition } from './workflow/definition.ts'
import { faultLine } from './workflow/fault.ts'
import { validateWorkflow, type KnownDefinition } from './workflow/validate.ts'
import { nodesIn } from './workflow/tree.ts'

const SLUG = /^[a-z][a-z0-9-]{0,62}$/

export interface Publishing {
  readonly organizationId: string
  readonly definition: AgentDefinition | WorkflowDefinition
  readonly by: Actor
}

/** @throws ValidationError names every tool that does not exist, and of a workflow every fault of every node */
export async function publish(deps: ManagerDependencies, request: Publishing): Promise<{ readonly version: number }> {
  const { organizationId, definition, by } = request
  if (!SLUG.test(definition.slug))
    throw new ValidationError(
      `a definition's slug is lower case letters, digits and hyphens; got ${JSON.stringify(definition.slug.slice(0, 80))}`,
    )
  const tools = isWorkflow(definition)
    ? await workflowTools(deps, organizationId, definition)
    : agentTools(deps, definition)
  const { slug, ...body } = definition
  const { version } = await deps.catalogue.publish({ organizationId, slug, body: { ...body, tools } })
  await deps.catalogue.grantInitially({ organizationId, definition: slug, tools, by })
  return { version }
}

function agentTools({ registry }: ManagerDependencies, { slug, tools }: AgentDefinition): readonly string[] {
  const missing = tools.filter((tool) => registry.get(tool) === undefined)
  if (missing.length > 0)
    throw new ValidationError(
      `${slug} names tools that do not exist: ${missing.join(', ')}; known are ${registry.names().join(', ')}`,
    )
  return tools
}

/** What the workflow calls, and what the agents it starts may call: a right withdrawn from it is withdrawn from them. */
async function workflowTools(
  deps: ManagerDependencies,
  organizationId: string,
  definition: WorkflowDefinition,
): Promise<readonly string[]> {
  const known = await definitionsBelow(deps, organizationId, definition)
  const faults = validateWorkflow(definition, { registry: deps.registry, definitions: known })
  if (faults.length > 0)
    throw new ValidationError(
      `${faults.length} fault(s) in workflow ${definition.slug}:\n${faults.map(faultLine).join('\n')}`,
    )
  const started = nodesIn(definition.root).flatMap((node) => (node.kind === 'agent' ? [node.definition] : []))
  const own = nodesIn(definition.root).flatMap((node) => (node.kind === 'tool' ? [node.tool] : []))
  const below = started.flatMap((slug) => known.get(slug)?.tools ?? [])
  return [...new Set([...own, ...below])].toSorted()
}

/** Every definition that can be reached through agent nodes, as published now. */
async function definitionsBelow(
  { catalogue }: ManagerDependencies,
  organizationId: string,
  definition: WorkflowDefinition,
): Promise<ReadonlyMap<string, KnownDefinition>> {
  const known = new Map<string, KnownDefinition>()
  const wanted = startedBy(definition)
  for (let slug = wanted.pop(); slug !== undefined; slug = wanted.pop()) {
    if (known.has(slug) || slug === definition.slug) continue
    const stored = await catalogue.latest(organizationId, slug)
    if (stored === null) continue
    const body = stored.body as StoredBody
    const starts = isWorkflow(body) ? startedBy(body) : []
    known.set(slug, { tools: body.tools, inputSchema: body.inputSchema ?? null, starts })
    wanted.push(...starts)
  }
  return known
}

function startedBy({ root }: Pick<WorkflowDefinition, 'root'>): string[] {
  return nodesIn(root).flatMap((node) => (node.kind === 'agent' ? [node.definition] : []))
}
