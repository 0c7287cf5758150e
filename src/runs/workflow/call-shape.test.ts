import { describe, expect, test } from 'vitest'
import { widestReach } from '../../usage/vendor-arithmetic.ts'
import { agent, branch, end, map, parallel, sequence, tool } from './build.ts'
import { callShapeOf } from './call-shape.ts'
import type { WorkflowNode } from './definition.ts'

const vendors: Readonly<Record<string, readonly string[]>> = { 'exa.search': ['exa'], 'hunter.find': ['hunter'] }
const exa = (id: string) => tool(id, { tool: 'exa.search', args: {} })
const free = (id: string) => tool(id, { tool: 'crm.note', args: {} })
const each = (id: string, node: WorkflowNode, fanoutConcurrency: number) =>
  map(id, { over: 'input', as: 'x', node, fanoutConcurrency, maxItems: 1_000 })

describe('R31 how far one run of a workflow can reach at a vendor', () => {
  test.each<[string, WorkflowNode, number]>([
    ['a node is one call', exa('a'), 1],
    ['a tool without a vendor is none', free('a'), 0],
    ['a map is as wide as its fan-out, however many items it has', each('m', exa('a'), 7), 7],
    ['a map of a map multiplies', each('m', each('n', exa('a'), 3), 4), 12],
    [
      'a sequence and a branch take the furthest part',
      sequence('s', [each('m', exa('a'), 3), branch('b', { when: 'input', yes: exa('c'), no: end('e') })]),
      3,
    ],
    ['a run that a node starts counts in its own lane', agent('a', { definition: 'exa-heavy', input: null }), 0],
  ])('%s', (_what, root, calls) => {
    expect(
      widestReach(
        callShapeOf({ root }, (name) => vendors[name] ?? []),
        'exa',
      ),
    ).toBe(calls)
  })

  test('T46 two wide nodes that can run in parallel add up', () => {
    const root = parallel('p', [each('m', exa('a'), 5), each('n', sequence('s', [free('b'), exa('c')]), 4)])
    expect(
      widestReach(
        callShapeOf({ root }, (name) => vendors[name] ?? []),
        'exa',
      ),
    ).toBe(9)
  })
})
