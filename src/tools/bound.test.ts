import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bound } from './bound.ts'
import { jsonBytes } from './json-size.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { isMarker } from './markers.ts'
import { normalise } from './normalise.ts'

const bytes = (value: JsonValue): number => Buffer.byteLength(JSON.stringify(value), 'utf8')
const long = (length: number): string => 'x'.repeat(length)
const marker = (size: number): JsonValue => ({ __dropped__: { reason: 'too_large', bytes: size } })

/** JSON with texts long enough to matter, names among them, and rows as tools answer them. */
const text = fc.oneof(
  { weight: 3, arbitrary: fc.string({ unit: 'grapheme', maxLength: 8 }) },
  {
    weight: 1,
    arbitrary: fc.string({ unit: 'binary', minLength: 60, maxLength: 400 }).map((value) => value.toWellFormed()),
  },
)
const { json } = fc.letrec<{ json: JsonValue }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(
      text,
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (value === 0 ? 0 : value)),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
    ),
    fc.array(tie('json'), { maxLength: 12 }),
    fc.dictionary(text, tie('json'), { maxKeys: 12 }),
    fc.constant(marker(500)),
  ),
}))
const limit = fc.oneof(fc.integer({ min: 2, max: 120 }), fc.integer({ min: 2, max: 2000 }))

describe('R35 bounding never breaks a structure', () => {
  test('the answer fits, is plain JSON, and is the input itself when that fits', () => {
    fc.assert(
      fc.property(json, limit, (value, room) => {
        const { value: answer, truncated } = bound(value, room)
        expect(bytes(answer)).toBeLessThanOrEqual(room)
        expect(normalise(answer)).toEqual(answer)
        expect(truncated).toBe(bytes(value) > room)
        expect(truncated || answer === value).toBe(true)
      }),
      { numRuns: 1000 },
    )
  })

  test('bounding again changes nothing', () => {
    fc.assert(
      fc.property(json, limit, (value, room) => {
        const once = bound(value, room).value
        expect(bound(once, room)).toEqual({ value: once, truncated: false })
      }),
      { numRuns: 500 },
    )
  })

  test('keeps order and place: every part of the answer is the part itself, a smaller form of it, or its marker', () => {
    fc.assert(
      fc.property(json, limit, (value, room) => {
        expect(isReduction(bound(value, room).value, value)).toBe(true)
      }),
      { numRuns: 1000 },
    )
  })

  test('keeps the kind of what it bounds: a list stays a list and an object an object', () => {
    fc.assert(
      fc.property(json, limit, (value, room) => {
        const answer = bound(value, room).value
        expect(Array.isArray(answer)).toBe(Array.isArray(value))
        expect(typeof answer === 'object' || typeof value !== 'object' || value === null).toBe(true)
      }),
    )
  })

  test('the measure is the encoder: both count the same bytes for every value', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(jsonBytes(value, new Map())).toBe(bytes(value))
      }),
    )
  })
})

/** What bounding may do: cut lists and objects from the end, put markers, shorten containers; never a text. */
function isReduction(answer: JsonValue, original: JsonValue): boolean {
  if (answer === original) return true
  if (isMarker(answer)) return isMarker(original) || answerSize(answer) === bytes(original)
  if (typeof original === 'string') return answer === ''
  if (Array.isArray(answer) && Array.isArray(original)) {
    return (
      answer.length <= original.length && answer.every((item, index) => isReduction(item, original[index] as JsonValue))
    )
  }
  if (typeof original !== 'object' || original === null || typeof answer !== 'object' || answer === null) {
    return answer === ''
  }
  const kept = Object.keys(answer)
  const names = Object.keys(original).slice(0, kept.length)
  const fields: JsonObject = Object.fromEntries(Object.entries(answer))
  return (
    kept.every((name, index) => name === names[index]) &&
    kept.every((name) => isReduction(fields[name] as JsonValue, (original as JsonObject)[name] as JsonValue))
  )
}

function answerSize(answer: JsonObject): unknown {
  return (answer['__dropped__'] as JsonObject)['bytes']
}

describe('lists', () => {
  test('an item larger than the limit keeps its shape and its place, its largest fields as markers', () => {
    const rows = [{ id: 'p-1' }, { id: 'p-2', name: 'Ada', bio: long(5000), notes: long(300) }, { id: 'p-3' }]
    expect(bound(rows, 1000).value).toEqual([
      { id: 'p-1' },
      { id: 'p-2', name: 'Ada', bio: marker(5002), notes: marker(302) },
      { id: 'p-3' },
    ])
    expect(bound(rows, 2000).value).toEqual([
      { id: 'p-1' },
      { id: 'p-2', name: 'Ada', bio: marker(5002), notes: long(300) },
      { id: 'p-3' },
    ])
  })

  test('every oversized item is replaced before any item is dropped', () => {
    const rows = [long(3000), { id: 'a', body: long(4000) }, 'small', 7, [1, long(2500)]]
    expect(bound(rows, 600).value).toEqual([
      marker(3002),
      { id: 'a', body: marker(4002) },
      'small',
      7,
      [1, marker(2502)],
    ])
  })

  test('an item whose share has no room for its shape is one marker', () => {
    const row = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`field_${index}`, long(100)]))
    expect(bound([row, 'next'], 200).value).toEqual([marker(bytes(row)), 'next'])
  })

  test('items that are not oversized are dropped from the end, and only there', () => {
    const rows = Array.from({ length: 100 }, (_, index) => ({ id: index, text: long(50) }))
    const { value } = bound(rows, 1000)
    expect(value).toEqual(rows.slice(0, (value as JsonValue[]).length))
    expect(bytes([...(value as JsonValue[]), rows[(value as JsonValue[]).length] as JsonValue])).toBeGreaterThan(1000)
  })
})

describe('objects', () => {
  test('the largest value gives way first and the others stay whole', () => {
    const value = { id: 'c-1', body: long(900), summary: long(400) }
    expect(bound(value, 600).value).toEqual({ id: 'c-1', body: marker(902), summary: long(400) })
  })

  test('a container is bounded into the room that is left before it is given up', () => {
    const items = Array.from({ length: 200 }, (_, index) => ({ id: index }))
    const { value } = bound({ total: 200, items, next: 'page-2' }, 500)
    const kept = (value as { items: JsonValue[] }).items
    expect(value).toEqual({ total: 200, items: items.slice(0, kept.length), next: 'page-2' })
    expect(kept.length).toBeGreaterThan(20)
  })

  test('a container of which nothing would remain is a marker', () => {
    const value = { summary: long(440), items: [{ body: long(900) }] }
    expect(bound(value, 513).value).toEqual({ summary: long(440), items: marker(bytes(value.items)) })
  })

  test('when names and markers alone are too much, fields are kept from the front with what they hold', () => {
    const value = Object.fromEntries(
      Array.from({ length: 500 }, (_, index) => [`row_${index}`, { n: index, t: long(60) }]),
    )
    const answer = bound(value, 1000).value as JsonObject
    const kept = Object.keys(answer)
    expect(kept).toEqual(Object.keys(value).slice(0, kept.length))
    expect(kept.length).toBeGreaterThan(5)
    expect(answer['row_0']).toEqual({ n: 0, t: long(60) })
  })

  test('a field named __proto__ survives as a field', () => {
    const value = JSON.parse(`{"__proto__":{"a":1},"body":"${long(500)}"}`) as JsonValue
    expect(JSON.stringify(bound(value, 200).value)).toBe(
      '{"__proto__":{"a":1},"body":{"__dropped__":{"reason":"too_large","bytes":502}}}',
    )
  })
})

describe('scalars and the smallest limits', () => {
  test('a text is never cut: it is a marker, or empty when not even that fits', () => {
    expect(bound(long(100), 60).value).toEqual(marker(102))
    expect(bound(long(100), 20).value).toBe('')
    expect(bound(123_456_789, 4).value).toBe('')
    expect(bound(null, 2).value).toBe('')
  })

  test.each([
    [[1, 2, 3], []],
    [{ a: 1 }, {}],
    ['abc', ''],
  ] as const)('two bytes always hold an answer: %o becomes %o', (value, smallest) => {
    expect(bound(value as JsonValue, 2).value).toEqual(smallest)
  })

  test('a limit below two bytes is treated as two', () => {
    expect(bound([1], 0).value).toEqual([])
    expect(bound([1], Number.NEGATIVE_INFINITY).value).toEqual([])
  })

  test('a marker that must shrink loses its reference and keeps the size it speaks of', () => {
    const named = { __dropped__: { reason: 'too_large', bytes: 40_960, ref: { kind: 'crm.person', id: long(90) } } }
    expect(bound(named, 80).value).toEqual(marker(40_960))
    expect(bound([named, named], 110).value).toEqual([marker(40_960), marker(40_960)])
  })

  test('does not throw on nesting that no walk survives', () => {
    let deep: JsonValue = 'end'
    for (let level = 0; level < 50_000; level++) deep = [deep]
    expect(bound(deep, 100)).toEqual({ value: [], truncated: true })
  })
})
