import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { argumentsHash } from './canonical.ts'
import { internalTool, parseArguments, ToolDefectError } from './declarations.ts'
import type { ToolDeclaration } from './declarations.ts'
import { ok } from './models.ts'

function reading(input: z.ZodObject): ToolDeclaration {
  return internalTool({
    name: 'test.read',
    description: 'Reads.',
    input,
    output: z.null(),
    sideEffects: 'read',
    handler: async () => ok(null),
  })
}
const parse = (declaration: ToolDeclaration, args: unknown) => parseArguments(declaration, args)

describe('parseArguments', () => {
  const search = reading(z.object({ query: z.string().trim().min(1), limit: z.int().min(1).max(50).default(10) }))

  test('answers what is hashed, shown and executed: rewritten, defaults filled in', () => {
    const parsed = parse(search, { query: '  Ada ' })
    expect(parsed).toEqual({ kind: 'parsed', args: { query: 'Ada', limit: 10 } })
    expect(parse(search, { query: 'Ada', limit: 10 })).toEqual(parsed)
  })

  test.each([
    [null, 'must be a JSON object'],
    [[], 'must be a JSON object'],
    ['{}', 'must be a JSON object'],
    [{ query: 'a', extra: 1 }, '"extra"'],
    [{ query: '   ' }, '/query'],
    [{ query: 'a', limit: 51 }, '/limit'],
    [{ query: 'a', limit: 1.5 }, '/limit'],
    [{ query: 'a', limit: '5' }, '/limit'],
    [{ query: '\ud800' }, 'broken character'],
    [{ query: 'a', limit: Number.NaN }, 'not a finite number'],
    [{ query: 'a', limit: 2 ** 60 }, 'too large to be exact'],
    [{ query: 'a', limit: 5n }, 'bigint'],
    [{ query: new Date() }, 'class'],
    [{ query: [undefined] }, '/query/0 is of type undefined'],
    // oxlint-disable-next-line no-sparse-arrays
    [{ query: [1, , 2] }, '/query/1 is of type undefined'],
    [{ query: 'a', limit: Number.POSITIVE_INFINITY }, 'not a finite number'],
    [{ query: Symbol('a') }, 'symbol'],
    [new Map([['query', 'a']]), 'class'],
    [{ query: 'a', '\udfff': 1 }, 'broken character'],
    [{ query: () => 'a' }, 'function'],
    [JSON.parse('{"query":"a","__proto__":{"limit":1}}'), '__proto__'],
    [{ query: 'a'.repeat(300_000) }, 'larger than 256 kB'],
    [{ query: Array.from({ length: 300_000 }, () => 1) }, 'larger than 256 kB'],
    [{ query: 'é'.repeat(140_000) }, 'larger than 256 kB'],
  ])('refuses %o', (args, message) => {
    const parsed = parse(search, args)
    expect(parsed).toMatchObject({ kind: 'invalid', message: expect.stringContaining(message) as string })
    expect((parsed as { message: string }).message.length).toBeLessThanOrEqual(500)
  })

  test('refuses nesting beyond the limit and hostile getters without a crash', () => {
    const open = reading(z.object({ value: z.unknown() }))
    let deep: unknown = 1
    for (let level = 0; level < 20_000; level++) deep = { deep }
    expect(parse(open, { value: deep })).toMatchObject({ message: expect.stringContaining('deeper than 64') as string })
    const hostile = {
      get value(): never {
        throw new Error('trap')
      },
    }
    expect(parse(open, hostile)).toEqual({ kind: 'invalid', message: 'arguments could not be read' })
  })

  test('a small graph that stands for billions of values is refused after the limit of one call', () => {
    const open = reading(z.object({ value: z.unknown() }))
    let graph: unknown = 'x'
    for (let level = 0; level < 60; level++) graph = [graph, graph]
    expect(parse(open, { value: graph })).toMatchObject({ message: expect.stringContaining('larger than') as string })
    const loop: Record<string, unknown> = {}
    loop['self'] = loop
    expect(parse(open, { value: loop })).toMatchObject({ message: expect.stringContaining('deeper than 64') as string })
  })

  test('an optional argument named like a member of every object is optional', () => {
    const odd = reading(
      z.object({ query: z.string(), constructor: z.string().optional(), toString: z.int().default(3) }),
    )
    expect(parse(odd, { query: 'a' })).toEqual({ kind: 'parsed', args: { query: 'a', toString: 3 } })
    const given = { query: 'a', constructor: 'b', toString: 4 }
    expect(parse(odd, given)).toEqual({ kind: 'parsed', args: given })
    expect(parse(odd, { query: 'a', constructor: 1 }).kind).toBe('invalid')
    expect(parse(odd, { query: 'a', valueOf: 1 })).toMatchObject({ kind: 'invalid' })
  })

  test('what was parsed cannot be written to, at any depth', () => {
    const open = reading(z.object({ list: z.array(z.json()) }))
    const parsed = parse(open, { list: [{ a: [1] }] })
    const { list } = (parsed as unknown as { args: { list: { a: number[] }[] } }).args
    expect(() => list[0]?.a.push(2)).toThrow(TypeError)
    expect(() => list.pop()).toThrow(TypeError)
    expect(parsed).toEqual({ kind: 'parsed', args: { list: [{ a: [1] }] } })
  })

  test('an undefined property is an absent one', () => {
    expect(parse(search, { query: 'a', limit: undefined })).toEqual({ kind: 'parsed', args: { query: 'a', limit: 10 } })
  })

  test('what was parsed is a copy that the caller cannot change afterwards', () => {
    const open = reading(z.object({ list: z.array(z.unknown()) }))
    const list: unknown[] = [{ a: 1 }]
    const parsed = parse(open, { list })
    list.push('later')
    expect(parsed).toEqual({ kind: 'parsed', args: { list: [{ a: 1 }] } })
  })

  test('parsing again changes neither value nor hash, for whatever is accepted', () => {
    const tool = reading(
      z.object({
        mail: z.email().toLowerCase().optional(),
        name: z.string().trim().normalize().toLowerCase().max(20),
        tags: z.array(z.string().trim()).max(5).default([]),
        more: z.json().optional(),
      }),
    )
    const args = fc.record(
      { name: fc.string({ unit: 'grapheme', maxLength: 30 }), tags: fc.array(fc.string()), more: fc.jsonValue() },
      { requiredKeys: ['name'] },
    )
    fc.assert(
      fc.property(args, (candidate) => {
        const first = parse(tool, candidate)
        fc.pre(first.kind === 'parsed')
        const second = parse(tool, first.args)
        expect(second).toEqual(first)
        expect(second.kind === 'parsed' && argumentsHash(second.args)).toBe(argumentsHash(first.args))
      }),
    )
  })

  test('a rewrite that no sample caught is caught when it changes real arguments twice', () => {
    const tool = reading(
      z.object({ code: z.string().overwrite((text) => (text.startsWith('zq') ? `${text}q` : text)) }),
    )
    expect(tool.defects).toEqual([])
    expect(parse(tool, { code: 'ab' }).kind).toBe('parsed')
    expect(() => parse(tool, { code: 'zq' })).toThrow(ToolDefectError)
  })

  test('parsed arguments that are not JSON, or that break the tool’s own schema, are a defect of the tool', () => {
    const odd = { ...search, parse: () => ({ kind: 'parsed', value: { query: 'a', limit: new Date() } }) as const }
    expect(() => parse(odd, { query: 'a' })).toThrow('not plain JSON')
    const wide = { ...search, parse: () => ({ kind: 'parsed', value: { query: 'a', limit: 900 } }) as const }
    expect(() => parse(wide, { query: 'a' })).toThrow('own input schema')
    const waiting = reading(z.object({ a: z.string().check(async () => {}) }))
    expect(() => parse(waiting, { a: 'a' })).toThrow(ToolDefectError)
  })

  test('a frozen contract that is no longer the live one is checked as the run saw it', () => {
    const frozen = reading(z.object({ q: z.string() })).spec
    expect(parseArguments(search, { q: ' a ' }, frozen)).toEqual({ kind: 'parsed', args: { q: ' a ' } })
    expect(parseArguments(search, { query: 'a' }, frozen).kind).toBe('invalid')
  })
})
