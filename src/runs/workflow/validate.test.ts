import { array, assert, constantFrom, property } from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { internalTool } from '../../tools/declarations.ts'
import type { JsonValue } from '../../tools/json.ts'
import { ok } from '../../tools/models.ts'
import { buildRegistry, type ToolRegistry } from '../../tools/registry.ts'
import { DEFAULT_CEILINGS } from '../definition.ts'
import {
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
  waitForSignal,
  waitUntil,
  workflow,
} from './build.ts'
import type { WorkflowNode } from './definition.ts'
import { validateWorkflow, type KnownDefinition } from './validate.ts'

let registry: ToolRegistry

beforeAll(async () => {
  const note = internalTool({
    name: 'crm.note',
    description: 'Write a note.',
    input: z.object({
      text: z.string().max(20),
      tags: z.array(z.string()).optional(),
      who: z.object({ id: z.int() }).optional(),
    }),
    output: z.object({ id: z.string() }),
    sideEffects: 'write',
    repeatable: false,
    handler: async () => ok({ id: 'n1' }),
  })
  registry = await buildRegistry([note])
})

const definitions: ReadonlyMap<string, KnownDefinition> = new Map([
  ['writer', { tools: ['crm.note'], inputSchema: null, starts: [] }],
  [
    'strict',
    {
      tools: [],
      inputSchema: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
      starts: [],
    },
  ],
  ['around', { tools: [], inputSchema: null, starts: ['flow'] }],
])

function faultsOf(root: WorkflowNode, output?: JsonValue) {
  const definition = workflow({
    slug: 'flow',
    ceilings: DEFAULT_CEILINGS,
    root,
    ...(output === undefined ? {} : { output }),
  })
  return validateWorkflow(definition, { registry, definitions })
}

const note = (id: string, args: JsonValue = { text: 'x' }) => tool(id, { tool: 'crm.note', args })
const each = (id: string, node: WorkflowNode, more: object = {}) =>
  map(id, { over: 'input.list', as: 'item', node, fanoutConcurrency: 2, maxItems: 10, ...more })

describe('what can be published', () => {
  test('a workflow of every kind of node, whose expressions read what has run before them', () => {
    const root = sequence('main', [
      note('first', { text: expr('input.text'), tags: ['a', expr('input.tag')] }),
      parallel('both', [
        waitForSignal('go', { name: 'go', timeoutS: 60 }),
        each('items', note('one', { text: expr('item.name + steps.first.output.id') })),
      ]),
      branch('way', {
        when: 'steps.go.output.received && size(steps.items.output) > 1',
        yes: agent('write', { definition: 'writer', input: expr('steps.go') }),
        no: end('stop', 'nobody'),
      }),
      waitUntil('then', '2026-05-04T10:00:00+02:00'),
      waitFor('pause', expr('input.seconds')),
      note('last', { text: expr('has(steps.write) ? "yes" : "no"'), who: optionalExpr('input.who') }),
    ])
    expect(faultsOf(root, { id: expr('steps.last.output.id'), all: expr('steps.items.output') })).toEqual([])
  })
})

describe('what is refused, with the node, the field and what to do', () => {
  test.each<readonly [string, WorkflowNode, Record<string, unknown>]>([
    [
      'a tool that does not exist',
      tool('a', { tool: 'crm.nota', args: {} }),
      { node: 'a', field: 'tool', remedy: 'did you mean crm.note?' },
    ],
    ['arguments that have drifted from the contract', note('a', { text: 'x', extra: 1 }), { node: 'a', field: 'args' }],
    [
      'a literal part that does not fit, beside an expression',
      note('a', { text: 'far too long to be a note', who: { id: expr('input') } }),
      { field: 'args.text' },
    ],
    [
      'a missing field, beside an expression',
      note('a', { who: { id: expr('input') } }),
      { field: 'args', message: 'text is missing' },
    ],
    [
      'an unknown field, beside an expression',
      note('a', { text: expr('input'), txet: 'x' }),
      { field: 'args', message: 'there is no field "txet"' },
    ],
    [
      'a definition that does not exist',
      agent('a', { definition: 'writre', input: null }),
      { field: 'definition', remedy: 'did you mean writer?' },
    ],
    [
      'an input that the definition does not take',
      agent('a', { definition: 'strict', input: {} }),
      { node: 'a', field: 'input' },
    ],
    [
      'a workflow that starts itself',
      agent('a', { definition: 'flow', input: null }),
      { field: 'definition', message: 'flow starts this workflow again' },
    ],
    [
      'a workflow that starts itself through another',
      agent('a', { definition: 'around', input: null }),
      { message: 'around starts this workflow again' },
    ],
    ['an expression that does not compile', note('a', { text: expr('input.') }), { node: 'a', field: 'args.text' }],
    [
      'an expression about nothing there is',
      note('a', { text: expr('inpt.text') }),
      { message: expect.stringContaining('did you mean input') },
    ],
    [
      'an object that only looks like an expression',
      note('a', { text: { $expr: 'input', more: 1 } }),
      { field: 'args.text' },
    ],
    [
      'a step that comes later',
      sequence('s', [note('a', { text: expr('steps.b.output.id') }), note('b')]),
      { node: 'a', message: expect.stringContaining('step b cannot be relied on') },
    ],
    ['a step beside it', parallel('p', [note('a', { text: expr('steps.b.output.id') }), note('b')]), { node: 'a' }],
    [
      'a step inside of a map',
      sequence('s', [each('m', note('a')), note('b', { text: expr('steps.a.output.id') })]),
      { node: 'b' },
    ],
    ['itself', note('a', { text: expr('steps.a.output.id') }), { node: 'a' }],
    [
      'a step that does not exist',
      sequence('s', [note('first'), note('b', { text: expr('steps.firt.output.id') })]),
      { remedy: 'did you mean first?' },
    ],
    [
      'all steps at once',
      sequence('s', [note('a'), note('b', { text: expr('size(steps) > 0 ? "x" : "y"') })]),
      { message: 'steps is read as a whole' },
    ],
    [
      'a condition that answers no bool',
      branch('b', { when: 'size(input)', yes: note('a') }),
      { node: 'b', field: 'when' },
    ],
    [
      'an item outside of its map',
      sequence('s', [each('m', note('a')), note('b', { text: expr('item.name') })]),
      { node: 'b' },
    ],
    [
      'two branches that wait',
      parallel('p', [waitFor('a', 1), sequence('s', [waitFor('b', 1)])]),
      { node: 'p', message: '2 branches hold a wait: a, s' },
    ],
    ['a wait inside of a map', each('m', waitFor('a', 1)), { node: 'a' }],
    ['an end inside of a map', each('m', end('a')), { node: 'a' }],
    ['an end inside of a parallel', parallel('p', [end('a'), note('b')]), { node: 'a' }],
    ['a side that is never taken', branch('b', { when: '1 > 2', yes: note('a') }), { node: 'a' }],
    ['another side that is never taken', branch('b', { when: 'true', yes: note('a'), no: note('c') }), { node: 'c' }],
    ['a map over nothing', each('m', note('a'), { over: '[]' }), { node: 'a' }],
    ['an empty sequence', sequence('s', []), { node: 's', field: 'nodes' }],
    ['an empty parallel', parallel('p', []), { node: 'p', field: 'branches' }],
    [
      'a node behind an end',
      sequence('s', [end('e'), note('a')]),
      { node: 'a', message: expect.stringContaining('behind an end') },
    ],
    [
      'a node behind two ends',
      sequence('s', [branch('b', { when: 'input', yes: end('e'), no: end('f') }), note('a')]),
      { node: 'a' },
    ],
    ['two nodes of one id', sequence('s', [note('a'), note('a')]), { node: 'a', field: 'id' }],
    ['an id that an expression cannot read', note('in'), { node: 'in', field: 'id' }],
    ['an id that is none', note('Nope'), { node: null, field: 'root.id' }],
    ['an item that hides something', each('m', note('a'), { as: 'steps' }), { node: 'm', field: 'as' }],
    ['an item that hides the one around it', each('m', each('n', note('a'))), { node: 'n', field: 'as' }],
    ['too wide a fan-out', each('m', note('a'), { fanoutConcurrency: 21 }), { field: 'fanoutConcurrency' }],
    ['too many items', each('m', note('a'), { maxItems: 1_001 }), { field: 'maxItems' }],
    ['half an item', each('m', note('a'), { maxItems: 1.5 }), { field: 'maxItems' }],
    ['no instant', waitUntil('w', 'tomorrow'), { node: 'w', field: 'until' }],
    ['a negative wait', waitFor('w', -1), { node: 'w', field: 'forS' }],
    ['two waits in one', { kind: 'wait', id: 'w', forS: 1, until: '2026-05-04T10:00:00Z' }, { field: 'root' }],
    ['what has no kind', { id: 'a' } as unknown as WorkflowNode, { node: null }],
    ['what is no node at all', null as unknown as WorkflowNode, { node: null }],
  ])('%s', (_what, root, fault) => {
    expect(faultsOf(root)).toContainEqual(expect.objectContaining(fault))
  })

  test('everything at once', () => {
    const root = sequence('s', [note('a', { text: 1 }), tool('b', { tool: 'no.tool', args: {} }), waitUntil('w', 'x')])
    const found = faultsOf(root, expr('steps.c.ok')).map(({ node }) => node)
    expect(new Set(found)).toEqual(new Set(['a', 'b', 'w', null]))
  })

  test('more nodes, or deeper ones, than a workflow may have, however they are nested', () => {
    const many = sequence(
      's',
      Array.from({ length: 200 }, (_, index) => note(`n${index}`)),
    )
    expect(faultsOf(many)).toMatchObject([{ field: 'root', message: expect.stringContaining('201 nodes') }])
    let deep: WorkflowNode = note('leaf')
    for (let level = 0; level < 12; level += 1) deep = sequence(`s${level}`, [deep])
    expect(faultsOf(deep)).toMatchObject([{ field: 'root', message: expect.stringContaining('more than 12 deep') }])
    for (let level = 12; level < 5_000; level += 1) deep = sequence(`s${level}`, [deep])
    expect(faultsOf(deep)).toHaveLength(1)
    let nested: JsonValue = 'x'
    for (let level = 0; level < 100_000; level += 1) nested = [nested]
    expect(faultsOf(note('a', nested))).toHaveLength(1)
  })

  test('and never raises, whatever comes', () => {
    const words = constantFrom<JsonValue>(
      'tool',
      'map',
      null,
      1,
      {},
      [],
      { kind: 'map' },
      { $expr: 1 },
      { kind: 'sequence', nodes: [{}] },
    )
    assert(
      property(array(words, { maxLength: 6 }), (parts) => {
        const root = Object.fromEntries(
          ['kind', 'id', 'nodes', 'node', 'args', 'yes'].map((key, index) => [key, parts[index] ?? null]),
        )
        expect(faultsOf(root as unknown as WorkflowNode).length).toBeGreaterThan(0)
      }),
    )
  })
})
