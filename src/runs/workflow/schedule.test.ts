import {
  array,
  assert,
  boolean,
  constant,
  constantFrom,
  infiniteStream,
  integer,
  letrec,
  nat,
  oneof,
  option,
  property,
  record,
  type Arbitrary,
} from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { JsonValue } from '../../tools/json.ts'
import { branch, end, map, parallel, sequence, tool } from './build.ts'
import type { WorkflowNode } from './definition.ts'
import { schedule, type Plan, type ReadyStep } from './schedule.ts'
import type { StepView } from './scope.ts'
import { itemPrefix, partsOf } from './tree.ts'

/** A workflow, the input that its branches and maps read, and which of its calls fail. */
interface Case {
  readonly root: WorkflowNode
  readonly input: JsonValue
  readonly fails: (path: string) => boolean
}

type Ended = { readonly ok: boolean; readonly error: string | null; readonly partial: string | null }

describe('the schedule of any workflow, in any order in which its calls come back', () => {
  test('makes the calls that a plain reading of it makes, each once, and comes to the same end', () => {
    assert(
      property(cases(), infiniteStream(nat(1_000)), (given, picks) => {
        const expected = interpret(given)
        const played = play(given, picks)
        expect(played.begun.toSorted()).toEqual(expected.calls.toSorted())
        expect(new Set(played.begun).size).toBe(played.begun.length)
        expect(played.end).toEqual(expected.end)
      }),
      { numRuns: 600 },
    )
  })

  test('begins nothing of a sequence before what stands in front of it is over', () => {
    assert(
      property(cases(), infiniteStream(nat(1_000)), (given, picks) => {
        const { events } = play(given, picks)
        for (const [before, after] of orderedPairs(given.root, '', given.input)) {
          const lastEnd = events.findLastIndex(({ what, path }) => what === 'over' && isUnder(path, before))
          const firstBegin = events.findIndex(({ what, path }) => what === 'begun' && isUnder(path, after))
          if (firstBegin !== -1) expect(lastEnd).toBeLessThan(firstBegin)
        }
      }),
      { numRuns: 300 },
    )
  })

  test('works on no more items of a map at a time than it may', () => {
    assert(
      property(integer({ min: 1, max: 4 }), nat(12), infiniteStream(nat(1_000)), (width, count, picks) => {
        const item = sequence('item', [call('a'), parallel('both', [call('b'), call('c')])])
        const root = map('m', { over: 'input', as: 'x', node: item, fanoutConcurrency: width, maxItems: 20 })
        const { widest } = play({ root, input: Array.from({ length: count }, (_, n) => n), fails: () => false }, picks)
        expect(widest.get('m') ?? 0).toBeLessThanOrEqual(width)
        if (count >= width) expect(widest.get('m')).toBe(width)
      }),
    )
  })

  test('is the same for the same steps', () => {
    assert(
      property(cases(), infiniteStream(nat(1_000)), (given, picks) => {
        play(given, picks, (plan, again) => expect(again).toEqual(plan))
      }),
      { numRuns: 100 },
    )
  })
})

describe('a container that is over', () => {
  test('says so in its row, and is not walked again', () => {
    const root = sequence('main', [branch('way', { when: 'input.yes', yes: end('stop', 'enough') }), call('behind')])
    const plan = schedule({ root }, { input: { yes: true }, steps: new Map() })
    expect(plan.ready).toEqual([])
    expect(plan.end).toEqual({ ok: true, error: null, partial: 'enough' })
    const steps = new Map(plan.containers.map(({ path, state, note, error }) => [path, view(state, note, error)]))
    expect(schedule({ root }, { input: null, steps }).end).toEqual(plan.end)
  })

  test.each([
    { what: 'a list that is none', over: 'input.name', code: 'expression_failed', message: 'a map goes over a list' },
    {
      what: 'a field that is not there',
      over: 'input.nothing',
      code: 'expression_failed',
      message: 'there is no field nothing',
    },
    {
      what: 'a longer list than it may take',
      over: 'input.list',
      code: 'too_many_items',
      message: 'the list has 3 items, and this map takes at most 2',
    },
  ])('fails a map over $what, before its first item', ({ over, code, message }) => {
    const root = map('m', { over, as: 'x', node: call('a'), fanoutConcurrency: 1, maxItems: 2 })
    const plan = schedule({ root }, { input: { name: 'n', list: [1, 2, 3] }, steps: new Map() })
    expect(plan).toMatchObject({ ready: [], end: { ok: false, error: { code, message } } })
  })
})

function call(id: string, more: { continueOnError?: boolean } = {}) {
  return tool(id, { tool: 'crm.note', args: {}, ...more })
}

function view(state: string, output: JsonValue, error: StepView['error']): StepView {
  return { state: state as StepView['state'], output, error, holdsPlace: state === 'running' }
}

/** Nodes by shape alone; ids are given when the tree is built, in the order of writing. */
type Shape =
  | { readonly kind: 'call' }
  | { readonly kind: 'sequence' | 'parallel'; readonly parts: readonly Shape[] }
  | { readonly kind: 'branch'; readonly flag: number; readonly yes: Shape; readonly no: Shape | null }
  | { readonly kind: 'map'; readonly list: number; readonly node: Shape; readonly width: number }

function cases(): Arbitrary<Case> {
  const shapes = letrec<{ shape: Shape }>((tie) => ({
    shape: oneof(
      { maxDepth: 4, depthSize: 'small' },
      constant<Shape>({ kind: 'call' }),
      record({
        kind: constantFrom<'sequence' | 'parallel'>('sequence', 'parallel'),
        parts: array(tie('shape'), { minLength: 1, maxLength: 3 }),
      }),
      record({
        kind: constant('branch' as const),
        flag: nat(2),
        yes: tie('shape'),
        no: option(tie('shape')),
      }),
      record({
        kind: constant('map' as const),
        list: nat(2),
        node: tie('shape'),
        width: integer({ min: 1, max: 3 }),
      }),
    ),
  })).shape
  const input = record({
    flags: array(boolean(), { minLength: 3, maxLength: 3 }),
    lists: array(array(nat(9), { maxLength: 3 }), { minLength: 3, maxLength: 3 }),
  })
  return record({ shape: shapes, input, salt: nat(1_000), failing: nat(4), goesOn: nat(3), ends: boolean() }).map(
    ({ shape, input: given, salt, failing, goesOn, ends }) => {
      const root = built(shape, { salt, goesOn, ends })
      return { root, input: given, fails: (path) => hash(path, salt) % 10 < failing }
    },
  )
}

function built(
  shape: Shape,
  how: { readonly salt: number; readonly goesOn: number; readonly ends: boolean },
): WorkflowNode {
  let count = 0
  const build = (part: Shape, mayEnd: boolean, before: string | null = null): WorkflowNode => {
    count += 1
    const id = `n${count}`
    const more = hash(id, how.salt + 1) % 4 < how.goesOn ? { continueOnError: true } : {}
    switch (part.kind) {
      case 'call':
        return mayEnd && how.ends && hash(id, how.salt + 2) % 5 === 0 ? end(id, 'ended') : call(id, more)
      case 'sequence': {
        const nodes: WorkflowNode[] = []
        for (const one of part.parts) nodes.push(build(one, mayEnd, nodes.at(-1)?.id ?? null))
        return sequence(id, nodes, more)
      }
      case 'parallel':
        return parallel(
          id,
          part.parts.map((one) => build(one, false)),
          more,
        )
      case 'branch': {
        const yes = build(part.yes, mayEnd)
        const other = part.no === null ? {} : { no: build(part.no, mayEnd) }
        const reads = before !== null && hash(id, how.salt + 3) % 2 === 0
        const when = reads ? `steps.${before}.ok` : `input.flags[${part.flag}]`
        return branch(id, { when, yes, ...other, ...more })
      }
      case 'map': {
        const node = build(part.node, false)
        const sizes = { fanoutConcurrency: part.width, maxItems: 10 }
        return map(id, { over: `input.lists[${part.list}]`, as: `x${count}`, node, ...sizes, ...more })
      }
    }
  }
  return build(shape, true)
}

function hash(text: string, salt: number): number {
  let value = 2_166_136_261 ^ salt
  for (const character of text) value = Math.imul(value ^ (character.codePointAt(0) ?? 0), 16_777_619) >>> 0
  return (value ^ (value >>> 13)) >>> 0
}

/** Reads a workflow as a person would, one node after the other. */
function interpret({ root, input, fails }: Case): { readonly calls: readonly string[]; readonly end: Ended } {
  const calls: string[] = []
  const given = input as { flags: boolean[]; lists: JsonValue[][] }
  interface Went {
    readonly ok: boolean
    readonly fatal: boolean
    readonly error: string | null
    readonly absorbed: boolean
    readonly ended: boolean
  }
  const fine: Went = { ok: true, fatal: false, error: null, absorbed: false, ended: false }
  const settle = (node: WorkflowNode, parts: readonly Went[]): Went => {
    const fatal = parts.find((part) => part.fatal)
    const absorbed = parts.some((part) => part.absorbed)
    if (fatal === undefined) return { ...fine, absorbed, ended: parts.some((part) => part.ended) }
    const goesOn = node.continueOnError === true
    return { ok: false, fatal: !goesOn, error: fatal.error, absorbed: absorbed || goesOn, ended: false }
  }
  const results = new Map<string, boolean>()
  const go = (node: WorkflowNode, prefix: string): Went => {
    const went = visit(node, prefix)
    results.set(`${prefix}${node.id}`, went.ok)
    return went
  }
  const visit = (node: WorkflowNode, prefix: string): Went => {
    const path = `${prefix}${node.id}`
    switch (node.kind) {
      case 'sequence': {
        const parts: Went[] = []
        for (const part of node.nodes) {
          const went = go(part, prefix)
          parts.push(went)
          if (went.fatal || went.ended) break
        }
        return settle(node, parts)
      }
      case 'parallel':
        return settle(
          node,
          node.branches.map((part) => go(part, prefix)),
        )
      case 'branch': {
        const read = /steps\.(\w+)/.exec(node.when)?.[1]
        const flag =
          read === undefined ? given.flags[Number(/\d/.exec(node.when)?.[0])] : results.get(`${prefix}${read}`)
        const side = flag === true ? node.yes : node.no
        return settle(node, side === undefined ? [] : [go(side, prefix)])
      }
      case 'map': {
        const list = given.lists[Number(/\d/.exec(node.over)?.[0])] ?? []
        return settle(
          node,
          list.map((_, index) => go(node.node, itemPrefix(path, index))),
        )
      }
      case 'end':
        return { ...fine, ended: true }
      case 'tool':
      case 'agent':
      case 'wait': {
        calls.push(path)
        if (!fails(path)) return fine
        const goesOn = node.continueOnError === true
        return { ok: false, fatal: !goesOn, error: path, absorbed: goesOn, ended: false }
      }
    }
  }
  const { fatal, error, absorbed, ended } = go(root, '')
  const partial = ended ? 'ended' : absorbed ? 'step_failed' : null
  return { calls, end: { ok: !fatal, error: fatal ? error : null, partial: fatal ? null : partial } }
}

interface Event {
  readonly what: 'begun' | 'over'
  readonly path: string
}

interface Played {
  readonly begun: readonly string[]
  readonly events: readonly Event[]
  readonly end: Ended
  /** Items of each map that had a call in flight at the same time. */
  readonly widest: ReadonlyMap<string, number>
}

/** Plays a schedule: begins what is ready, and lets any call that is in flight come back, or wait once, in any order. */
function play(
  given: Case,
  picks: Iterator<number>,
  compare: (plan: Plan, again: Plan) => void = () => undefined,
): Played {
  const steps = new Map<string, StepView>()
  const events: Event[] = []
  const inFlight: ReadyStep[] = []
  const waited = new Set<string>()
  const widest = new Map<string, number>()
  const next = (): number => picks.next().value as number
  for (;;) {
    const moment = { input: given.input, steps }
    const plan = schedule({ root: given.root }, moment)
    compare(plan, schedule({ root: given.root }, moment))
    for (const { path, state, note, error } of plan.containers) steps.set(path, view(state, note, error))
    if (plan.end !== null) {
      expect(inFlight).toEqual([])
      const { ok, error, partial } = plan.end
      const begun = events.filter(({ what }) => what === 'begun').map(({ path }) => path)
      return { begun, events, end: { ok, error: error?.message ?? null, partial: ok ? partial : null }, widest }
    }
    for (const step of plan.ready) {
      if (!waited.has(step.path)) events.push({ what: 'begun', path: step.path })
      steps.set(step.path, view('running', null, null))
      inFlight.push(step)
    }
    countItems(inFlight, widest)
    const [step] = inFlight.splice(next() % inFlight.length, 1)
    if (step === undefined) throw new Error('nothing is in flight, and nothing is over')
    if (!waited.has(step.path) && next() % 5 === 0) {
      // It waits for a person, who answers at once or after others have come back.
      waited.add(step.path)
      steps.set(step.path, view('ready', null, null))
      continue
    }
    events.push({ what: 'over', path: step.path })
    const failed = given.fails(step.path)
    const error = { code: 'unavailable', message: step.path } as const
    steps.set(step.path, failed ? view('failed', null, error) : view('completed', step.path, null))
  }
}

function countItems(inFlight: readonly ReadyStep[], widest: Map<string, number>): void {
  const items = new Map<string, Set<number>>()
  for (const step of inFlight)
    for (const { path, index } of step.items) items.set(path, (items.get(path) ?? new Set()).add(index))
  for (const [path, indexes] of items) widest.set(path, Math.max(widest.get(path) ?? 0, indexes.size))
}

/** Every two neighbours of every sequence, as paths. */
function orderedPairs(
  node: WorkflowNode,
  prefix: string,
  input: JsonValue,
): readonly (readonly [string[], string[]])[] {
  const lists = (input as { lists: JsonValue[][] }).lists
  const leaves = (part: WorkflowNode, at: string): string[] => {
    switch (part.kind) {
      case 'sequence':
        return part.nodes.flatMap((one) => leaves(one, at))
      case 'parallel':
        return part.branches.flatMap((one) => leaves(one, at))
      case 'branch':
        return partsOf(part).flatMap((one) => leaves(one, at))
      case 'map':
        return (lists[Number(/\d/.exec(part.over)?.[0])] ?? []).flatMap((_, index) =>
          leaves(part.node, itemPrefix(`${at}${part.id}`, index)),
        )
      default:
        return [`${at}${part.id}`]
    }
  }
  switch (node.kind) {
    case 'sequence':
      return [
        ...node.nodes
          .slice(1)
          .map((part, index): [string[], string[]] => [
            node.nodes.slice(0, index + 1).flatMap((one) => leaves(one, prefix)),
            leaves(part, prefix),
          ]),
        ...node.nodes.flatMap((part) => orderedPairs(part, prefix, input)),
      ]
    case 'parallel':
      return node.branches.flatMap((part) => orderedPairs(part, prefix, input))
    case 'branch':
      return partsOf(node).flatMap((part) => orderedPairs(part, prefix, input))
    case 'map':
      return (lists[Number(/\d/.exec(node.over)?.[0])] ?? []).flatMap((_, index) =>
        orderedPairs(node.node, itemPrefix(`${prefix}${node.id}`, index), input),
      )
    default:
      return []
  }
}

function isUnder(path: string, paths: readonly string[]): boolean {
  return paths.includes(path)
}
