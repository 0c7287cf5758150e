import { readFileSync } from 'node:fs'
import { glob } from 'node:fs/promises'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { FactType } from '../tools/handler.ts'
import type { CompiledExpression, Expression } from './expression.ts'
import { compileExpression, MAX_SOURCE_LENGTH } from './expression.ts'

const FACTS: ReadonlyMap<string, FactType> = new Map([
  ['recipient_is_new', 'bool'],
  ['domain', 'string'],
  ['open_deals', 'int'],
  ['spent', 'double'],
  ['labels', 'list'],
  ['profile', 'map'],
])

function compile(source: string): CompiledExpression {
  return compileExpression(source, { facts: FACTS })
}

function compiled(source: string): Expression {
  const result = compile(source)
  if (result.kind === 'invalid') throw new Error(result.message)
  return result.expression
}

function refusal(source: string): { readonly message: string; readonly part: string } {
  const result = compile(source)
  if (result.kind === 'compiled') throw new Error(`${source} was compiled`)
  const { message, position } = result
  return { message, part: position === null ? '' : source.slice(position.start, position.end) }
}

describe('the size of a condition', () => {
  test('text over 2,000 characters is refused before it is parsed', () => {
    const longest = `tool == "${'a'.repeat(MAX_SOURCE_LENGTH - 10)}"`
    expect(longest).toHaveLength(MAX_SOURCE_LENGTH)
    expect(compile(longest).kind).toBe('compiled')
    expect(refusal(`${longest} `).message).toContain('at most 2000 characters')
    expect(refusal(Array.from({ length: 20_001 }, () => 'true').join(' || ')).message).toContain('at most 2000')
    expect(refusal('('.repeat(100_000)).message).toContain('at most 2000')
  })

  test('200 parts are accepted and one more is refused', () => {
    const chain = (operands: number): string => Array.from({ length: operands }, () => 'true').join('||')
    expect(compile(chain(100)).kind).toBe('compiled')
    expect(refusal(chain(101)).message).toContain('too many parts')
  })

  test.each([
    ['parentheses', `${'('.repeat(25)}true${')'.repeat(25)}`],
    ['field access', `arguments${'.a'.repeat(25)} == 1`],
    ['lists', `${'['.repeat(25)}1${']'.repeat(25)} == arguments.a`],
    ['calls', `${'size('.repeat(25)}tool${')'.repeat(25)} == 1`],
    ['choices', `${'true ? true : ('.repeat(25)}true${')'.repeat(25)}`],
  ])('%s nested more than 20 deep are refused', (_, source) => {
    expect(refusal(source).message).toContain('nested too deeply')
  })

  test('a list of more than 100 elements is refused', () => {
    const list = (length: number): string => `size([${Array.from({ length }, () => '1').join(',')}]) > 0`
    expect(compile(list(100)).kind).toBe('compiled')
    expect(refusal(list(101)).message).toContain('list that is too long')
  })

  test('a map of more than 20 entries and a call with more than 8 arguments are refused', () => {
    expect(
      refusal(`{${Array.from({ length: 21 }, (_, key) => `"k${key}": 1`).join(',')}} == arguments`).message,
    ).toContain('map that is too large')
    expect(refusal(`size(${Array.from({ length: 9 }, () => '1').join(',')}) > 0`).message).toContain(
      'too many arguments',
    )
  })

  test('thousands of signs in a row are refused and do not exhaust the stack', () => {
    expect(refusal(`${'!'.repeat(1900)}true`).message).toContain('too many parts')
    expect(refusal(`${'-'.repeat(1900)}1 == 1`).message).toContain('too many parts')
  })

  test.each(['', '   ', '\n'])('an empty condition %j is refused', (source) => {
    expect(refusal(source).message).toContain('leave it out')
  })

  test('any text at all is compiled or refused, and never raises', () => {
    const words = [
      'tool',
      'arguments',
      '.',
      '(',
      ')',
      '[',
      ']',
      '{',
      '}',
      ':',
      '?',
      '"',
      "'",
      '\\',
      '==',
      '&&',
      '!',
      '-',
      '1',
      '1.5',
      '0x',
      'u',
      'in',
      'has',
      'all',
      ',',
      'b',
      'r',
      '//',
      '\n',
      '\u0000',
      '😀',
      'cel',
      'bind',
      '__proto__',
      'constructor',
      'import',
      'null',
    ]
    const soup = fc.array(fc.constantFrom(...words), { maxLength: 30 }).map((parts) => parts.join(' '))
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary', maxLength: 60 }), soup), (source) => {
        const result = compile(source)
        expect(result.kind === 'compiled' || result.message !== '').toBe(true)
      }),
      { numRuns: 3000 },
    )
  })
})

describe('functions', () => {
  test.each([
    ['tool.matches("(a+)+$")', 'glob'],
    ['arguments.to.matches(arguments.pattern)', 'glob'],
    ['matches(tool, "a")', 'glob'],
    ['cel.bind(x, tool, x == x)', 'no function bind'],
    ['timestamp("2026-01-01T00:00:00Z") == timestamp(0)', 'no function timestamp'],
    ['duration("1h") == duration("60m")', 'no function duration'],
    ['tool.split(",") == ["a"]', 'no function split'],
    ['["a"].join(",") == "a"', 'no function join'],
    ['tool.substring(1) == "a"', 'no function substring'],
    ['type(tool) == type("")', 'no function type'],
    ['dyn(tool) == 1', 'no function dyn'],
    ['string(1) == "1"', 'no function string'],
    ['bytes(tool) == bytes("a")', 'no function bytes'],
    ['tool.toLowerCase() == "a"', 'did you mean lowerAscii?'],
    ['tool.startWith("a")', 'did you mean startsWith?'],
    ['arguments.to.length() > 3', 'did you mean size?'],
    ['arguments.to.constructor("a") == 1', 'no function constructor'],
    ['tool.__proto__() == 1', 'no function __proto__'],
  ])('%s is refused: %s', (source, reason) => {
    expect(refusal(source).message).toContain(reason)
  })

  test.each([
    ['glob("a", "b")', 'text.glob("…")'],
    ['tool.glob()', 'text.glob("…")'],
    ['tool.int() == 1', 'int(value)'],
    ['size() == 1', 'size(value)'],
    ['tool.size(1) == 1', 'size(value)'],
    ['has(tool)', 'has(arguments.customer.id)'],
    ['arguments.to.all(x)', 'list.all(item, …)'],
  ])('%s written wrongly says how it is written', (source, usage) => {
    expect(refusal(source).message).toContain(usage)
  })

  test.each([
    ['b"a" == b"a"', 'bytes'],
    ['1u == 1u', 'unsigned'],
    ['{"a": 1} == arguments', 'cannot build a map'],
    ['arguments == {}', 'cannot build a map'],
    ['9007199254740992 < arguments.n', 'at most 9007199254740991'],
    ['int("12") == 12', 'takes a number'],
    ['double(tool) == 1.0', 'takes a number'],
  ])('%s is no part of the language', (source, reason) => {
    expect(refusal(source).message).toContain(reason)
  })

  test.each([
    'true == "a" in ["a"]',
    'true != 1 < 2',
    '1 < 2 == true',
    'true == (1) < 2',
    'arguments.a in [true] == true',
    '[1 < 2 == true] == [true]',
  ])('%s reads in two ways and is refused', (source) => {
    expect(refusal(source).message).toContain('put it in parentheses')
  })
})

describe('macros', () => {
  test.each([
    ['inside', 'arguments.a.all(x, arguments.b.all(y, x == y))'],
    ['inside, of another kind', 'arguments.a.exists(x, size(arguments.b.filter(y, x == y)) > 0)'],
    ['in front', 'arguments.a.filter(x, x > 1).all(y, y > 2)'],
    ['in front, behind a field', 'arguments.a.map(x, x)[0].all(y, y == 1)'],
    ['in the filter of a map', 'size(arguments.a.map(x, arguments.b.exists(y, x == y), x)) > 0'],
    ['in the value of a map', 'size(arguments.a.map(x, true, arguments.b.filter(y, x == y))) > 0'],
    ['six deep', 'arguments.a.all(p, p.all(q, q.all(r, r.all(s, s.all(t, t.all(u, u == 1))))))'],
  ])('a macro %s of another is refused', (_, source) => {
    expect(refusal(source).message).toContain('does not combine')
  })

  test.each(['tool', 'arguments', 'principal', 'run', 'domain'])(
    'an item cannot be called %s, which means something else',
    (name) => {
      expect(refusal(`arguments.a.all(${name}, ${name} == 1)`).message).toContain('use another name')
    },
  )

  test('the name of an item is known in its macro only', () => {
    expect(refusal('arguments.a.all(x, x == 1) && x == 1').message).toContain('there is no x')
    expect(refusal('x.all(x, x == 1)').message).toContain('there is no x')
  })
})

describe('what a condition answers', () => {
  test.each([
    ['arguments.flag', 'compare it'],
    ['arguments.to.map(x, x)[0]', 'compare it'],
    ['tool', 'answers a string'],
    ['size(tool)', 'answers a int'],
    ['principal.roles', 'answers a list'],
  ])('%s is refused because it is no bool', (source, reason) => {
    expect(refusal(source).message).toContain(reason)
  })

  test.each([
    ['principal.agent == 1', '== is not defined between string and int'],
    ['spent == 1', 'between double and int; write the whole number with .0'],
    ['tool + 1 == "a"', '+ is not defined between string and int'],
    ['"x" in tool', 'in is not defined between string and string'],
    ['principal.agent && true', 'bool operands'],
    ['tool.glob(1)', 'there is no string.glob(int)'],
    ['principal.agent.x == 1', 'a string has no fields'],
    ['principal.roles.x == "a"', "list index must be int, got 'string'"],
    ['open_deals.all(x, x == 1)', 'cannot be range of a comprehension'],
    ['[1, "a"].size() == 2', 'must have the same type'],
    ['(arguments.a == 1 ? 1 : "a") == 1', 'must have the same type'],
    ['!tool', '!string'],
  ])('a type that cannot fit is refused with a readable reason: %s', (source, reason) => {
    const { message, part } = refusal(source)
    expect(message).toContain(reason)
    expect(part).not.toBe('')
    expect(message).not.toMatch(/\$|undefined|\[object/)
  })

  test.each([
    ['tool == "a" &&', 'still missing', ''],
    ['tool = "a"', 'write == to compare', '='],
    ['tool == "a', 'no closing quote', '"a'],
    ['tool == import', 'word of the rule language', 'import'],
    ['tool == "a" tool', 'not expected', 'tool'],
    ['(tool == "a"', 'still missing', ''],
    ['tool == "a")', 'not expected', ')'],
    ['tool == "\\q"', 'invalid escape sequence', '\\q'],
  ])('%j says what is wrong and where', (source, reason, part) => {
    const found = refusal(source)
    expect(found.message).toContain(reason)
    expect(found.part).toBe(part)
  })
})

describe('names', () => {
  test.each([
    ['toool == "x"', 'there is no toool; did you mean tool?', 'toool'],
    ['tool == "a" && recipient_is_nev', 'did you mean recipient_is_new?', 'recipient_is_nev'],
    ['argument.to == 1', 'did you mean arguments?', 'argument'],
    ['is-new', 'there is no is', 'is'],
    ['string == tool', 'there is no string', 'string'],
    ['google.protobuf == 1', 'there is no google', 'google'],
    ['__proto__x == 1', 'there is no __proto__x', '__proto__x'],
    ['constructor == 1', 'there is no constructor', 'constructor'],
    ['toString == 1', 'there is no toString', 'toString'],
    ['principal.rolez == "x"', 'did you mean roles?', 'principal.rolez'],
    ['has(principal.rolez)', 'did you mean roles?', 'has(principal.rolez)'],
    ['principal.constructor == "x"', 'has no field constructor', 'principal.constructor'],
    ['run.sorce == "api"', 'did you mean source?', 'run.sorce'],
    ['run.tained', 'did you mean tainted?', 'run.tained'],
    ['size(run.taintSources) > 0', 'did you mean taint_sources?', 'run.taintSources'],
    ['principal["rolez"] == "x"', 'no such key: rolez', 'principal["rolez"]'],
    ['has(tool.x)', 'tool has none', 'has(tool.x)'],
    ['has(principal.agent.x)', 'principal has none', 'has(principal.agent.x)'],
    ['has(domain.x)', 'domain has none', 'has(domain.x)'],
  ])('%s is refused when it is saved', (source, reason, part) => {
    const found = refusal(source)
    expect(found.message).toContain(reason)
    expect(found.part).toBe(part)
  })

  test('a fact under a name that no fact can have cannot be read, and does no harm', () => {
    const facts = new Map<string, FactType>([
      ['import', 'bool'],
      ['is-new', 'bool'],
      ['tool', 'bool'],
      ['string', 'bool'],
      ['__proto__', 'bool'],
      ['ok', 'bool'],
    ])
    expect(compileExpression('ok', { facts }).kind).toBe('compiled')
    expect(compileExpression('tool', { facts }).kind).toBe('invalid')
    expect(compileExpression('string', { facts }).kind).toBe('invalid')
  })

  test('the facts a condition reads are listed once each, wherever they stand', () => {
    const source =
      'recipient_is_new && arguments.to.exists(x, x in labels || x == domain) && has(profile.tier) && domain != "a"'
    const { facts, factPositions } = compiled(source)
    expect(facts).toEqual(['domain', 'labels', 'profile', 'recipient_is_new'])
    expect([...factPositions].map(([name, at]) => source.slice(at.start, at.end) === name)).toEqual([
      true,
      true,
      true,
      true,
    ])
  })

  test('a field that is called like a fact is no fact', () => {
    expect(compiled('arguments.domain == "a"').facts).toEqual([])
  })
})

describe('arithmetic', () => {
  test.each([
    ['arguments.n + 1 > 3', 'write 1.0 instead of 1'],
    ['2 * arguments.n > 3', 'write 2.0 instead of 2'],
    ['arguments.n - -1 > 3', 'write -1.0 instead of -1'],
    ['arguments.items[0].price / 2 > 3', 'write 2.0 instead of 2'],
    ['(arguments.a + arguments.b) * 2 > 3', 'write 2.0 instead of 2'],
    ['arguments.n + size(arguments.to) > 3', 'write double(size(arguments.to))'],
    ['arguments.n + open_deals > 3', 'write double(open_deals)'],
    ['spent + 1 > 3.0', 'write 1.0 instead of 1'],
    ['arguments.items.all(x, x.price * 2 > 3)', 'write 2.0 instead of 2'],
    ['labels.all(x, x + 1 > 3)', 'write 1.0 instead of 1'],
    ['profile.score + 1 > 3', 'write 1.0 instead of 1'],
    ['arguments.n % 2 == 0', 'write int(arguments.n)'],
    ['10 % spent == 0', 'write int(spent)'],
  ])('%s would fail on every call and is refused', (source, remedy) => {
    expect(refusal(source).message).toContain(remedy)
  })
})

test('only this module reads the expression library', async () => {
  const importers: string[] = []
  let seen = 0
  for await (const file of glob('src/**/*.ts', { cwd: new URL('../..', import.meta.url) })) {
    seen += 1
    if (readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8').includes("from '@marcbachmann/cel-js'"))
      importers.push(file)
  }
  expect(seen).toBeGreaterThan(20)
  expect(importers.filter((file) => !file.endsWith('.test.ts'))).toEqual(['src/policy/expression.ts'])
})
