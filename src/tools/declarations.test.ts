import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { internalTool, parseArguments, vendorTool } from './declarations.ts'
import type { ToolDeclaration } from './declarations.ts'
import { ok } from './models.ts'

const nothing = z.null()
const answer = async () => ok(null)

function reading(input: z.ZodObject): ToolDeclaration {
  return internalTool({
    name: 'test.read',
    description: 'Reads.',
    input,
    output: nothing,
    sideEffects: 'read',
    handler: answer,
  })
}
const defectsOf = (schema: z.ZodType): string[] =>
  reading(z.object({ value: schema })).defects.map((defect) => defect.message)
const parse = (declaration: ToolDeclaration, args: unknown) => parseArguments(declaration, args)

describe('a declared spec', () => {
  test('carries every field of the contract, plain and frozen', () => {
    const tool = internalTool({
      name: 'crm.search_people',
      description: 'Find people.',
      input: z.object({ query: z.string().min(1), limit: z.int().min(1).max(50).default(10) }),
      output: z.array(z.object({ id: z.string() })),
      sideEffects: 'read',
      itemKind: 'crm.person',
      maxResults: 50,
      handler: async () => ok([]),
    })
    expect(tool.spec).toEqual({
      name: 'crm.search_people',
      description: 'Find people.',
      inputSchema: {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'object',
        properties: {
          query: { type: 'string', minLength: 1 },
          limit: { type: 'integer', minimum: 1, maximum: 50, default: 10 },
        },
        required: ['query'],
        additionalProperties: false,
      },
      outputSchema: {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'array',
        items: {
          type: 'object',
          properties: { id: { type: 'string' } },
          required: ['id'],
          additionalProperties: false,
        },
      },
      schemaHash: '96c2da9d796fbdb277b28013b29499134ac72a70251168e25c905cf3105819b5',
      kind: 'internal',
      binding: { handlerKey: 'crm.search_people' },
      sideEffects: 'read',
      connection: null,
      timeoutS: 30,
      retry: 'none',
      metered: false,
      repeatable: null,
      approvalPreview: false,
      policyFacts: [],
      batchArgument: null,
      maxBatchSize: null,
      maxResults: 50,
      maxOutputBytes: null,
      itemKind: 'crm.person',
      downstreamKey: false,
      downstreamKeyS: null,
      onUnknown: 'reclaim',
      egress: false,
    })
    expect(Object.isFrozen(tool.spec)).toBe(true)
    expect(Object.isFrozen(tool.spec.inputSchema['properties'])).toBe(true)
    expect(JSON.parse(JSON.stringify(tool.spec))).toEqual(tool.spec)
  })

  test('a send that cannot pass a key on asks about unknown outcomes; one that can, and any write, reclaims', () => {
    const base = { description: 'd', input: z.object({}), output: nothing, handler: answer, repeatable: false } as const
    const send = internalTool({ ...base, name: 'email.send', sideEffects: 'send', connection: 'smtp' })
    const keyed = internalTool({
      ...base,
      name: 'email.send',
      sideEffects: 'send',
      connection: 'smtp',
      downstreamKey: true,
    })
    const write = internalTool({ ...base, name: 'crm.write', sideEffects: 'write' })
    const told = internalTool({ ...base, name: 'crm.write', sideEffects: 'write', onUnknown: 'ask' })
    expect([send, keyed, write, told].map(({ spec }) => spec.onUnknown)).toEqual(['ask', 'reclaim', 'reclaim', 'ask'])
  })

  test('the vendor factory makes the same contract and infers nothing about the vendor', () => {
    const options = {
      name: 'research.search',
      description: 'Search.',
      input: z.object({ q: z.string() }),
      output: nothing,
      sideEffects: 'read',
      handler: answer,
    } as const
    const vendor = vendorTool(options).spec
    expect(vendor).toEqual({ ...internalTool(options).spec, kind: 'vendor' })
    expect(vendor).toMatchObject({ connection: null, metered: false, retry: 'none', maxResults: null })
  })

  test('a handler object keeps its own this, and its preview is noticed', async () => {
    class Sender {
      readonly #sent: string[] = []
      async execute(_invocation: unknown, args: { to: string }) {
        this.#sent.push(args.to)
        return ok(null)
      }
      async preview(_invocation: unknown, args: { to: string }) {
        return `mail to ${args.to}, after ${this.#sent.length}`
      }
    }
    const { spec, handler } = internalTool({
      name: 'email.send',
      description: 'd',
      input: z.object({ to: z.string() }),
      output: nothing,
      sideEffects: 'send',
      repeatable: false,
      connection: 'smtp',
      handler: new Sender(),
    })
    expect(spec.approvalPreview).toBe(true)
    await handler.execute.call(undefined, {} as never, { to: 'ada' }, {} as never)
    const line = await handler.preview?.call(undefined, {} as never, { to: 'ada' }, AbortSignal.abort())
    expect(line).toBe('mail to ada, after 1')
  })
})

describe('the emitted input schema', () => {
  test('refuses unknown keys at every level, also inside lists, unions and intersections', () => {
    const inner = z.object({ a: z.string().optional() })
    const tool = reading(
      z.object({
        one: inner.optional(),
        list: z.array(inner).optional(),
        either: z.union([inner, z.string()]).optional(),
        both: z.intersection(inner, z.object({ b: z.string() })).optional(),
      }),
    )
    for (const args of [
      { x: 1 },
      { one: { x: 1 } },
      { list: [{ x: 1 }] },
      { either: { x: 1 } },
      { both: { b: '', x: 1 } },
    ]) {
      expect(parse(tool, args).kind).toBe('invalid')
    }
    expect(parse(tool, { both: { a: 'a', b: 'b' }, list: [{ a: 'a' }] }).kind).toBe('parsed')
  })

  test('leaves open what is declared open', () => {
    const tool = reading(z.object({ any: z.looseObject({ a: z.string() }), map: z.record(z.string(), z.int()) }))
    expect(parse(tool, { any: { a: 'a', more: [1] }, map: { x: 1 } })).toEqual({
      kind: 'parsed',
      args: { any: { a: 'a', more: [1] }, map: { x: 1 } },
    })
  })

  test('does not turn a case-insensitive pattern into a case-sensitive one', () => {
    const tool = reading(
      z.object({
        code: z
          .string()
          .regex(/^ab$/i)
          .regex(/^[A-Z]+$/i)
          .max(9),
        plain: z.string().regex(/^x$/),
      }),
    )
    expect(tool.spec.inputSchema['properties']).toEqual({
      code: { type: 'string', maxLength: 9 },
      plain: { type: 'string', pattern: '^x$' },
    })
    expect(parse(tool, { code: 'AB', plain: 'x' }).kind).toBe('parsed')
    expect(parse(tool, { code: 'AC', plain: 'x' }).kind).toBe('invalid')
  })

  test('a date of an output is its ISO text', () => {
    const tool = internalTool({
      name: 'test.read',
      description: 'd',
      input: z.object({}),
      output: z.object({ at: z.date() }),
      sideEffects: 'read',
      handler: async () => ok({ at: new Date() }),
    })
    expect(tool.defects).toEqual([])
    expect(tool.spec.outputSchema).toMatchObject({ properties: { at: { type: 'string', format: 'date-time' } } })
  })
})

describe('schemas a contract cannot carry', () => {
  test.each([
    ['a transform', z.string().transform((text) => text.length), 'transform'],
    ['a preprocess', z.preprocess((value) => value, z.string()), 'transform'],
    ['a codec', z.codec(z.string(), z.number(), { decode: Number, encode: String }), 'transform'],
    ['stringbool', z.stringbool(), 'transform'],
    ['a transform behind a reference', z.lazy(() => z.string().transform((text) => text)), 'transform'],
    [
      'a transform in a record key',
      z.record(
        z.string().transform((text) => text),
        z.string(),
      ),
      'transform',
    ],
    ['a date', z.date(), 'z.date()'],
    ['a bigint', z.bigint(), 'z.bigint()'],
    ['a map', z.map(z.string(), z.string()), 'z.map()'],
    ['a set', z.array(z.set(z.string())), 'z.set()'],
    ['a class', z.instanceof(Date), 'z.custom()'],
    ['undefined', z.union([z.string(), z.undefined()]), 'z.undefined()'],
    ['a file', z.file(), 'z.file()'],
    ['an undefined literal', z.literal([1, undefined]), 'literal'],
    ['a random default', z.string().default(() => crypto.randomUUID()), 'not the same JSON value'],
    ['a random catch value', z.string().catch(() => crypto.randomUUID()), 'not the same JSON value'],
    ['a catch value that JSON drops', z.string().optional().catch(undefined), 'not the same JSON value'],
    ['an asynchronous refinement', z.string().refine(async () => true), 'asynchronous'],
    ['a rewrite that adds', z.string().overwrite((text) => `${text}!`), 'not idempotent'],
    ['a rewrite that doubles', z.number().overwrite((value) => value * 2), 'not idempotent'],
    [
      'a rewrite that unescapes',
      z.string().overwrite((text) => text.replaceAll('%20', ' ').replaceAll('!!', '!')),
      'not idempotent',
    ],
    [
      'a rewrite that remembers',
      z.string().overwrite(
        (
          (seen) => (text: string) =>
            `${text}${(seen += 1)}`
        )(0),
      ),
      'not idempotent',
    ],
    ['a rewrite of a list that grows', z.array(z.string()).overwrite((list) => [...list, 'x']), 'not idempotent'],
    ['a length checked before a trim', z.string().min(1).trim(), 'not idempotent'],
  ])('%s is a defect', (_name, schema, message) => {
    expect(defectsOf(schema).join('\n')).toContain(message)
  })

  test.each([
    ['trim, then a length', z.string().trim().min(1)],
    ['trim and lower case', z.string().trim().toLowerCase()],
    ['a normalised mail address', z.email().trim().toLowerCase()],
    ['unicode normalisation', z.string().normalize('NFC')],
    ['rounding', z.number().overwrite((value) => Math.round(value))],
    ['a sorted list', z.array(z.string()).overwrite((list) => list.toSorted())],
    ['a pipe of plain schemas', z.string().pipe(z.email())],
    ['a constant default', z.array(z.string()).default([])],
    ['a constant catch', z.enum(['a', 'b']).catch('a')],
    ['recursion', z.json()],
    ['coercion, which the JSON type makes idle', z.coerce.number()],
    [
      'a brand, a template and a discriminated union',
      z.object({
        a: z.string().brand('id'),
        b: z.templateLiteral(['v', z.int()]),
        c: z.discriminatedUnion('k', [z.object({ k: z.literal('x') }), z.object({ k: z.literal('y') })]),
      }),
    ],
  ])('%s is fine', (_name, schema) => {
    expect(defectsOf(schema)).toEqual([])
  })

  test('a defect says where it is and what to write instead', () => {
    const { defects } = reading(z.object({ people: z.array(z.object({ born: z.date() })) }))
    expect(defects).toEqual([
      { field: 'input', message: '/people/*/born: z.date() is not a JSON type', remedy: 'use z.iso.datetime()' },
    ])
  })

  test('an output may not transform either, because nothing runs it', () => {
    const tool = internalTool({
      name: 'test.read',
      description: 'd',
      input: z.object({}),
      output: z.string().transform((text) => text.length),
      sideEffects: 'read',
      handler: async () => ok(1),
    })
    expect(tool.defects).toMatchObject([{ field: 'output' }])
  })
})
