import { describe, expect, test } from 'vitest'
import { validateArguments } from './arguments.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { SCHEMA_LIMITS } from './schema-admission.ts'
import { compileSchema, schemaProblems } from './schema.ts'

/** What the library that compiles schemas gets wrong on its own. */

function verdict(schema: JsonValue, value: unknown): string {
  expect(schemaProblems(schema as JsonObject, 'output')).toEqual([])
  const answer = compileSchema(schema as JsonObject).validate(value)
  return answer.kind === 'valid' ? 'valid' : answer.message
}

const problems = (schema: JsonObject): string => schemaProblems(schema, 'output').join('\n')
/** By way of text, so that `__proto__` is a field like any other. */
const json = (text: string): JsonObject => JSON.parse(text) as JsonObject
const many = <Item>(count: number, make: (index: number) => Item): Item[] =>
  Array.from({ length: count }, (_, i) => make(i))

describe('members that only the library knows', () => {
  test('$async does not turn a verdict into a promise, which would hold for any value', () => {
    for (const $async of [true, 'yes', {}]) {
      const schema = { $async, type: 'object', properties: { to: { type: 'string' } }, required: ['to'] }
      expect(verdict(schema, { to: 1 })).toBe('/to must be string')
      expect(verdict(schema, { to: 'a' })).toBe('valid')
      expect(validateArguments(schema, { cc: 'a' }).kind).toBe('invalid')
    }
    const inside = {
      $defs: { a: { $async: true, type: 'string' } },
      properties: { a: { $ref: '#/$defs/a' }, b: { $async: true, const: 1 } },
    }
    expect(verdict(inside, { a: 1 })).toBe('/a must be string')
    expect(verdict(inside, { b: 2 })).toBe('/b must be 1')
  })

  test.each<[string, { schema: JsonObject; good: JsonValue; bad: JsonValue }]>([
    ['id', { schema: { id: 'http://example.com/x', type: 'string' }, good: 'a', bad: 1 }],
    ['nullable without a type', { schema: { nullable: true, anyOf: [{ type: 'string' }] }, good: 'a', bad: null }],
    ['nullable that is no boolean', { schema: { nullable: 'yes', type: 'string' }, good: 'a', bad: null }],
    ['discriminator', { schema: { discriminator: { propertyName: 'a' }, required: ['a'] }, good: { a: 1 }, bad: {} }],
    [
      '$data',
      {
        schema: { properties: { a: { const: { $data: '1/b' } } } },
        good: { a: { $data: '1/b' }, b: 1 },
        bad: { a: 1, b: 1 },
      },
    ],
    [
      'formatMinimum',
      { schema: { format: 'date', formatMinimum: '2030-01-01' }, good: '2026-01-01', bad: '2026-13-01' },
    ],
    ['our own step', { schema: { 'x-bailiff-step': 'no', type: 'string' }, good: 'a', bad: 1 }],
    [
      'a wrong $vocabulary',
      { schema: { $vocabulary: { 'http://x.example': true }, type: 'string' }, good: 'a', bad: 1 },
    ],
    [
      'an anchor given twice',
      { schema: { $defs: { a: { $anchor: 'x' }, b: { $anchor: 'x' } }, type: 'string' }, good: 'a', bad: 1 },
    ],
  ])('%s changes nothing', (_name, { schema, good, bad }) => {
    expect(verdict(schema, good)).toBe('valid')
    expect(verdict(schema, bad)).not.toBe('valid')
  })
})

describe('names of members that every object has', () => {
  const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf']
  const holding = (name: string, value: JsonValue): JsonObject =>
    json(`{${JSON.stringify(name)}:${JSON.stringify(value)}}`)

  test.each(names)('%s is required, described and refused like any other', (name) => {
    expect(verdict({ required: [name] }, {})).toContain(name)
    expect(verdict({ required: [name] }, holding(name, 1))).toBe('valid')
    expect(verdict({ properties: holding(name, { type: 'string' }) }, {})).toBe('valid')
    expect(verdict({ properties: holding(name, { type: 'string' }) }, holding(name, 1))).toBe(`/${name} must be string`)
    expect(verdict({ properties: holding(name, true), additionalProperties: false }, holding(name, 1))).toBe('valid')
    expect(verdict({ properties: { a: true }, additionalProperties: false }, holding(name, 1))).toContain(name)
    expect(verdict({ patternProperties: holding(name, { type: 'string' }) }, holding(name, 1))).not.toBe('valid')
    expect(verdict({ propertyNames: { maxLength: 3 } }, holding(name, 1))).toContain(name)
    expect(verdict({ dependentRequired: holding(name, ['b']) }, holding(name, 1))).not.toBe('valid')
    expect(verdict({ dependentRequired: holding(name, ['b']) }, {})).toBe('valid')
    expect(verdict({ dependentSchemas: holding(name, false) }, holding(name, 1))).not.toBe('valid')
    expect(verdict({ dependentSchemas: holding(name, false) }, {})).toBe('valid')
    expect(verdict({ minProperties: 1 }, holding(name, 1))).toBe('valid')
  })

  test.each(names)('%s counts as unevaluated until something has evaluated it', (name) => {
    const closed = {
      anyOf: [{ required: ['kind'], properties: { kind: true } }, { properties: { more: true } }],
      unevaluatedProperties: false,
    }
    expect(verdict(closed, holding(name, 1))).toContain(name)
    expect(verdict({ ...closed, properties: holding(name, true) }, { kind: 1 })).toBe('valid')
  })

  test.each(names)('a value with the field %s is compared and not asked', (name) => {
    const value = holding(name, { a: 1 })
    for (const schema of [
      { enum: [{ a: 1 }, value] },
      { const: value },
      { items: { enum: [value] } },
      { not: { const: 1 } },
    ]) {
      expect(verdict(schema, 'items' in schema ? [value] : value)).toBe('valid')
    }
    expect(verdict({ enum: [{ a: 1 }] }, value)).toContain('must be one of')
    expect(verdict({ const: {} }, value)).not.toBe('valid')
    expect(verdict({ uniqueItems: true }, [value, {}, holding(name, 2)])).toBe('valid')
    expect(verdict({ uniqueItems: true }, [value, 1, value])).toContain('twice')
    expect(({} as Record<string, unknown>)['a']).toBeUndefined()
  })
})

describe('what was evaluated', () => {
  test('by one item of a list says nothing about the next', () => {
    const kind = (name: string, extra: JsonObject): JsonObject => ({
      properties: { kind: { const: name }, ...extra },
      required: ['kind'],
    })
    const rows = { items: { anyOf: [kind('x', { extra: true }), kind('y', {})], unevaluatedProperties: false } }
    expect(verdict(rows, [{ kind: 'x', extra: 1 }, { kind: 'y' }])).toBe('valid')
    expect(
      verdict(rows, [
        { kind: 'x', extra: 1 },
        { kind: 'y', extra: 1 },
      ]),
    ).toContain('"extra"')
    const tuples = {
      items: {
        anyOf: [{ prefixItems: [{ const: 'x' }, true] }, { prefixItems: [{ const: 'y' }] }],
        unevaluatedItems: false,
      },
    }
    expect(verdict(tuples, [['x', 1], ['y']])).toBe('valid')
    expect(
      verdict(tuples, [
        ['x', 1],
        ['y', 1],
      ]),
    ).toContain('/1')
  })

  test('by an alternative that failed does not count', () => {
    const schema = {
      anyOf: [true, { type: 'integer', patternProperties: { '^a$': true } }],
      unevaluatedProperties: false,
    }
    expect(verdict(schema, { a: 1 })).toContain('"a"')
    const conditional = { if: { properties: { a: { const: 1 } }, required: ['a'] }, unevaluatedProperties: false }
    expect(verdict(conditional, { a: 1 })).toBe('valid')
    expect(verdict(conditional, { a: 2 })).toContain('"a"')
    expect(
      verdict({ anyOf: [{ items: { type: 'string' } }, true], unevaluatedItems: { type: 'boolean' } }, ['yes', false]),
    ).not.toBe('valid')
  })

  test('beside a pattern and an alternative is counted without a crash', () => {
    const schema = {
      anyOf: [{ required: ['b'], properties: { b: true } }, true],
      patternProperties: { '^a': true },
      unevaluatedProperties: false,
    }
    expect(verdict(schema, { a: 1 })).toBe('valid')
    expect(verdict(schema, { a: 1, b: 2 })).toBe('valid')
    expect(verdict(schema, { c: 1 })).toContain('"c"')
    expect(verdict({ anyOf: [{ required: ['b'] }, true], patternProperties: { '^a': true } }, { a: 1 })).toBe('valid')
  })

  test('by contains cannot be told, so the schema is refused', () => {
    expect(problems({ contains: { const: 1 }, unevaluatedItems: false })).toContain('contains')
    const old = { $schema: 'http://json-schema.org/draft-07/schema#', contains: { const: 1 }, unevaluatedItems: false }
    expect(verdict(old, [1, 2])).toBe('valid')
  })
})

describe('enums', () => {
  test('up to the limit are compiled, and more are refused whatever they hold', () => {
    const values = many(SCHEMA_LIMITS.enumValues, (index) => (index % 2 === 0 ? { index } : `v${index}`))
    expect(verdict({ enum: values }, { index: 1_998 })).toBe('valid')
    expect(verdict({ enum: values }, { index: 1_999 })).toContain('must be one of')
    expect(problems({ enum: many(2_001, () => 0) })).toContain('2001 enum values')
    expect(problems({ enum: many(100_000, (index) => index) })).toMatch(/larger than|enum values/)
  })

  test('tell one type from another, and a number from its other spellings not', () => {
    const schema = { enum: ['1', 1.5, true, null, [], {}] }
    for (const value of ['1', 1.5, true, null, [], {}]) expect(verdict(schema, value)).toBe('valid')
    for (const value of [1, '1.5', 'true', 'null', false, [[]], { a: 1 }, '[]'])
      expect(verdict(schema, value)).not.toBe('valid')
    expect(verdict({ const: 0 }, -0)).toBe('valid')
    expect(verdict({ const: 1 }, 1.0)).toBe('valid')
    expect(verdict({ enum: [] }, 1)).not.toBe('valid')
  })
})

describe('numbers', () => {
  test.each<[number, number, boolean]>([
    [19.99, 0.01, true],
    [19.999, 0.01, false],
    [0.3, 0.1, true],
    [0.30000000000000004, 0.1, false],
    [4.35, 0.01, true],
    [1e308, 0.5, true],
    [1e308, 0.123456789, false],
    [1e308, 1e-308, true],
    [5e-324, 5e-324, true],
    [1e-9, 1e-10, true],
    [1.5e-10, 1e-10, false],
    [-7.5, 2.5, true],
    [0, 0.01, true],
    [9007199254740991, 2, false],
    [1.5e19, 10, true],
  ])('%d in steps of %d: %s', (value, multipleOf, expected) => {
    expect(verdict({ multipleOf }, value) === 'valid').toBe(expected)
  })
})
