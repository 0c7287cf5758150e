import { isDeepStrictEqual } from 'node:util'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { argumentsHash, canonicalJson, schemaHash, sha256Hex } from './canonical.ts'
import type { JsonObject, JsonValue } from './json.ts'

const json = fc.jsonValue({ maxDepth: 4, stringUnit: 'grapheme' }) as fc.Arbitrary<JsonValue>

describe('canonicalJson', () => {
  test('writes keys by UTF-16 code unit, as RFC 8785 shows in section 3.2.3', () => {
    const value = {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\u{1f600}': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      '\u00f6': 'Latin Small Letter O With Diaeresis',
    }
    expect(canonicalJson(value)).toBe(
      '{"\\r":"Carriage Return","1":"One","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis",' +
        '"\u20ac":"Euro Sign","\u{1f600}":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}',
    )
  })

  test('writes the example of RFC 8785, section 3.2.2', () => {
    const text = String.raw`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`
    expect(canonicalJson(JSON.parse(text) as JsonValue)).toBe(
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
    )
  })

  test.each([
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef4f', '999999999999999900000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['41b3de4355555554', '333333333.33333325'],
    ['41b3de4355555555', '333333333.3333333'],
    ['41b3de4355555556', '333333333.3333334'],
    ['41b3de4355555557', '333333333.33333343'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ])('writes the number %s of RFC 8785, appendix B, as %s', (bits, text) => {
    expect(canonicalJson(Buffer.from(bits, 'hex').readDoubleBE())).toBe(text)
  })

  test('one number has one text, however it was spelled', () => {
    const spellings = ['1', '1.0', '1e0', '100e-2', '0.1e1', '1.000000000000000000000001']
    expect(new Set(spellings.map((text) => canonicalJson(JSON.parse(text) as JsonValue)))).toEqual(new Set(['1']))
    expect(canonicalJson(-0)).toBe(canonicalJson(0))
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

  test('are equal for equal values and for no others', () => {
    const small = fc.jsonValue({ maxDepth: 2, stringUnit: fc.constantFrom('a', '\u00e9', 'e\u0301', '__proto__') })
    const plain = (value: unknown): JsonObject => ({ value: JSON.parse(JSON.stringify(value)) as JsonValue })
    fc.assert(
      fc.property(small, small, fc.boolean(), (a, other, again) => {
        const [left, right] = [plain(a), plain(again ? a : other)]
        const same = isDeepStrictEqual(left, right)
        expect(argumentsHash(left) === argumentsHash(right)).toBe(same)
        expect(canonicalJson(left) === canonicalJson(right)).toBe(same)
      }),
      { numRuns: 1000 },
    )
  })

  test('tell apart what only looks alike', () => {
    const alike: JsonValue[] = [
      '1',
      1,
      [1],
      { '1': 1 },
      'caf\u00e9',
      'cafe\u0301',
      'caf\u00e9 ',
      '',
      null,
      [],
      {},
      [null],
      false,
      0,
    ]
    expect(new Set(alike.map((value) => argumentsHash({ value }))).size).toBe(alike.length)
    expect(argumentsHash(JSON.parse('{"__proto__":1}') as JsonObject)).not.toBe(argumentsHash({}))
  })

  test('of no arguments is the digest of two brackets', () => {
    expect(argumentsHash({})).toBe('44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a')
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
