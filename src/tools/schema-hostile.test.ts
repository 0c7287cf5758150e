import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from 'vitest'
import { validateArguments } from './arguments.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { SCHEMA_LIMITS } from './schema-admission.ts'
import { compileSchema, schemaProblems, SchemaRefusedError } from './schema.ts'

/** No test here looks at a clock: what would run without end fails by the limit of the test run. */

function verdict(schema: JsonValue, value: unknown): string {
  expect(schemaProblems(schema as JsonObject, 'output')).toEqual([])
  const answer = compileSchema(schema as JsonObject).validate(value)
  return answer.kind === 'valid' ? 'valid' : answer.message
}

function problems(schema: JsonValue): string {
  const found = schemaProblems(schema as JsonObject, 'output').join('\n')
  expect(() => compileSchema(schema as JsonObject)).toThrow(SchemaRefusedError)
  return found
}

/** By way of text, so that `__proto__` is a field like any other. */
const json = (text: string): JsonObject => JSON.parse(text) as JsonObject
const many = <Item>(count: number, make: (index: number) => Item): Item[] =>
  Array.from({ length: count }, (_, i) => make(i))
const fields = (count: number, make: (index: number) => JsonValue): JsonObject =>
  Object.fromEntries(many(count, (index) => [`f${index}`, make(index)]))
const nested = (levels: number, wrap: (inner: JsonValue) => JsonValue, innermost: JsonValue = 'end'): JsonValue => {
  let value = innermost
  for (let level = 0; level < levels; level++) value = wrap(value)
  return value
}

describe('patterns', () => {
  test.each([
    ['^(a+)+$', `${'a'.repeat(200_000)}!`],
    ['^(a|aa)+$', `${'a'.repeat(100_000)}!`],
    ['^(a*)*b$', 'a'.repeat(100_000)],
    [String.raw`^(\w+\s?)*$`, `${'word '.repeat(20_000)}!`],
    [
      String.raw`^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$`,
      'a'.repeat(20_000),
    ],
    ['(x+x+)+y', 'x'.repeat(100_000)],
    ['^(?:[a-z]{1,100}){1,10}$', `${'a'.repeat(5_000)}!`],
    [String.raw`^(\p{L}+)*$`, `${'é'.repeat(50_000)}1`],
  ])('%s answers on text made against it', (pattern, text) => {
    expect(verdict({ type: 'string', pattern }, text)).toMatch(/must match pattern|too long to validate/)
    expect(verdict({ patternProperties: { [pattern]: false } }, { [text]: 1 })).toBe('valid')
  })

  test('two in one schema stay two, in values and in names', () => {
    const schema = {
      properties: { a: { pattern: '^(a+)+$' }, b: { pattern: '^b$' } },
      patternProperties: { '^x': { const: 1 }, '^y': { const: 2 } },
    }
    expect(verdict(schema, { a: 'aaaa!', b: 'b' })).toContain('/a')
    expect(verdict(schema, { a: 'a', b: 'a' })).toContain('/b')
    expect(verdict(schema, { x: 1, y: 2 })).toBe('valid')
    expect(verdict(schema, { x: 2, y: 2 })).toContain('/x')
    expect(verdict(schema, { x: 1, y: 1 })).toContain('/y')
  })

  test('are refused together when they are too large to compile, before one is', () => {
    const page = fields(200, (index) => ({ type: 'string', pattern: `^[a-z]{1,${800 + index}}$` }))
    expect(problems({ type: 'object', properties: page })).toBe('its patterns are too large together')
  })

  test('with Unicode properties and characters beyond the basic plane are enforced', () => {
    expect(verdict({ pattern: String.raw`^\p{Lu}\p{Letter}+$` }, 'Émile')).toBe('valid')
    expect(verdict({ pattern: String.raw`^\p{Lu}\p{Letter}+$` }, 'émile')).not.toBe('valid')
    expect(verdict({ pattern: '^🐲{2}$' }, '🐲🐲')).toBe('valid')
    expect(verdict({ patternProperties: { [String.raw`^\p{Nd}+$`]: { const: 1 } } }, { '٣': 2 })).toContain('must be 1')
  })
})

describe('composition', () => {
  const doubled = (link: (next: JsonValue) => JsonValue, levels = 20): JsonObject => {
    const definitions = many(levels, (level) => [`d${level}`, link({ $ref: `#/$defs/d${level + 1}` })] as const)
    const $defs = { ...Object.fromEntries(definitions), [`d${levels}`]: { type: 'string' } }
    return { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs }
  }

  test.each<[string, (next: JsonValue) => JsonValue]>([
    ['allOf', (next) => ({ allOf: [next, next] })],
    ['anyOf', (next) => ({ anyOf: [next, next] })],
    ['oneOf', (next) => ({ oneOf: [next, next] })],
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
    ['if and then', (next) => ({ if: next, then: next })],
    ['if and else', (next) => ({ if: next, else: next })],
    ['not beside anyOf', (next) => ({ not: next, anyOf: [next] })],
    ['dependentSchemas', (next) => ({ dependentSchemas: { a: next, b: next } })],
    ['a reference beside allOf', (next) => ({ ...(next as JsonObject), allOf: [next] })],
  ])('that doubles by %s at every link is refused', (_name, link) => {
    expect(problems(doubled(link))).toContain('composition expands')
    expect(schemaProblems(doubled(link, 4), 'output')).toEqual([])
  })

  test.each<[string, JsonObject]>([
    ['the root', { $ref: '#' }],
    ['allOf', { allOf: [{ $ref: '#' }] }],
    ['anyOf', { anyOf: [{ type: 'string' }, { $ref: '#' }] }],
    ['not', { not: { $ref: '#' } }],
    ['if', { if: { $ref: '#' }, else: true }],
    ['dependentSchemas', { dependentSchemas: { a: { $ref: '#' } } }],
    [
      'two definitions',
      { $defs: { a: { $ref: '#/$defs/b' }, b: { oneOf: [{ $ref: '#/$defs/a' }] } }, $ref: '#/$defs/a' },
    ],
    ['a definition nobody uses', { $defs: { a: { allOf: [{ $ref: '#/$defs/a' }] } } }],
  ])('that comes back to itself through %s without looking into the value is refused', (_name, schema) => {
    expect(problems(schema)).toContain('consumes no part of the instance')
  })

  test.each<[string, { schema: JsonObject; good: JsonValue; bad: JsonValue }]>([
    [
      'fields',
      {
        schema: { properties: { a: { $ref: '#' }, n: { type: 'integer' } }, additionalProperties: false },
        good: { a: { a: { n: 1 } } },
        bad: { a: { a: { n: '1' } } },
      },
    ],
    ['items', { schema: { type: 'array', items: { $ref: '#' } }, good: [[], [[]]], bad: [[], [1]] }],
    [
      'any other field',
      { schema: { type: 'object', additionalProperties: { $ref: '#' } }, good: { a: { b: {} } }, bad: { a: { b: 1 } } },
    ],
    [
      'tuples',
      {
        schema: { prefixItems: [{ type: 'integer' }, { $ref: '#' }], items: false },
        good: [1, [2, [3]]],
        bad: [1, [2, ['3']]],
      },
    ],
  ])('that comes back to itself by way of %s is followed as deep as the value goes', (_name, { schema, good, bad }) => {
    expect(verdict(schema, good)).toBe('valid')
    expect(verdict(schema, bad)).not.toBe('valid')
  })

  test('that multiplies with every level of the value is broken off', () => {
    const node = { $ref: '#/$defs/node' }
    const twice = [
      { type: 'array', items: node },
      { type: 'array', items: node },
    ]
    // What fails at the end is tried again in every alternative; what holds, in every part of an allOf.
    for (const [keyword, end] of [
      ['anyOf', 'x'],
      ['oneOf', 'x'],
      ['allOf', []],
    ] as const) {
      const schema = { $defs: { node: { [keyword]: twice } }, ...node }
      expect(
        verdict(
          schema,
          nested(60, (inner) => [inner], end),
        ),
      ).toBe('the value takes too long to validate')
    }
  })

  test('of many alternatives over many items is broken off, and of a few is not', () => {
    const alternatives = (count: number): JsonObject => ({
      items: { anyOf: many(count, (index) => ({ const: index })) },
    })
    expect(
      verdict(
        alternatives(400),
        many(100_000, () => 399),
      ),
    ).toBe('the value takes too long to validate')
    expect(
      verdict(
        alternatives(20),
        many(100_000, () => 19),
      ),
    ).toBe('valid')
  })

  test('wider than code can be nested is refused by number, or compiled in groups', () => {
    for (const keyword of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) {
      expect(problems({ [keyword]: many(SCHEMA_LIMITS.alternatives + 1, () => ({ type: 'string' })) })).toContain(
        '501 members',
      )
      expect(
        schemaProblems({ [keyword]: many(SCHEMA_LIMITS.alternatives, () => ({ minLength: 1 })) }, 'output'),
      ).toEqual([])
    }
    const wide = { properties: fields(1_900, () => ({ type: 'integer' })), additionalProperties: { const: 'other' } }
    expect(verdict(wide, { f0: 0, f1899: 1, more: 'other' })).toBe('valid')
    expect(verdict(wide, { f0: 0, f1899: '1' })).toBe('/f1899 must be integer')
    expect(verdict(wide, { more: 1 })).toBe('/more must be "other"')
    const wideAndClosed = { properties: fields(1_900, () => ({ type: 'integer' })), unevaluatedProperties: false }
    expect(verdict(wideAndClosed, { f7: 7, f1899: 1 })).toBe('valid')
    expect(verdict(wideAndClosed, { more: 1 })).toContain('"more"')
  })

  test('of wide parts inside wide parts judges as any other', () => {
    const schema = nested(8, (inner) => ({ properties: { ...fields(200, () => ({ minimum: 3 })), deep: inner } }), {
      const: 1,
    })
    expect(
      verdict(
        schema,
        nested(8, (inner) => ({ deep: inner, f9: 3 }), 1),
      ),
    ).toBe('valid')
    expect(
      verdict(
        schema,
        nested(8, (inner) => ({ deep: inner, f9: 3 }), 2),
      ),
    ).toContain('must be 1')
    expect(
      verdict(
        schema,
        nested(7, (inner) => ({ deep: inner }), { f9: 2 }),
      ),
    ).toContain('must be >= 3')
  })

  test('of long lists inside long lists judges as any other', () => {
    const level = (inner: JsonValue): JsonValue => ({
      oneOf: [...many(470, (index) => ({ const: index })), { type: 'object', properties: { deep: inner } }],
    })
    const schema = nested(4, level, { const: 'end' })
    expect(
      verdict(
        schema,
        nested(4, (deep) => ({ deep }), 'end'),
      ),
    ).toBe('valid')
    expect(verdict(schema, { deep: { deep: 469 } })).toBe('valid')
    expect(verdict(schema, { deep: { deep: 470 } })).not.toBe('valid')
  })
})

describe('values', () => {
  const tree = {
    $defs: { node: { type: ['array', 'integer'], items: { $ref: '#/$defs/node' } } },
    $ref: '#/$defs/node',
  }

  test.each<[string, JsonObject]>([
    ['a recursive schema', tree],
    ['uniqueItems', { uniqueItems: true }],
    ['enum', { enum: [[1]] }],
    ['const', { const: [1] }],
  ])('nested 20,000 deep are judged by %s without a crash', (_name, schema) => {
    const answer = verdict(
      schema,
      nested(20_000, (inner) => [inner, 0], 1),
    )
    expect(typeof answer).toBe('string')
    if (schema === tree) expect(answer).toBe('the value is nested too deeply')
  })

  test('nested 20,000 deep never get as far when they are arguments', () => {
    const schema = { type: 'object', properties: { a: {} } }
    const args = { a: nested(20_000, (inner) => ({ inner })) }
    expect(validateArguments(schema, args)).toMatchObject({
      kind: 'invalid',
      message: expect.stringContaining('deeper than 64') as string,
    })
  })

  test('of a list are compared once each, and lists inside of lists only so often', () => {
    expect(
      verdict(
        { uniqueItems: true },
        many(60_000, (index) => ({ index })),
      ),
    ).toBe('valid')
    expect(verdict({ uniqueItems: true }, [...many(60_000, (index) => ({ index })), { index: 5 }])).toContain('twice')
    const everywhere = { $defs: { node: { uniqueItems: true, items: { $ref: '#/$defs/node' } } }, $ref: '#/$defs/node' }
    const deep = nested(
      800,
      (inner) => [inner],
      many(50_000, (index) => index),
    )
    expect(verdict(everywhere, deep)).toBe('the value takes too long to validate')
  })

  test('that are not JSON at all are invalid, and nothing they do is let out', () => {
    const loop: unknown[] = []
    loop.push(loop)
    const trap = {
      get a(): never {
        throw new Error('trap')
      },
    }
    expect(verdict({ uniqueItems: true }, [{ a: '\ud800' }])).toBe('the value cannot be read as JSON')
    expect(verdict({ enum: [[1]] }, loop)).not.toBe('valid')
    expect(verdict({ properties: { a: { type: 'string' } } }, trap)).toBe('the value cannot be read as JSON')
    expect(verdict({ type: 'object' }, 1n)).not.toBe('valid')
    expect(verdict({ multipleOf: 2 }, Number.NaN)).not.toBe('valid')
  })
})

describe('references', () => {
  test('are never fetched, whatever names an address', async () => {
    let connections = 0
    const server = createServer((socket) => {
      connections += 1
      socket.destroy()
    })
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const schemas: JsonObject[] = [
      { $ref: `${base}/evil.json` },
      { properties: { a: { $ref: `${base}/evil.json#/$defs/a` } } },
      { $id: `${base}/schema.json`, properties: { a: { $ref: 'evil.json' } } },
      { $id: `${base}/schema.json`, type: 'string' },
      { $schema: `${base}/dialect.json`, type: 'string' },
      { $schema: `${base}/dialect.json#`, $ref: '#/definitions/a', definitions: { a: true } },
      { items: { $dynamicRef: `${base}/evil.json#a` } },
      { items: { $recursiveRef: `${base}/evil.json` } },
      { properties: { a: { $id: `${base}/a.json`, $ref: 'b.json' } } },
      { $defs: { a: { $ref: `//127.0.0.1:${base.split(':').at(-1)}/evil.json` } } },
      { $vocabulary: { [`${base}/vocabulary`]: true }, type: 'string' },
      { type: 'string', format: 'uri', contentMediaType: 'application/json', contentSchema: { $ref: `${base}/a` } },
    ]
    const outcomes = schemas.map((schema) =>
      schemaProblems(schema, 'output').length === 0 ? compileSchema(schema).validate(`${base}/value`).kind : 'refused',
    )
    expect(outcomes).toEqual([...many(3, () => 'refused'), 'valid', ...many(6, () => 'refused'), 'valid', 'refused'])
    await new Promise((settled) => setImmediate(settled))
    await new Promise((closed) => server.close(closed))
    expect(connections).toBe(0)
  })

  test.each<[string, JsonObject, string]>([
    [
      'a nested identity',
      { $defs: { a: { $id: 'a', type: 'string' } }, properties: { a: { $ref: 'a' } } },
      'a nested $id is refused',
    ],
    [
      'draft-04',
      { $schema: 'http://json-schema.org/draft-04/schema#', minimum: 0, exclusiveMinimum: true },
      'dialect that is not supported',
    ],
    ['the boolean bounds of draft-04', { minimum: 0, exclusiveMinimum: true }, '/exclusiveMinimum'],
    ['a dialect that is no text', { $schema: 7 }, 'dialect'],
    ['a dialect named like a member of every object', { $schema: 'constructor' }, 'dialect'],
    ['an anchor', { $defs: { a: { $anchor: 'a' } }, $ref: '#a' }, 'does not lead'],
    ['a path into a default', { default: { a: {} }, $ref: '#/default/a' }, 'does not lead'],
    ['a broken escape', { $defs: { a: {} }, $ref: '#/$defs/%zz' }, 'does not lead'],
    ['too many of them', { $defs: { a: {} }, anyOf: many(65, () => ({ $ref: '#/$defs/a' })) }, '65 references'],
  ])('by way of %s are refused', (_name, schema, problem) => {
    expect(schemaProblems(schema, 'output').join('\n')).toContain(problem)
  })

  test.each([
    'a/b',
    'a~b',
    'a%b',
    'a b',
    'a#b',
    'a?b',
    'a"b',
    'a\\b',
    'ü',
    '🐲',
    '',
    '{x}',
    '__proto__',
    'toString',
    '0',
  ])('lead to a definition named %j', (name) => {
    const escaped = encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))
    const $defs = json(`{${JSON.stringify(name)}:{"type":"string"},"other":{"type":"integer"}}`)
    expect(verdict({ $defs, $ref: `#/$defs/${escaped}` }, 'a')).toBe('valid')
    expect(verdict({ $defs, $ref: `#/$defs/${escaped}` }, 1)).toBe('the value must be string')
  })

  test('with an encoded slash take a step, as in any other pointer', () => {
    const schema = { $defs: { 'a/not': { type: 'string' }, a: { not: { type: 'integer' } } }, $ref: '#/$defs/a%2Fnot' }
    expect(verdict(schema, 1)).toBe('valid')
    expect(verdict(schema, 'a')).not.toBe('valid')
  })

  test('to a schema that is only true or false', () => {
    expect(verdict({ $defs: { no: false }, properties: { a: { $ref: '#/$defs/no' } } }, { a: 1 })).not.toBe('valid')
    expect(verdict({ $defs: { yes: true }, properties: { a: { $ref: '#/$defs/yes' } } }, { a: 1 })).toBe('valid')
  })

  test('replace what stands beside them in draft-07, and join it later on', () => {
    const schema = { definitions: { a: { type: 'string' } }, $ref: '#/definitions/a', maxLength: 1 }
    expect(verdict({ $schema: 'http://json-schema.org/draft-07/schema#', ...schema }, 'ab')).toBe('valid')
    expect(verdict(schema, 'ab')).toContain('more than 1')
  })
})
