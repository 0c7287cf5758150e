import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anything } from '../../test/setup/anything.ts'
import { MAX_PLAIN_DEPTH, normalise } from './normalise.ts'

describe('normalise', () => {
  test('leaves plain JSON as it is', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
        expect(JSON.stringify(normalise(value))).toBe(JSON.stringify(value))
      }),
    )
  })

  test('never throws and always answers what JSON text can carry, whatever it is given', () => {
    fc.assert(
      fc.property(anything, (value) => {
        const plain = normalise(value)
        const text = JSON.stringify(plain)
        expect(JSON.parse(text)).toEqual(plain)
        expect(text.isWellFormed()).toBe(true)
        expect(normalise(plain)).toEqual(plain)
      }),
      { numRuns: 500 },
    )
  })

  test.each([
    ['bytes', new Uint8Array([1, 2])],
    ['bytes', Buffer.from('secret')],
    ['bytes', new ArrayBuffer(2)],
    ['map', new Map([['a', 1]])],
    ['bigint', 10n],
    ['symbol', Symbol('x')],
    ['function', () => 1],
    ['number', Number.NaN],
    ['number', Number.NEGATIVE_INFINITY],
    ['date', new Date(Number.NaN)],
    ['error', new Error('inside')],
    ['promise', Promise.resolve(1)],
    ['regular expression', /a/],
    ['weak collection', new WeakMap()],
  ])('names %s, which JSON cannot carry', (name, value) => {
    expect(normalise({ value })).toEqual({ value: `<unrenderable ${name}>` })
  })

  test('writes a date as ISO text and a set as a sorted list, in every worker the same', () => {
    expect(normalise(new Date(Date.UTC(2026, 0, 2)))).toBe('2026-01-02T00:00:00.000Z')
    expect(normalise(new Set(['b', 'a', 'c']))).toEqual(['a', 'b', 'c'])
    expect(normalise(new Set([10, 9, 100]))).toEqual([9, 10, 100])
    expect(normalise(new Set([{ b: 1 }, { a: 1 }]))).toEqual([{ a: 1 }, { b: 1 }])
  })

  test('follows toJSON of a class, leaves out undefined fields and fills holes with null', () => {
    class Money {
      readonly cents = 5
      toJSON(): string {
        return '0.05'
      }
    }
    class Row {
      readonly id = 'r-1'
      readonly gone = undefined
    }
    // oxlint-disable-next-line no-sparse-arrays
    expect(normalise([new Money(), new Row(), [1, , undefined]])).toEqual(['0.05', { id: 'r-1' }, [1, null, null]])
    expect(normalise(undefined)).toBeNull()
  })

  test('replaces a lone surrogate and turns minus zero into zero', () => {
    expect(normalise({ '\ud800': '\udfff' })).toEqual({ '\ufffd': '\ufffd' })
    expect(Object.is(normalise(-0), 0)).toBe(true)
  })

  test('names a cycle and what lies too deep, and writes a shared value out at both places', () => {
    const loop: Record<string, unknown> = {}
    loop['self'] = loop
    expect(normalise(loop)).toEqual({ self: '<unrenderable cycle>' })
    let deep: unknown = 'end'
    for (let level = 0; level < MAX_PLAIN_DEPTH + 50; level++) deep = [deep]
    expect(JSON.stringify(normalise(deep))).toContain('<unrenderable depth>')
    const shared = { a: 1 }
    expect(normalise([shared, shared])).toEqual([{ a: 1 }, { a: 1 }])
  })

  test('unfolds a small graph that stands for billions of values only so far, and says that more was there', () => {
    let graph: unknown = 'x'
    for (let level = 0; level < 40; level++) graph = [graph, graph]
    expect(JSON.stringify(normalise(graph))).toContain('<unrenderable excess>')
  })

  test('survives hostile getters, proxies and toJSON', () => {
    const hostile = {
      get trap(): never {
        throw new Error('trap')
      },
      fine: 1,
      proxy: new Proxy(
        {},
        {
          ownKeys() {
            throw new Error('trap')
          },
        },
      ),
      dated: new Proxy(new Date(), {}),
      endless: Object.create({
        toJSON(this: object): object {
          return Object.create(Object.getPrototypeOf(this) as object) as object
        },
      }) as object,
    }
    const plain = normalise(hostile) as Record<string, unknown>
    expect(plain['fine']).toBe(1)
    expect(plain['trap']).toBe('<unrenderable property>')
    expect(plain['proxy']).toBe('<unrenderable object>')
    expect(JSON.stringify(plain)).toContain('<unrenderable depth>')
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    expect(normalise([proxy])).toEqual(['<unrenderable object>'])
  })

  test('keeps a field named __proto__ as a field', () => {
    const plain = normalise(JSON.parse('{"__proto__":{"admin":true}}'))
    expect(JSON.stringify(plain)).toBe('{"__proto__":{"admin":true}}')
    expect(Object.getPrototypeOf(plain)).toBe(Object.prototype)
  })
})
