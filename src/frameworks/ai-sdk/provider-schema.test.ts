import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { JsonObject, JsonValue } from '../../tools/json.ts'
import { providerSchema } from './provider-schema.ts'

function emitted(schema: z.ZodType): JsonObject {
  return z.toJSONSchema(schema, { io: 'input' }) as JsonObject
}

test('a plain object schema loses its dialect and nothing else', () => {
  const schema = emitted(z.strictObject({ q: z.string().min(1), limit: z.int().default(10) }))
  const { $schema, ...rest } = schema
  expect($schema).toBeTypeOf('string')
  expect(providerSchema(schema)).toEqual(rest)
})

test('a tool without arguments still has an object with properties', () => {
  expect(providerSchema({})).toEqual({ type: 'object', properties: {} })
  expect(providerSchema({ type: ['object', 'null'] })).toEqual({ type: 'object', properties: {} })
})

test('alternatives at the root become one object in which the discriminator may be either', () => {
  const schema = emitted(
    z.discriminatedUnion('by', [
      z.strictObject({ by: z.literal('email'), email: z.string() }),
      z.strictObject({ by: z.literal('id'), id: z.int() }),
    ]),
  )
  const shown = providerSchema(schema)
  expect(shown).toMatchObject({ type: 'object', required: ['by'] })
  expect(Object.keys(shown['properties'] as JsonObject)).toEqual(['by', 'email', 'id'])
  expect((shown['properties'] as JsonObject)['by']).toEqual({
    anyOf: [
      { type: 'string', const: 'email' },
      { type: 'string', const: 'id' },
    ],
  })
})

test('a root reference is followed, and its definitions stay', () => {
  const schema: JsonObject = {
    $ref: '#/$defs/Node',
    $defs: {
      Node: {
        type: 'object',
        properties: { name: { type: 'string' }, next: { $ref: '#/$defs/Node' } },
        required: ['name'],
      },
    },
  }
  expect(providerSchema(schema)).toEqual({
    type: 'object',
    properties: { name: { type: 'string' }, next: { $ref: '#/$defs/Node' } },
    required: ['name'],
    $defs: schema['$defs'],
  })
})

test.each<[string, JsonObject]>([
  ['a reference to itself', { $ref: '#/$defs/A', $defs: { A: { $ref: '#/$defs/A' } } }],
  ['a reference through a prototype', { $ref: '#/__proto__/constructor' }],
  ['a reference to nothing', { $ref: '#/$defs/gone' }],
  ['a reference to another document', { $ref: 'https://example.com/schema.json' }],
])('%s ends as an open object', (_, schema) => {
  expect(providerSchema(schema)).toMatchObject({ type: 'object', properties: {} })
})

test('a property named like a prototype member is only a property', () => {
  const shown = providerSchema(
    JSON.parse('{"properties":{"__proto__":{"type":"string"},"constructor":{}}}') as JsonObject,
  )
  expect(Object.keys(shown['properties'] as JsonObject)).toEqual(['__proto__', 'constructor'])
  expect(Object.getPrototypeOf(shown['properties'])).toBe(Object.prototype)
})

describe('what the contract accepts, the shown schema accepts', () => {
  const CASES: readonly [string, JsonObject, readonly JsonValue[]][] = [
    [
      'a union',
      emitted(z.union([z.strictObject({ a: z.string() }), z.strictObject({ a: z.int(), b: z.boolean() })])),
      [{ a: 'x' }, { a: 1, b: true }],
    ],
    [
      'an intersection',
      emitted(z.intersection(z.object({ a: z.string() }), z.object({ b: z.string().optional() }))),
      [{ a: 'x' }, { a: 'x', b: 'y' }],
    ],
    ['a record', emitted(z.record(z.string(), z.int())), [{}, { anything: 1 }]],
    [
      'pattern properties',
      { type: 'object', patternProperties: { '^x-': { type: 'string' } }, additionalProperties: false },
      [{ 'x-a': 'b' }],
    ],
    [
      'unions inside unions',
      {
        anyOf: [
          {
            oneOf: [
              { required: ['a'], properties: { a: {} } },
              { required: ['b'], properties: { b: {} } },
            ],
          },
          {},
        ],
      },
      [{ a: 1 }, { b: 1 }, { c: 1 }],
    ],
  ]
  test.each(CASES)('%s', (_, schema, samples) => {
    const ajv = new Ajv2020({ strict: false })
    const contract = ajv.compile({ ...schema })
    const shown = ajv.compile({ ...providerSchema(schema) })
    for (const sample of samples) {
      expect(contract(sample)).toBe(true)
      expect(shown(sample)).toBe(true)
    }
  })
})
