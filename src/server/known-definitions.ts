import type { AgentDefinition } from '../runs/definition.ts'
import { isWorkflow, type WorkflowDefinition } from '../runs/workflow/definition.ts'
import { faultLine } from '../runs/workflow/fault.ts'
import { nodesIn } from '../runs/workflow/tree.ts'
import { validateWorkflow, type KnownDefinition } from '../runs/workflow/validate.ts'
import type { ToolRegistry } from '../tools/registry.ts'

/** What keeps definitions of a config from being published, in words. They may start each other in any order. */
export function definitionFaults(
  definitions: readonly (AgentDefinition | WorkflowDefinition)[],
  registry: ToolRegistry,
): readonly string[] {
  const known = new Map(definitions.map((definition) => [definition.slug, knownOf(definition)]))
  return definitions.flatMap((definition) => {
    if (isWorkflow(definition))
      return validateWorkflow(definition, { registry, definitions: known }).map(
        (fault) => `workflow ${definition.slug}, ${faultLine(fault)}`,
      )
    return definition.tools
      .filter((tool) => registry.get(tool) === undefined)
      .map((tool) => `definition ${definition.slug} names the tool ${tool}, which does not exist`)
  })
}

function knownOf(definition: AgentDefinition | WorkflowDefinition): KnownDefinition {
  const inputSchema = definition.inputSchema ?? null
  if (!isWorkflow(definition)) return { tools: definition.tools, inputSchema, starts: [] }
  const nodes = nodesIn(definition.root)
  const tools = nodes.flatMap((node) => (node.kind === 'tool' ? [node.tool] : []))
  return { tools, inputSchema, starts: nodes.flatMap((node) => (node.kind === 'agent' ? [node.definition] : [])) }
}

/** Definitions in an order in which each is published after those it starts; the others keep theirs. */
export function inPublishingOrder<Definition extends AgentDefinition | WorkflowDefinition>(
  definitions: readonly Definition[],
): readonly Definition[] {
  const bySlug = new Map(definitions.map((definition) => [definition.slug, definition]))
  const ordered = new Set<Definition>()
  const place = (definition: Definition, above: ReadonlySet<string>): void => {
    if (ordered.has(definition) || above.has(definition.slug)) return
    const inside = new Set([...above, definition.slug])
    for (const slug of knownOf(definition).starts) {
      const started = bySlug.get(slug)
      if (started !== undefined) place(started, inside)
    }
    ordered.add(definition)
  }
  for (const definition of definitions) place(definition, new Set())
  return [...ordered]
}
