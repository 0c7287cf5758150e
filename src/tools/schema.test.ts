import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { JsonObject, JsonValue } from './json.ts'
import { admitSchema, SCHEMA_LIMITS } from './schema-admission.ts'
import { compileSchema, schemaProblems, SchemaRefusedError } from './schema.ts'

const verdict = (schema: JsonObject, value: unknown): string => {
  const answer = compileSchema(schema).validate(value)
  return answer.kind === 'valid' ? 'valid' : answer.message
}
const doubling = (keyword: string, levels: number): JsonObject => {
  const $defs: Record<string, JsonValue> = { [`d${levels}`]: { type: 'string' } }
  for (let level = 0; level < levels; level++) {
    const next = { $ref: `#/$defs/d${level + 1}` }
    $defs[`d${level}`] = { [keyword]: [next, next] }
  }
  return { $defs, properties: { a: { $ref: '#/$defs/d0' } }, type: 'object' }
}

describe('validation', () => {
  test('reads own properties only', () => {
    const schema = { type: 'object', required: ['toString', 'constructor'] }
    expect(verdict(schema, {})).toContain('toString')
    expect(verdict({ type: 'object', properties: { constructor: { type: 'string' } } }, {})).toBe('valid')
    expect(verdict({ type: 'object', additionalProperties: false }, JSON.parse('{"__proto__":1}'))).toContain(
      '__proto__',
    )
  })

  test('neither coerces nor fills in, and leaves the value untouched', () => {
    const schema = { type: 'object', properties: { n: { type: 'integer', default: 3 } } }
    const value = Object.freeze({ n: '4' })
    expect(verdict(schema, value)).toBe('/n must be integer')
    const empty = {}
    expect(verdict(schema, empty)).toBe('valid')
    expect(empty).toEqual({})
  })

  test('understands draft-07 when a schema says so, and 2020-12 otherwise', () => {
    const tuple = { items: [{ type: 'string' }, { type: 'integer' }], additionalItems: false }
    const old = { $schema: 'http://json-schema.org/draft-07/schema#', type: 'array', ...tuple }
    expect(verdict(old, ['a', 1])).toBe('valid')
    expect(verdict(old, ['a', 'b'])).toBe('/1 must be integer')
    expect(verdict({ prefixItems: [{ type: 'string' }], items: false }, ['a', 1])).not.toBe('valid')
    expect(verdict({ $schema: 'https://json-schema.org/draft/2019-09/schema', type: 'string' }, 'a')).toBe('valid')
  })

  test('checks formats, decimal multiples and unique items', () => {
    expect(verdict({ type: 'string', format: 'email' }, 'nobody')).toContain('email')
    expect(verdict({ type: 'string', format: 'made-up' }, 'x')).toBe('valid')
    expect(verdict({ multipleOf: 0.01 }, 19.99)).toBe('valid')
    expect(verdict({ multipleOf: 0.01 }, 19.999)).not.toBe('valid')
    expect(
      verdict({ uniqueItems: true }, [
        { a: 1, b: 2 },
        { b: 2, a: 1 },
      ]),
    ).toContain('twice')
    expect(verdict({ uniqueItems: true }, [1, '1', [1], { a: 1 }, null, true])).toBe('valid')
    expect(verdict({ uniqueItems: false }, [1, 1])).toBe('valid')
  })

  test('two schemas that share an identity do not collide', () => {
    const base = { $id: 'https://example.com/tool' }
    expect(verdict({ ...base, type: 'string' }, 'a')).toBe('valid')
    expect(verdict({ ...base, type: 'integer' }, 'a')).toBe('the value must be integer')
  })

  test('one content is compiled once, whatever object carries it', () => {
    const schema = { type: 'object', required: ['only-here'] }
    expect(compileSchema({ required: ['only-here'], type: 'object' })).toBe(compileSchema(schema))
  })
})

describe('messages', () => {
  test('name the place and the rule', () => {
    const schema = {
      type: 'object',
      properties: { to: { type: 'array', items: { type: 'string', maxLength: 3 } }, stage: { enum: ['lead', 'won'] } },
      required: ['to'],
      additionalProperties: false,
    }
    expect(verdict(schema, {})).toBe("the value must have required property 'to'")
    expect(verdict(schema, { to: ['abcd'] })).toBe('/to/0 must NOT have more than 3 characters')
    expect(verdict(schema, { to: [], cc: [] })).toBe('the value must not have the property "cc"')
    expect(verdict(schema, { to: [], stage: 'lost' })).toBe('/stage must be one of ["lead","won"]')
  })

  test('of alternatives, speak of the one that was meant', () => {
    const schema = {
      oneOf: [
        { type: 'object', properties: { by: { const: 'id' }, id: { type: 'string' } }, required: ['by', 'id'] },
        {
          type: 'object',
          properties: { by: { const: 'mail' }, mail: { type: 'string', minLength: 3 } },
          required: ['by', 'mail'],
        },
      ],
    }
    expect(verdict(schema, { by: 'mail', mail: 'x' })).toBe('/mail must NOT have fewer than 3 characters')
  })

  test('are short, on one line, and never echo a long value or name', () => {
    const secret = 'do-not-echo'
    const schemas: JsonObject[] = [
      { type: 'object', additionalProperties: false },
      { type: 'object', propertyNames: { maxLength: 3 } },
      { type: 'object', additionalProperties: { type: 'integer' } },
      { type: 'string', format: 'email' },
      { enum: [1, 2] },
      { const: 'x' },
      { not: {} },
    ]
    const values: JsonValue[] = [
      { [`${'k'.repeat(5000)}\n\u0007${secret}`]: secret },
      `${'v'.repeat(5000)}${secret}`,
      secret,
    ]
    for (const schema of schemas) {
      for (const value of values) {
        const answer = verdict(schema, value)
        expect(answer.length).toBeLessThanOrEqual(500)
        expect(answer).not.toContain(secret)
        // oxlint-disable-next-line no-control-regex
        expect(answer).not.toMatch(/[\u0000-\u001f]/)
      }
    }
  })
})

describe('hostile schemas and values', () => {
  test('a pattern that would backtrack for ever answers at once', () => {
    expect(verdict({ type: 'string', pattern: '^(a+)+$' }, `${'a'.repeat(5000)}!`)).toContain('must match pattern')
  })

  test('two patterns of one schema are two patterns', () => {
    const schema = { properties: { a: { pattern: '^(a+)+$' }, b: { pattern: '^b$' } } }
    expect(verdict(schema, { a: 'aaa', b: 'b' })).toBe('valid')
    expect(verdict(schema, { a: 'aaaa!', b: 'b' })).toContain('/a')
    expect(verdict(schema, { a: 'aaa', b: 'a' })).toContain('/b')
  })

  test('a pattern that no linear engine runs is left unenforced, and said to be', () => {
    const validator = compileSchema({ type: 'string', pattern: '^(?=a)b', minLength: 2 })
    expect(validator.unenforced).toEqual(['^(?=a)b'])
    expect(validator.validate('zz').kind).toBe('valid')
    expect(validator.validate('z').kind).toBe('invalid')
    expect(verdict({ pattern: String.raw`^https\:\/\/` }, 'https://x')).toBe('valid')
  })

  test('no format backtracks on text made for it', () => {
    const formats = [
      'email',
      'hostname',
      'uri',
      'uri-reference',
      'uri-template',
      'url',
      'ipv6',
      'date-time',
      'duration',
      'uuid',
    ]
    const units = ['a', 'a.', ':', 'a@', '1', '%41', '{', '/', 'a-']
    for (const format of formats) {
      const validator = compileSchema({ type: 'string', format })
      for (const unit of units) {
        const text = unit.repeat(250_000 / unit.length)
        for (const hostile of [`${text}!`, `http://[${text}`, `http://${text} `]) validator.validate(hostile)
      }
      expect(validator.validate('\n').kind).toBe('invalid')
    }
    expect(verdict({ format: 'url' }, 'https://example.com/a?b=c')).toBe('valid')
  })

  test('a value nested too deeply is invalid, not a crash', () => {
    let deep: JsonValue = 1
    for (let level = 0; level < 30_000; level++) deep = [deep]
    const schema = {
      $defs: { node: { type: ['array', 'integer'], items: { $ref: '#/$defs/node' } } },
      $ref: '#/$defs/node',
    }
    expect(verdict(schema, deep)).toBe('the value is nested too deeply')
  })

  test('a recursive schema that doubles its work at each level is stopped', { timeout: 30_000 }, () => {
    const node = { $ref: '#/$defs/node' }
    const schema = {
      $defs: {
        node: {
          anyOf: [
            { type: 'array', items: node },
            { type: 'array', items: node },
          ],
        },
      },
      ...node,
    }
    let value: JsonValue = ['x']
    for (let level = 0; level < 60; level++) value = [value]
    expect(verdict(schema, value)).toBe('the value takes too long to validate')
  })

  test('many equal-looking objects are compared in one pass', () => {
    const items = Array.from({ length: 60_000 }, (_, index) => ({ index }))
    expect(verdict({ type: 'array', uniqueItems: true }, items)).toBe('valid')
  })

  test('the validator survives any value', () => {
    const validator = compileSchema({ type: 'object', properties: { a: { type: 'array', uniqueItems: true } } })
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(['valid', 'invalid']).toContain(validator.validate(value).kind)
      }),
    )
  })
})

describe('admission', () => {
  const refused: [name: string, schema: JsonValue, problem: string][] = [
    ['something that is no object', true, 'JSON object'],
    ['too many bytes', { description: 'x'.repeat(SCHEMA_LIMITS.bytes) }, 'larger than'],
    ['too many levels', nest(70), 'deeper than'],
    ['too many subschemas', { anyOf: Array.from({ length: 2100 }, () => ({})) }, 'subschemas'],
    [
      'too many references',
      { $defs: { a: {} }, anyOf: Array.from({ length: 65 }, () => ({ $ref: '#/$defs/a' })) },
      '65 references',
    ],
    ['too many enum values', { enum: Array.from({ length: 2001 }, (_, index) => index) }, '2001 enum values'],
    ['a remote reference', { properties: { a: { $ref: 'http://127.0.0.1/evil.json' } } }, 'does not lead to a schema'],
    ['a reference to nowhere', { $ref: '#/$defs/missing' }, 'does not lead'],
    ['a reference into data', { const: { a: {} }, $ref: '#/const/a' }, 'does not lead'],
    ['a reference to an inherited name', { $defs: {}, $ref: '#/$defs/constructor' }, 'does not lead'],
    ['a reference to itself', { $ref: '#' }, 'consumes no part'],
    [
      'a cycle through allOf',
      { $defs: { a: { allOf: [{ $ref: '#/$defs/b' }] }, b: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' },
      'consumes no part',
    ],
    ['dynamic references', { properties: { a: { $dynamicRef: '#x' } } }, '$dynamicRef'],
    ['recursive references', { properties: { a: { $recursiveRef: '#' } } }, '$recursiveRef'],
    ['a nested identity', { properties: { a: { $id: 'https://x.example' } } }, 'nested $id'],
    ['a doubling allOf', doubling('allOf', 20), 'expands'],
    ['a doubling anyOf', doubling('anyOf', 20), 'expands'],
    ['draft-04', { $schema: 'http://json-schema.org/draft-04/schema#' }, 'dialect'],
    ['a key pattern that backtracks', { patternProperties: { '(?=a)b': {} } }, 'linear-time'],
    ['broken characters', { title: '\ud800' }, 'surrogate'],
  ]

  test.each(refused)('refuses %s', (_name, schema, problem) => {
    expect(admitSchema(schema, 'output').join('\n')).toContain(problem)
    expect(() => compileSchema(schema as JsonObject)).toThrow(SchemaRefusedError)
  })

  test('accepts what real tools publish: recursion, shared definitions, odd but harmless keywords', () => {
    const filter = {
      type: 'object',
      $defs: {
        filter: {
          anyOf: [
            { type: 'object', properties: { and: { type: 'array', items: { $ref: '#/$defs/filter' } } } },
            { type: 'object', properties: { not: { $ref: '#/$defs/filter' }, 'x/y~z': true } },
          ],
        },
      },
      properties: {
        filter: { $ref: '#/$defs/filter' },
        again: { $ref: '#/properties/filter' },
        alternative: { $ref: '#/$defs/filter/anyOf/1/properties/x~1y~0z' },
      },
      'x-vendor': { $ref: 'http://not-a-reference.example' },
      examples: [{ $ref: '#/nowhere' }],
    }
    expect(admitSchema(filter, 'input')).toEqual([])
    expect(schemaProblems(filter, 'input')).toEqual([])
  })

  test('an input is an object; an output may be anything', () => {
    expect(admitSchema({ type: 'array' }, 'input').join()).toContain('type "object"')
    expect(admitSchema({ type: 'array' }, 'output')).toEqual([])
    const named = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}') as JsonValue
    expect(admitSchema(named, 'input').join()).toContain('argument named __proto__')
    expect(admitSchema(named, 'output')).toEqual([])
  })

  test('names what is not JSON Schema at all', () => {
    expect(schemaProblems({ type: 'strin' }, 'output').join()).toContain('not valid JSON Schema: /type')
    expect(schemaProblems({ type: 'number', minimum: 0, exclusiveMinimum: true }, 'output').join()).toContain(
      '/exclusiveMinimum',
    )
    expect(schemaProblems({ pattern: '[' }, 'output').join()).toContain('not a regular expression')
    expect(schemaProblems({ pattern: '(?=x)' }, 'output')).toEqual([])
    expect(schemaProblems({ $schema: 'http://json-schema.org/draft-07/schema#', items: [{}, {}] }, 'output')).toEqual(
      [],
    )
  })

  test('whatever JSON is offered as a schema is compiled or refused, never a crash', () => {
    const keyword = fc.constantFrom(
      'type',
      'properties',
      'items',
      'anyOf',
      'allOf',
      '$ref',
      '$defs',
      'pattern',
      'enum',
      'not',
      '$id',
      'required',
      'if',
      'dependencies',
      'patternProperties',
      '$anchor',
      'format',
      'uniqueItems',
    )
    const { schema } = fc.letrec<{ schema: JsonValue }>((tie) => ({
      schema: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom<JsonValue>('string', '#', '#/$defs/a', true, 3, null, '(a', 'object'),
        fc.dictionary(keyword, tie('schema'), { maxKeys: 4 }),
        fc.array(tie('schema'), { maxLength: 3 }),
      ),
    }))
    fc.assert(
      fc.property(fc.dictionary(keyword, schema, { maxKeys: 5 }), (candidate) => {
        const compiled = schemaProblems(candidate, 'output').length === 0
        const outcome = compiled ? compileSchema(candidate).validate({ a: 1 }).kind : 'refused'
        expect(['valid', 'invalid', 'refused']).toContain(outcome)
      }),
      { numRuns: 500 },
    )
  })
})

function nest(levels: number): JsonValue {
  let schema: JsonValue = {}
  for (let level = 0; level < levels; level++) schema = { not: schema }
  return schema
}
