import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { argumentsHash, canonicalJson, schemaHash, sha256Hex } from './canonical.ts'
import type { JsonValue } from './json.ts'

const json = fc.jsonValue({ maxDepth: 4, stringUnit: 'grapheme' }) as fc.Arbitrary<JsonValue>

describe('canonicalJson', () => {
  test('writes keys by UTF-16 code unit and the shortest form of numbers, as RFC 8785 shows', () => {
    const value = {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\u{1f600}': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      '\u00f6': 'Latin Small Letter O With Diaeresis',
    }
    const keys = Object.keys(JSON.parse(canonicalJson(value)) as object)
    expect(canonicalJson(value).indexOf('\u{1f600}')).toBeLessThan(canonicalJson(value).indexOf('\ufb33'))
    expect(keys).toHaveLength(7)
    expect(canonicalJson([333333333.3333333, 1e30, 4.5, 2e-3, 1e-27, -0])).toBe(
      '[333333333.3333333,1e+30,4.5,0.002,1e-27,0]',
    )
  })

  test('does not depend on the order in which keys were written', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), json), (record) => {
        const turned = Object.fromEntries(Object.entries(record).toReversed())
        expect(canonicalJson(turned)).toBe(canonicalJson(record))
      }),
    )
  })

  test('is JSON text of the same value', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  test('keeps two spellings of one letter apart', () => {
    expect(canonicalJson('caf\u00e9')).not.toBe(canonicalJson('cafe\u0301'))
  })

  test('keeps an own key named __proto__ or toJSON', () => {
    const value = JSON.parse('{"toJSON":"x","__proto__":{"a":1},"a":1}') as JsonValue
    expect(canonicalJson(value)).toBe('{"__proto__":{"a":1},"a":1,"toJSON":"x"}')
  })

  test.each([
    [Number.NaN, 'NaN'],
    [Number.POSITIVE_INFINITY, 'Infinity'],
    ['\ud800', 'surrogate'],
    [undefined, 'JSON value'],
  ])('refuses %o', (value, reason) => {
    expect(() => canonicalJson(value as JsonValue)).toThrow(reason)
  })
})

describe('hashes', () => {
  test('sha256Hex is the published digest', () => {
    expect(sha256Hex('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  })

  test('arguments that differ in one default, null or order of items are different arguments', () => {
    const hashes = [{}, { limit: 10 }, { limit: null }, { to: ['a', 'b'] }, { to: ['b', 'a'] }].map(argumentsHash)
    expect(new Set(hashes).size).toBe(5)
  })

  test('a contract keeps its hash from release to release', () => {
    const input = { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] }
    const hash = schemaHash(input, { type: 'null' })
    expect(hash).toBe(sha256Hex(canonicalJson({ output: { type: 'null' }, input })))
    expect(hash).toBe('c8ca3a782f13bfafea5d644509a5e357e05ba41695753dab3233956a73061b5d')
  })

  test('input and output cannot be exchanged unnoticed', () => {
    expect(schemaHash({ a: 1 }, { b: 1 })).not.toBe(schemaHash({ b: 1 }, { a: 1 }))
  })
})
