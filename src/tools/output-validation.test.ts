import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { validateOutput } from './output-validation.ts'
import { emitSchema } from './zod-schema.ts'

const Person = z.object({ id: z.string(), born: z.date(), tags: z.array(z.string()).optional() })
const spec = { outputSchema: emitSchema(z.array(Person), 'output').schema }
const born = new Date(Date.UTC(1815, 11, 10))

describe('validateOutput', () => {
  test('normalises before it validates: dates are text, sets are lists, undefined is absent', () => {
    const rows = [
      { id: 'p-1', born, tags: new Set(['b', 'a']) },
      { id: 'p-2', born, tags: undefined },
    ]
    expect(validateOutput(spec, rows)).toEqual({
      kind: 'valid',
      data: [
        { id: 'p-1', born: '1815-12-10T00:00:00.000Z', tags: ['a', 'b'] },
        { id: 'p-2', born: '1815-12-10T00:00:00.000Z' },
      ],
    })
  })

  test.each([
    ['a missing field', [{ id: 'p-1' }], '/0 must have required property'],
    ['a field the contract does not name', [{ id: 'p-1', born, salary: 1 }], '"salary"'],
    ['another type', { rows: [] }, 'must be array'],
    ['nothing', undefined, 'must be array'],
    ['a value that JSON cannot carry', [{ id: 10n, born: new Date(Number.NaN) }], '/0/born'],
  ])('refuses %s', (_name, data, message) => {
    expect(validateOutput(spec, data)).toMatchObject({
      kind: 'invalid',
      message: expect.stringContaining(message) as string,
    })
  })

  test('never throws on a hostile answer', () => {
    const hostile = new Proxy([], {
      get() {
        throw new Error('trap')
      },
    })
    expect(validateOutput(spec, hostile).kind).toBe('invalid')
  })

  test('names what JSON cannot carry where the contract has a text', () => {
    const text = { outputSchema: emitSchema(z.object({ body: z.string() }), 'output').schema }
    expect(validateOutput(text, { body: new Uint8Array(3) })).toEqual({
      kind: 'valid',
      data: { body: '<unrenderable bytes>' },
    })
  })
})
