import { beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { DEFAULT_CEILINGS, type AgentDefinition } from '../runs/definition.ts'
import { agent, tool, workflow } from '../runs/workflow/index.ts'
import { internalTool } from '../tools/declarations.ts'
import { ok } from '../tools/models.ts'
import { buildRegistry, type ToolRegistry } from '../tools/registry.ts'
import { definitionFaults, inPublishingOrder } from './known-definitions.ts'

let registry: ToolRegistry

beforeAll(async () => {
  const input = z.object({})
  const handler = async () => ok({})
  registry = await buildRegistry([
    internalTool({ name: 'crm.list', description: 'List.', input, output: input, sideEffects: 'read', handler }),
  ])
})

const named = (slug: string, tools: readonly string[]): AgentDefinition => ({
  slug,
  instructions: 'Work.',
  tools,
  model: null,
  ceilings: DEFAULT_CEILINGS,
})
const starting = (slug: string, definition: string) =>
  workflow({ slug, ceilings: DEFAULT_CEILINGS, root: agent('run', { definition, input: null }) })

test('definitions of a config may start each other in whatever order they are written', () => {
  const definitions = [starting('outer', 'inner'), starting('inner', 'worker'), named('worker', ['crm.list'])]
  expect(definitionFaults(definitions, registry)).toEqual([])
  expect(inPublishingOrder(definitions).map(({ slug }) => slug)).toEqual(['worker', 'inner', 'outer'])
})

test('those that start each other in a circle are both refused, and still have an order', () => {
  const definitions = [starting('one', 'two'), starting('two', 'one')]
  expect(definitionFaults(definitions, registry)).toEqual([
    expect.stringContaining('workflow one, node run, definition: two starts this workflow again'),
    expect.stringContaining('workflow two, node run, definition: one starts this workflow again'),
  ])
  expect(inPublishingOrder(definitions)).toHaveLength(2)
})

test('every fault of agents and workflows is said at once', () => {
  const broken = workflow({ slug: 'flow', ceilings: DEFAULT_CEILINGS, root: tool('a', { tool: 'crm.lits', args: {} }) })
  expect(definitionFaults([named('agent', ['crm.gone']), broken], registry)).toEqual([
    'definition agent names the tool crm.gone, which does not exist',
    expect.stringContaining('did you mean crm.list?'),
  ])
})
