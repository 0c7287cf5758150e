import type { CelInput } from '@bufbuild/cel'
import { celEnv, celMethod, CelScalar, isCelError, parse, plan } from '@bufbuild/cel'
import { strings } from '@bufbuild/cel/ext'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { FactType } from '../tools/handler.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { ExpressionContext } from './expression.ts'
import { compileExpression, ExpressionFault } from './expression.ts'
import { globMatches } from './glob.ts'

/**
 * Where the rule language is stricter than CEL requires, and the second implementation has an answer: `has()` of what
 * is no map, `in` with a key that is no string, `int()` of a text, arithmetic without a finite result. Everywhere else
 * both must agree that there is no answer.
 */
const STRICTER = /has\(|int\(| in |[-+*/]/

const FACTS: ReadonlyMap<string, FactType> = new Map([
  ['is_new', 'bool'],
  ['domain', 'string'],
  ['open_deals', 'int'],
  ['spent', 'double'],
  ['labels', 'list'],
  ['profile', 'map'],
])

const PRINCIPAL = {
  agent: 'outreach',
  user_id: '',
  roles: ['sales', 'admin'],
  scopes: ['email.send'],
  started_by: 'user',
}
const RUN = { id: 'r1', source: 'api', step_path: 'agent', tainted: true, taint_sources: ['web.fetch', 'mail.read'] }

interface Question {
  readonly args: JsonObject
  readonly facts: Readonly<Record<string, JsonValue>>
}

type Answer = { readonly kind: 'value'; readonly value: unknown } | { readonly kind: 'none'; readonly why: string }

const ENVIRONMENT = celEnv({
  funcs: [
    ...strings,
    celMethod('glob', CelScalar.STRING, [CelScalar.STRING], CelScalar.BOOL, function (pattern) {
      return globMatches(this, pattern)
    }),
  ],
})

function toCel(value: JsonValue): CelInput {
  if (Array.isArray(value)) return value.map(toCel)
  if (typeof value !== 'object' || value === null) return value
  return new Map(Object.entries(value).map(([key, item]) => [key, toCel(item)]))
}

function oracle(source: string, { args, facts }: Question): Answer {
  const values = Object.entries(facts).map(([name, value]): [string, CelInput] => [
    name,
    FACTS.get(name) === 'int' && typeof value === 'number' ? BigInt(value) : toCel(value),
  ])
  const bindings = {
    tool: 'email.send',
    egress: true,
    principal: toCel(PRINCIPAL),
    run: toCel(RUN),
    arguments: toCel(args),
    ...Object.fromEntries(values),
  }
  const result = plan(ENVIRONMENT, parse(source))(bindings)
  return isCelError(result) ? { kind: 'none', why: result.message } : { kind: 'value', value: result }
}

function ours(source: string, { args, facts }: Question): Answer | 'refused' {
  const compiled = compileExpression(source, { facts: FACTS })
  if (compiled.kind === 'invalid') return 'refused'
  const said = { principal: PRINCIPAL, run: RUN, arguments: args, facts }
  const context: ExpressionContext = { tool: 'email.send', egress: true, ...said }
  try {
    return { kind: 'value', value: compiled.expression.evaluate(context) }
  } catch (error) {
    if (error instanceof ExpressionFault) return { kind: 'none', why: error.message }
    throw error
  }
}

/**
 * A second implementation of CEL, by other people, answers the same condition on the same call. Says how the two
 * compare; what is none of {@link AGREED} is a contradiction, with everything needed to repeat it.
 */
function compare(source: string, question: Question): string {
  const mine = ours(source, question)
  if (mine === 'refused') return 'refused'
  const theirs = oracle(source, question)
  if (mine.kind === 'none') {
    if (theirs.kind === 'none') return 'both none'
    if (STRICTER.test(source)) return 'stricter'
  } else if (theirs.kind === 'value' && theirs.value === mine.value) {
    return 'same value'
  }
  const said = (answer: Answer): string => (answer.kind === 'value' ? String(answer.value) : `none (${answer.why})`)
  return `${source} on ${JSON.stringify(question)} is ${said(mine)} here and ${said(theirs)} there`
}

const AGREED = ['refused', 'same value', 'both none', 'stricter']

const EVERY_FACT = {
  is_new: true,
  domain: 'acme.com',
  open_deals: 3,
  spent: 12.5,
  labels: ['vip', 'eu'],
  profile: { tier: 'gold', score: 7 },
}

const SHAPES: readonly (readonly [source: string, args: JsonObject, answer: boolean])[] = [
  ['is_new && size(arguments.to) > 3', { to: ['a', 'b', 'c', 'd'] }, true],
  ['is_new && size(arguments.to) > 3', { to: ['a'] }, false],
  [
    "tool == 'email.send' && !arguments.to.all(x, x.endsWith('@' + domain))",
    { to: ['a@acme.com', 'b@evil.net'] },
    true,
  ],
  ["arguments.to.exists(x, x.lowerAscii().endsWith('@acme.com'))", { to: ['A@ACME.COM'] }, true],
  ["arguments.to.exists_one(x, x.glob('*@acme.*'))", { to: ['a@acme.io', 'b@acme.com'] }, false],
  ['arguments.amount > 1000', { amount: 1000.5 }, true],
  ['arguments.amount * 1.2 > spent + 100.0', { amount: 90 }, false],
  ['has(arguments.discount) && arguments.discount > 0.2', {}, false],
  ['has(arguments.discount) && arguments.discount > 0.2', { discount: 0.5 }, true],
  ['!has(arguments.cc) || size(arguments.cc) == 0', { cc: [] }, true],
  ["principal.started_by != 'user' || !('admin' in principal.roles)", {}, false],
  ["principal.user_id == '' && run.source == 'api'", {}, true],
  ['egress && run.tainted', {}, true],
  ["run.tainted && run.taint_sources.exists(s, s != 'crm.find')", {}, true],
  ["size(run.taint_sources) == 2 && 'web.fetch' in run.taint_sources && !run.tainted", {}, false],
  ["'vip' in labels && profile.tier == 'gold'", {}, true],
  ["has(profile.tier) && profile.tier in ['silver', 'gold']", {}, true],
  ['open_deals + size(arguments.items) >= 5', { items: [1, 2] }, true],
  ['int(arguments.count) % 2 == 0', { count: 4 }, true],
  [
    "arguments.items.exists(i, i.price > 100 && i.currency == 'EUR')",
    { items: [{ price: 200, currency: 'EUR' }] },
    true,
  ],
  [
    'arguments.items.map(i, i.price > 10, i.price) == [20, 30]',
    { items: [{ price: 20 }, { price: 5 }, { price: 30 }] },
    true,
  ],
  ['size(arguments.items.filter(i, i.price > 10)) > 1', { items: [{ price: 20 }, { price: 5 }] }, false],
  ['arguments.note == null || size(arguments.note) > 10', { note: null }, true],
  ['arguments.to[0] == arguments.from', { to: ['a'], from: 'a' }, true],
  ["arguments['reply-to'] != arguments.from", { 'reply-to': 'x', from: 'a' }, true],
  ["(arguments.urgent ? 'high' : 'low') == 'high'", { urgent: true }, true],
  ['arguments.meta.all(key, key.startsWith("x_"))', { meta: { x_a: 1, y_b: 2 } }, false],
  ['arguments.before == arguments.after', { before: { a: [1, { b: null }] }, after: { a: [1, { b: null }] } }, true],
  ['-arguments.balance > 100', { balance: -200 }, true],
  ['[1, 2] == arguments.pair', { pair: [1, 2] }, true],
]

describe('conditions as rules have them', () => {
  test.each(SHAPES)('%s of %j is %j for both implementations', (source, args, answer) => {
    const question = { args, facts: EVERY_FACT }
    expect(ours(source, question)).toEqual({ kind: 'value', value: answer })
    expect(compare(source, question)).toBe('same value')
  })

  test('every shape on the arguments of every other one contradicts nothing', () => {
    const seen = new Map<string, number>()
    for (const [source] of SHAPES) {
      for (const [, args] of SHAPES) {
        const outcome = compare(source, { args, facts: EVERY_FACT })
        expect(AGREED).toContain(outcome)
        seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
      }
    }
    expect(seen.get('same value')).toBeGreaterThan(200)
    expect(seen.get('both none')).toBeGreaterThan(200)
  })
})

describe('generated conditions', () => {
  // The library orders text by UTF-16 unit, which is not what CEL says, so text stays in the basic plane here.
  const text = fc.constantFrom('', 'a', 'b', 'ab', 'A', 'Ab@acme.com', 'b@evil.net', 'acme.com', 'é', 'K\u212a')
  const number = fc.constantFrom(0, 1, 2, 3, -1, 0.5, 2.5, 1e9, -0)
  const scalar: fc.Arbitrary<JsonValue> = fc.oneof(text, number, fc.boolean(), fc.constant(null))
  // The library says that has() of a field that is null is false, which is not what CEL says either.
  const present = fc.oneof(text, number, fc.boolean())
  const value: fc.Arbitrary<JsonValue> = fc.oneof(
    { weight: 3, arbitrary: scalar },
    fc.array(scalar, { maxLength: 4 }),
    fc.dictionary(fc.constantFrom('a', 'b', '1', 'constructor', '__proto__'), present, { maxKeys: 3 }),
  )
  /** Mostly what the name promises, at times anything. */
  const mostly = (promised: fc.Arbitrary<JsonValue>): fc.Arbitrary<JsonValue> =>
    fc.oneof({ weight: 8, arbitrary: promised }, { weight: 1, arbitrary: value })
  const item = fc.record(
    { price: fc.oneof(number, number, present), name: fc.oneof(text, text, present), flag: present },
    { requiredKeys: [] },
  )
  const question: fc.Arbitrary<Question> = fc.record({
    args: fc.record(
      {
        n: mostly(number),
        m: mostly(number),
        s: mostly(text),
        t: mostly(text),
        w: text,
        flag: mostly(fc.boolean()),
        to: mostly(fc.array(text, { maxLength: 4 })),
        items: mostly(fc.array(item, { maxLength: 4 })),
        map: mostly(fc.dictionary(fc.constantFrom('a', 'b'), present, { maxKeys: 2 })),
        any: value,
      },
      { requiredKeys: [] },
    ) as fc.Arbitrary<JsonObject>,
    facts: fc.record({
      is_new: fc.boolean(),
      domain: text,
      open_deals: fc.integer({ min: -3, max: 9 }),
      spent: number,
      labels: fc.array(text, { maxLength: 3 }),
      profile: fc.dictionary(fc.constantFrom('tier', 'score'), present, { maxKeys: 2 }),
    }),
  })

  const join = (...parts: readonly (string | fc.Arbitrary<string>)[]): fc.Arbitrary<string> =>
    fc
      .tuple(...parts.map((part) => (typeof part === 'string' ? fc.constant(part) : part)))
      .map((texts) => texts.join(''))
  const comparison = fc.constantFrom('==', '!=', '<', '<=', '>', '>=')
  const literalText = fc.constantFrom('""', '"a"', "'b'", '"@acme.com"', '"*@*.com"', '"?"', 'r"\\d"', '"\\u00e9"')

  /** Generators by the type they usually have. `x` stands for the item of the macro around it. */
  const grammar = fc.letrec<Record<'bool' | 'text' | 'json' | 'int' | 'list' | 'itemBool', string>>((tie) => {
    const pair = (
      left: fc.Arbitrary<string>,
      operator: string | fc.Arbitrary<string>,
      right: fc.Arbitrary<string>,
    ): fc.Arbitrary<string> => join('(', left, ' ', operator, ' ', right, ')')
    const quantifier = fc.constantFrom('all', 'exists', 'exists_one')
    return {
      bool: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom(
          'true',
          'false',
          'is_new',
          'arguments.flag == true',
          'has(arguments.w)',
          'has(arguments.map.a)',
          'has(profile.tier)',
          'has(arguments.any.a)',
          "('admin' in principal.roles)",
        ),
        pair(tie('bool'), fc.constantFrom('&&', '||', '==', '!='), tie('bool')),
        join('!(', tie('bool'), ')'),
        join('(', tie('bool'), ' ? ', tie('bool'), ' : ', tie('bool'), ')'),
        pair(tie('json'), comparison, tie('json')),
        pair(tie('json'), comparison, tie('int')),
        pair(tie('int'), comparison, tie('int')),
        pair(tie('text'), comparison, tie('text')),
        pair(tie('text'), 'in', tie('list')),
        pair(tie('json'), 'in', tie('list')),
        pair(tie('json'), 'in', fc.constantFrom('arguments.map', 'arguments.any', '[1, 2]', '["a", "b"]')),
        pair(tie('list'), fc.constantFrom('==', '!='), tie('list')),
        join(tie('text'), fc.constantFrom('.contains(', '.startsWith(', '.endsWith(', '.glob('), tie('text'), ')'),
        join(tie('list'), '.', quantifier, '(x, ', tie('itemBool'), ')'),
        join('arguments.map.', quantifier, '(x, ', tie('itemBool'), ')'),
      ),
      itemBool: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom(
          'x == "a"',
          'x != null',
          'x > 1',
          'x in ["a", "b"]',
          'x.price > 1',
          'has(x.price)',
          'x.flag',
          'x.name.contains("a")',
          'size(x) > 1',
          'x in arguments.to',
        ),
        join('(', tie('itemBool'), fc.constantFrom(' && ', ' || '), tie('itemBool'), ')'),
        join('!(', tie('itemBool'), ')'),
        join('x == ', tie('json')),
      ),
      text: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom(
          'arguments.s',
          'arguments.t',
          'domain',
          'tool',
          'principal.agent',
          'principal.user_id',
          'run.source',
        ),
        literalText,
        join(tie('text'), fc.constantFrom('.lowerAscii()', '.upperAscii()')),
        join('(', tie('text'), ' + ', tie('text'), ')'),
        join('arguments.to[', tie('int'), ']'),
        join('principal.roles[', fc.constantFrom('0', '1', '2'), ']'),
      ),
      json: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom(
          'arguments.n',
          'arguments.m',
          'arguments.s',
          'arguments.any',
          'arguments.any.a',
          'arguments["map"]["a"]',
          'arguments.missing',
          'profile.score',
          'labels[0]',
          'spent',
          '1.0',
          '0.5',
          'null',
          'arguments.map',
        ),
        join('(', tie('json'), fc.constantFrom(' + ', ' - ', ' * ', ' / '), tie('json'), ')'),
        join('-', fc.constantFrom('arguments.n', 'arguments.m', 'spent')),
        join('double(', tie('int'), ')'),
        join('arguments.items[', tie('int'), '].price'),
        join('(', tie('bool'), ' ? ', tie('json'), ' : ', tie('json'), ')'),
      ),
      int: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom('0', '1', '2', '3', 'open_deals', '0x10'),
        join('size(', fc.oneof(tie('text'), tie('list'), fc.constant('arguments.map')), ')'),
        join(tie('list'), '.size()'),
        join('(', tie('int'), fc.constantFrom(' + ', ' - ', ' * ', ' / ', ' % '), tie('int'), ')'),
        join('int(', fc.constantFrom('arguments.n', 'spent', 'open_deals'), ')'),
        join('-', fc.constantFrom('1', 'open_deals')),
      ),
      list: fc.oneof(
        { depthSize: 'small', withCrossShrink: true },
        fc.constantFrom(
          'arguments.to',
          'arguments.items',
          'labels',
          'principal.roles',
          'run.taint_sources',
          'arguments.any',
          '["a", "b"]',
          '[]',
        ),
        join('(', tie('list'), ' + ', tie('list'), ')'),
        join('arguments.to.filter(x, ', tie('itemBool'), ')'),
        join('arguments.to.map(x, ', fc.constantFrom('x', 'size(x)', 'x + "!"', 'x == "a"', 'x == "a", x'), ')'),
      ),
    }
  })

  test('neither contradicts the other, and ours has no answer only where it says so', () => {
    const seen = new Map<string, number>()
    fc.assert(
      fc.property(grammar.bool, question, (source, asked) => {
        const outcome = compare(source, asked)
        expect(AGREED).toContain(outcome)
        seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
      }),
      { numRuns: 6000 },
    )
    expect(seen.get('same value')).toBeGreaterThan(1500)
    expect(seen.get('both none')).toBeGreaterThan(300)
    expect(seen.get('stricter') ?? 0).toBeLessThan(300)
  })

  test('both read operators without parentheses alike', () => {
    const words = (text: string): fc.Arbitrary<string> => fc.constantFrom(...text.split(', '))
    const operand = words(
      'arguments.n, arguments.m, arguments.flag, arguments.s, arguments.to, 1.0, 2, true, -arguments.n, !arguments.flag, "a", ' +
        'size(labels), is_new, spent',
    )
    const operator = words('&&, ||, ==, !=, <, <=, >, >=, in, +, -, *, /, %, ? true :, ? arguments.flag :')
    const chain = fc
      .tuple(operand, fc.array(fc.tuple(operator, operand), { minLength: 1, maxLength: 6 }))
      .map(([first, rest]) => [first, ...rest.flat()].join(' '))
    const seen = new Map<string, number>()
    fc.assert(
      fc.property(chain, question, (source, asked) => {
        const outcome = compare(source, asked)
        expect(AGREED).toContain(outcome)
        seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
      }),
      { numRuns: 10_000 },
    )
    expect(seen.get('same value')).toBeGreaterThan(100)
  })
})
