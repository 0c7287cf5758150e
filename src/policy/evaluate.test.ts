import { describe, expect, test } from 'vitest'
import type { FactType } from '../tools/handler.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { Expression, ExpressionContext } from './expression.ts'
import { compileExpression, ExpressionFault } from './expression.ts'

const FACTS: ReadonlyMap<string, FactType> = new Map([
  ['recipient_is_new', 'bool'],
  ['domain', 'string'],
  ['open_deals', 'int'],
  ['spent', 'double'],
  ['labels', 'list'],
  ['profile', 'map'],
])

function compiled(source: string): Expression {
  const result = compileExpression(source, { facts: FACTS })
  if (result.kind === 'invalid') throw new Error(result.message)
  return result.expression
}

function context(args: JsonObject, facts: Readonly<Record<string, JsonValue>> = {}): ExpressionContext {
  return {
    tool: 'email.send',
    egress: true,
    principal: { agent: 'outreach', user_id: 'u1', roles: ['sales'], scopes: ['email.send'], started_by: 'user' },
    run: { id: 'r1', source: 'console', step_path: 'agent', tainted: false, taint_sources: [] },
    arguments: args,
    facts,
  }
}

function answer(source: string, args: JsonObject = {}, facts: Readonly<Record<string, JsonValue>> = {}): boolean {
  return compiled(source).evaluate(context(args, facts))
}

function fault(
  source: string,
  args: JsonObject = {},
  facts: Readonly<Record<string, JsonValue>> = {},
): ExpressionFault {
  const expression = compiled(source)
  try {
    expression.evaluate(context(args, facts))
  } catch (error) {
    if (error instanceof ExpressionFault) return error
    throw error
  }
  throw new Error(`${source} has an answer`)
}

const json = (text: string): JsonObject => JSON.parse(text) as JsonObject

describe('a condition', () => {
  test('every function answers', () => {
    const args = json('{"s":"Straße 😀","to":["a","b"],"m":{"k":1},"n":7.9}')
    for (const source of [
      'size(arguments.s) == 8 && arguments.s.size() == 8',
      'size(arguments.to) == 2 && arguments.to.size() == 2',
      'size(arguments.m) == 1',
      'arguments.s.contains("aß") && arguments.s.startsWith("Str") && arguments.s.endsWith("😀")',
      '!arguments.s.contains("x") && !arguments.s.startsWith("tr") && !arguments.s.endsWith("ß")',
      'arguments.s.upperAscii() == "STRAßE 😀" && arguments.s.lowerAscii() == "straße 😀"',
      'arguments.s.glob("Str*😀") && !arguments.s.glob("Str")',
      'int(arguments.n) == 7 && int(-arguments.n) == -7 && int(3) == 3',
      'double(size(arguments.to)) == 2.0',
      'arguments.to.all(x, x < "c") && arguments.to.exists(x, x == "b") && arguments.to.exists_one(x, x == "b")',
      'size(arguments.to.filter(x, x == "a")) == 1',
      'arguments.to.map(x, x + "!") == ["a!", "b!"] && arguments.to.map(x, x == "a", x + "!") == ["a!"]',
      'arguments.m.all(key, key == "k")',
      'has(arguments.m.k) && !has(arguments.m.z)',
      '"a" in arguments.to && !("z" in arguments.to) && "k" in arguments.m',
      'principal.started_by == "user" && "sales" in principal.roles && principal.user_id != ""',
      'run.source == "console" && run.step_path == "agent" && run.id == "r1" && tool == "email.send"',
      'true ? arguments.n > 7 : false',
    ]) {
      expect({ source, answer: answer(source, args) }).toEqual({ source, answer: true })
    }
  })

  test('comparisons in parentheses say which comes first', () => {
    expect(
      answer('true == ("a" in ["a"]) && (1 < 2) == true && (( 1 ) < ( 2 )) == true && (true == false) in [false]'),
    ).toBe(true)
  })

  test('a field that is null is there', () => {
    expect(answer('has(arguments.a) && arguments.a == null && !has(arguments.b)', { a: null })).toBe(true)
  })

  test('case is folded for ASCII letters only: the Kelvin sign is no k', () => {
    expect(answer('arguments.s.lowerAscii() == "k"', { s: '\u212a' })).toBe(false)
    expect(answer('arguments.s.lowerAscii() == "k"', { s: 'K' })).toBe(true)
  })

  test('text is ordered by code point', () => {
    expect(answer('arguments.a > arguments.b', { a: '😀', b: '\uff41' })).toBe(true)
    expect(answer('arguments.a < arguments.b', { a: 'a', b: 'aa' })).toBe(true)
  })

  test('a glob over 256 characters is a fault', () => {
    expect(fault('tool.glob(arguments.g)', { g: '*'.repeat(257) }).message).toContain('at most 256')
  })

  test('two macros side by side are accepted', () => {
    expect(answer('arguments.a.all(x, x == 1) && arguments.a.exists(x, x == 1)', { a: [1] })).toBe(true)
  })
})

describe('arithmetic', () => {
  test.each([
    ['arguments.n + 1.0 > 3.0', true],
    ['arguments.n > 3 && arguments.n == 4 && arguments.n >= 4 && 4 <= arguments.n', true],
    ['arguments.n + double(size(arguments.to)) == 6.0', true],
    ['int(arguments.n) % 2 == 0', true],
    ['arguments.n + arguments.n == 8.0', true],
    ['open_deals + 1 == 8 && open_deals * 2 > size(arguments.to)', true],
    ['[1, 2].all(x, x + 1 > 1)', true],
    ['"a" + arguments.s == "ab"', true],
    ['arguments.to + ["c"] == ["a", "b", "c"]', true],
    ['-arguments.n == -4 && -open_deals == -7', true],
    ['7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1', true],
  ])('%s is %j', (source, result) => {
    expect(answer(source, { n: 4, s: 'b', to: ['a', 'b'] }, { open_deals: 7 })).toBe(result)
  })

  test.each([
    ['1 / int(arguments.zero) == 1', 'division by zero'],
    ['1 % int(arguments.zero) == 1', 'division by zero'],
    ['arguments.zero / arguments.zero > 5.0', 'not a finite number'],
    ['1.0 / arguments.zero > 5.0', 'not a finite number'],
    ['int(arguments.big) == 1', 'does not fit'],
    ['9007199254740991 * 9007199254740991 > 1', 'does not fit'],
    ['arguments.s - 1.0 > 0.0', '- is not defined between string and double'],
    ['arguments.s > 1', '> is not defined between string and int'],
  ])('%s has no answer: %s', (source, reason) => {
    expect(fault(source, { zero: 0, big: 1e300, s: 'a' }).message).toContain(reason)
  })
})

describe('a condition without an answer', () => {
  test.each([
    ['arguments.amount > 100', {}, 'no field amount'],
    ['arguments.a.b.c == 1', { a: {} }, 'no field b'],
    ['arguments.to[3] == "a"', { to: ['a'] }, 'no item'],
    ['arguments.to[-1] == "a"', { to: ['a'] }, 'no item'],
    ['arguments.to[arguments.i] == "a"', { to: ['a'], i: 0.5 }, 'no item'],
    ['arguments.to["0"] == "a"', { to: ['a'] }, 'indexed by a number'],
    ['arguments.to.length == 1', { to: ['a'] }, 'has no fields'],
    ['arguments["x"] == 1', {}, 'no value under that key'],
    ['has(arguments.to.x)', { to: 'text' }, 'string has no fields'],
    ['has(arguments.to.x)', { to: ['text'] }, 'list has no fields'],
    ['has(arguments.to.x.y)', { to: {} }, 'no field x'],
    ['arguments.n in arguments.m', { n: 1, m: { '1': true } }, 'keys of a map are strings'],
    ['arguments.m[arguments.n] == true', { n: 1, m: { '1': true } }, 'keys of a map are strings'],
    ['arguments.s.contains(arguments.n)', { s: 'a', n: 1 }, 'takes a string'],
    ['arguments.n.size() == 1', { n: 1 }, 'size() takes'],
    ['arguments.n.all(x, x == 1)', { n: 1 }, 'goes over a list'],
    ['arguments.flag && true', { flag: 1 }, 'a bool is needed'],
    ['!arguments.flag', { flag: 'true' }, undefined],
    ['(arguments.flag ? tool : tool) == tool', { flag: null }, 'a bool is needed'],
    ['arguments.to.exists(x, x.flag)', { to: [{ flag: 1 }] }, 'a bool is needed'],
    ['arguments.to.exists_one(x, x.a == 1)', { to: [{ a: 1 }, {}] }, 'no field a'],
    ['size(arguments.to.filter(x, x.a == 1)) > 0', { to: [{ a: 1 }, {}] }, 'no field a'],
    ['size(arguments.to.map(x, x.a)) > 0', { to: [{}] }, 'no field a'],
    ['arguments.n == null && arguments.n.x == 1', { n: null }, 'null has no fields'],
  ])('%s of %j raises a fault and is never false', (source, args, reason) => {
    const raised = fault(source, args)
    expect(raised.message).toContain(reason ?? 'bool')
    expect(raised.position).not.toBeNull()
  })

  test('a fault shows no value, not even a key that came with the call', () => {
    const secret = 'sk_live_51H8'
    const sources = [
      'arguments[arguments.k] == 1',
      'arguments.k > 1',
      'arguments.k.x == 1',
      'arguments.k == "a" ? false : arguments.k',
      'int(arguments.k) == 1',
    ]
    for (const source of sources) {
      const result = compileExpression(source, { facts: FACTS })
      if (result.kind === 'invalid') continue
      expect(fault(source, { k: secret }).message).not.toContain(secret)
    }
  })

  test('an operand that decides outweighs an error in the other, in both orders', () => {
    expect(answer('arguments.missing == 1 || true')).toBe(true)
    expect(answer('true || arguments.missing == 1')).toBe(true)
    expect(answer('arguments.missing == 1 && false')).toBe(false)
    expect(answer('false && arguments.missing == 1')).toBe(false)
    expect(answer('arguments.to.exists(x, x.a == 1)', { to: [{}, { a: 1 }] })).toBe(true)
    expect(answer('arguments.to.all(x, x.a == 1)', { to: [{}, { a: 2 }] })).toBe(false)
    expect(fault('arguments.missing == 1 || false').message).toContain('no field missing')
    expect(fault('true && arguments.missing == 1').message).toContain('no field missing')
    expect(fault('arguments.to.exists(x, x.a == 1)', { to: [{}, { a: 2 }] }).message).toContain('no field a')
    expect(fault('arguments.to.all(x, x.a == 1)', { to: [{}, { a: 1 }] }).message).toContain('no field a')
  })

  test.each([
    [{}, 'recipient_is_new is missing'],
    [{ recipient_is_new: 'yes' }, 'recipient_is_new is not a bool'],
    [{ recipient_is_new: null }, 'recipient_is_new is not a bool'],
    [{ recipient_is_new: 1 }, 'recipient_is_new is not a bool'],
  ] as const)('a missing or wrong fact %j is a fault even where the answer would not need it', (facts, reason) => {
    expect(fault('true || recipient_is_new', {}, facts).message).toContain(reason)
  })

  test('a fact must be its own property of what was resolved', () => {
    expect(fault('recipient_is_new', {}, Object.create({ recipient_is_new: true })).message).toContain('missing')
  })

  test.each([[1.5], [2 ** 53], ['7'], [null]])('an int fact that is %j is a fault', (value) => {
    expect(fault('open_deals > 1', {}, { open_deals: value }).message).toContain('not a int')
  })
})

describe('hostile arguments', () => {
  const hostile = json('{"__proto__":{"admin":true},"constructor":{"name":"x"},"hasOwnProperty":1,"toString":"t"}')

  test('names of the prototype chain are ordinary keys', () => {
    expect(answer('has(arguments.constructor)')).toBe(false)
    expect(answer('has(arguments.toString) || has(arguments.__proto__)')).toBe(false)
    expect(answer('"constructor" in arguments || "__proto__" in arguments')).toBe(false)
    expect(fault('arguments.constructor == 1').message).toContain('no field constructor')
    expect(fault('arguments.__proto__ == 1').message).toContain('no field __proto__')
    expect(fault('arguments["__proto__"] == 1').message).toContain('no value under that key')
    expect(fault('arguments.a.hasOwnProperty == 1', { a: {} }).message).toContain('no field hasOwnProperty')
    expect(
      answer(
        'arguments.constructor.name == "x" && arguments.__proto__.admin == true && arguments.toString == "t"',
        hostile,
      ),
    ).toBe(true)
    expect(answer('size(arguments) == 4 && arguments.exists(key, key == "__proto__")', hostile)).toBe(true)
  })

  test('maps are compared by their own keys', () => {
    expect(answer('arguments.a == arguments.b', json('{"a":{"__proto__":{}},"b":{"x":1}}'))).toBe(false)
    expect(answer('arguments.a == arguments.b', json('{"a":{"constructor":1},"b":{}}'))).toBe(false)
    expect(answer('arguments.a == arguments.b', json('{"a":{"__proto__":[1]},"b":{"__proto__":[1.0]}}'))).toBe(true)
  })

  test('a list of thousands is read in one go', () => {
    const to = Array.from({ length: 10_000 }, (_, index) => `person-${index}@example.com`)
    expect(
      answer('arguments.to.all(x, x.endsWith("@example.com") && !x.contains("evil") && size(x) < 100)', { to }),
    ).toBe(true)
    expect(answer('size(arguments.to) > 3 && "nobody" in arguments.to', { to })).toBe(false)
  })

  test.each([
    ['all against all', 'arguments.a.all(x, !(x in arguments.b))'],
    ['a copy for every item', 'arguments.a.all(x, size(arguments.a + arguments.b) > 1)'],
    ['a long text for every item', 'arguments.a.all(x, !arguments.text.contains(x))'],
    ['a glob for every item', 'arguments.a.all(x, !arguments.text.glob("*a*b*c*" + x))'],
    ['a search made to be slow', 'arguments.text.contains(arguments.needle)'],
    ['lists compared for every item', 'arguments.a.all(x, arguments.a == arguments.a)'],
    ['an error for every item', 'arguments.a.all(x, x.y == 1 || x.y == 2 || x.y == 3)'],
  ])('%s costs too much and is a fault that nothing outweighs', (_, source) => {
    const a = Array.from({ length: 5000 }, (_, index) => `a${index}`)
    const b = Array.from({ length: 5000 }, (_, index) => `b${index}`)
    const args = { a, b, text: 'a'.repeat(1_000_000), needle: `b${'a'.repeat(500_000)}` }
    expect(fault(source, args).message).toContain('too many steps')
    expect(fault(`${source} || true`, args).message).toContain('too many steps')
    expect(fault(`false || (${source})`, args).message).toContain('too many steps')
  })

  test('arguments nested deeper than the stack are a fault', () => {
    const deep = (): JsonValue => {
      let value: JsonValue = 1
      for (let level = 0; level < 50_000; level += 1) value = [value]
      return value
    }
    expect(fault('arguments.a == arguments.b || true', { a: deep(), b: deep() }).message).toContain('nested too deeply')
  })
})
