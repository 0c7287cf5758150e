import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { JsonObject, JsonValue } from './json.ts'
import type { HandlerAnswer } from './models.ts'
import { PLATFORM_OUTPUT_BYTES } from './models.ts'
import { validateOutput } from './output-validation.ts'
import { boundResult } from './result-boundary.ts'
import type { Crossing } from './result-boundary.ts'

const long = (length: number): string => 'x'.repeat(length)
const bytes = (value: JsonValue): number => Buffer.byteLength(JSON.stringify(value), 'utf8')

function cross(data: JsonValue, options: Partial<Crossing['spec']> & Partial<Omit<Crossing, 'spec' | 'data'>> = {}) {
  const { kind = 'internal', maxResults = null, maxOutputBytes = null, itemKind = null } = options
  const { meta = {}, secrets = [] } = options
  return boundResult({ spec: { kind, maxResults, maxOutputBytes, itemKind }, data, meta, secrets })
}

const marker = (size: number, id: string | null): JsonObject => ({
  __dropped__: { reason: 'too_large', bytes: size, ...(id === null ? {} : { ref: { kind: 'crm.person', id } }) },
})

describe('limits', () => {
  test('T21 item and byte limits compose, and either one sets truncated', () => {
    const rows = Array.from({ length: 40 }, (_, index) => ({ id: `p-${index}`, text: long(80) }))
    expect(cross(rows, { maxResults: 10 })).toEqual({
      data: rows.slice(0, 10),
      meta: { count: 10, truncated: true, untrusted: false },
    })
    const both = cross(rows, { maxResults: 10, maxOutputBytes: 500 })
    const kept = both.data as JsonValue[]
    expect(kept).toEqual(rows.slice(0, kept.length))
    expect(kept.length).toBeLessThan(10)
    expect(both.meta).toEqual({ count: kept.length, truncated: true, untrusted: false })
    expect(cross(rows, { maxOutputBytes: 500 }).meta).toEqual(both.meta)
    expect(cross(rows.slice(0, 5), { maxResults: 10 }).meta).toEqual({ count: 5, truncated: false, untrusted: false })
  })

  test('a tool may lower the platform limit and never raise it', () => {
    const rows = Array.from({ length: 5000 }, (_, index) => ({ id: index, text: long(40) }))
    expect(bytes(cross(rows, { maxOutputBytes: 10 * PLATFORM_OUTPUT_BYTES }).data)).toBeLessThanOrEqual(
      PLATFORM_OUTPUT_BYTES,
    )
    expect(bytes(cross(rows, { maxOutputBytes: 900 }).data)).toBeLessThanOrEqual(900)
    expect(cross(rows, { maxOutputBytes: 2 })).toEqual({
      data: [],
      meta: { count: 0, truncated: true, untrusted: false },
    })
  })

  test('max results count the items of a list; nothing else has items to count', () => {
    expect(cross({ a: 1, b: 2 }, { maxResults: 1 })).toEqual({
      data: { a: 1, b: 2 },
      meta: { truncated: false, untrusted: false },
    })
  })
})

describe('what was too large', () => {
  test('T34 one item larger than the whole limit keeps its shape, its large fields replaced by a reference to it', () => {
    const rows = [
      { id: 'p-1', name: 'Ada' },
      { id: 'p-2', name: 'Grace', bio: long(40_958) },
      { id: 'p-3', name: 'Edsger' },
    ]
    expect(cross(rows, { itemKind: 'crm.person' })).toEqual({
      data: [rows[0], { id: 'p-2', name: 'Grace', bio: marker(40_960, 'p-2') }, rows[2]],
      meta: { count: 3, truncated: true, untrusted: false },
    })
  })

  test('T63 a marker names a row only when the spec names a kind and the row carries an id', () => {
    const rows = [
      { id: 'p-1', bio: long(40_000) },
      { bio: long(40_000) },
      { id: '', bio: long(40_000) },
      { id: 4, bio: long(40_000) },
    ]
    expect(cross(rows, { itemKind: 'crm.person' }).data).toEqual([
      { id: 'p-1', bio: marker(40_002, 'p-1') },
      { bio: marker(40_002, null) },
      { id: '', bio: marker(40_002, null) },
      { id: 4, bio: marker(40_002, '4') },
    ])
    expect(cross(rows).data).toEqual(rows.map((row) => ({ ...row, bio: marker(40_002, null) })))
  })

  test('a row that became one marker is named by its own id, at its own position', () => {
    const row = (id: string): JsonObject => ({
      id,
      ...Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`f${n}`, long(80)])),
    })
    const rows = [row('p-1'), row('p-2')]
    expect(cross(rows, { itemKind: 'crm.person', maxOutputBytes: 400 }).data).toEqual(
      rows.map((item) => marker(bytes(item), item['id'] as string)),
    )
  })

  test('a single row, a dictionary of rows and an envelope around one list are named too', () => {
    const named = { itemKind: 'crm.person' }
    expect(cross({ id: 'p-9', bio: long(40_000) }, named).data).toEqual({ id: 'p-9', bio: marker(40_002, 'p-9') })
    expect(cross({ ada: { id: 'p-1', bio: long(40_000) }, grace: { id: 'p-2' } }, named).data).toEqual({
      ada: { id: 'p-1', bio: marker(40_002, 'p-1') },
      grace: { id: 'p-2' },
    })
    const page = { items: [{ id: 'p-1', bio: long(40_000) }], cursor: 'c', owner: { id: 'u-1' } }
    expect(cross(page, named).data).toEqual({ ...page, items: [{ id: 'p-1', bio: marker(40_002, 'p-1') }] })
  })

  test('nothing is named on a guess: two lists, or a part that is no row, stay without a reference', () => {
    const two = { people: [{ id: 'p-1', bio: long(20_000) }], companies: [{ id: 'c-1', bio: long(20_000) }] }
    expect(JSON.stringify(cross(two, { itemKind: 'crm.person' }).data)).not.toContain('"ref"')
    const mixed = { owner: { id: 'u-1', bio: long(40_000) }, total: 3 }
    expect(JSON.stringify(cross(mixed, { itemKind: 'crm.person' }).data)).not.toContain('"ref"')
  })

  test('a look-alike marker that came in with the answer is left as it came', () => {
    const fake = { id: 'p-1', note: marker(7, null), bio: long(40_000) }
    expect(cross([fake], { itemKind: 'crm.person' }).data).toEqual([{ ...fake, bio: marker(40_002, 'p-1') }])
  })

  test('naming four hundred oversized rows does not push the answer over the limit', () => {
    const rows = Array.from({ length: 400 }, (_, index) => ({ id: `person-${index}`, bio: long(33_000) }))
    const { data, meta } = cross(rows, { itemKind: 'crm.person' })
    expect(bytes(data)).toBeLessThanOrEqual(PLATFORM_OUTPUT_BYTES)
    expect(meta.count).toBe((data as JsonValue[]).length)
    expect((data as JsonValue[])[0]).toEqual({ id: 'person-0', bio: marker(33_002, 'person-0') })
    expect(meta.count).toBeLessThan(400)
  })
})

describe('order of the boundary', () => {
  test('T35 redaction runs before bounding: a credential in a dropped item is gone by rule, not by luck', () => {
    const secret = 'sk-live-0123456789abcdef'
    const rows = [
      { id: 'a', token: 'plain', text: long(300) },
      { id: secret, bio: long(40_000), password: 'hunter2' },
      ...Array.from({ length: 600 }, (_, index) => ({ id: `r-${index}`, echo: `Bearer ${secret}`, text: long(100) })),
    ]
    for (const maxOutputBytes of [null, 4000, 900, 300, 60]) {
      const text = JSON.stringify(cross(rows, { itemKind: 'crm.person', maxOutputBytes, secrets: [secret] }))
      expect(text).not.toContain(secret)
      expect(text).not.toContain('hunter2')
      expect(text).not.toContain('plain')
    }
    expect(cross([{ id: 'a', token: long(40_000) }])).toEqual({
      data: [{ id: 'a', token: '[redacted]' }],
      meta: { count: 1, truncated: false, untrusted: false },
    })
    const named = cross(rows.slice(1, 2), { itemKind: 'crm.person', secrets: [secret] })
    expect(named.data).toEqual([{ id: '[redacted]', bio: marker(40_002, '[redacted]'), password: '[redacted]' }])
  })

  test('T33 an answer is valid against its schema before the boundary changes its form', () => {
    const outputSchema = {
      type: 'array',
      minItems: 2,
      items: {
        type: 'object',
        properties: { id: { type: 'string' }, bio: { type: 'string' } },
        required: ['id', 'bio'],
      },
    }
    const rows = [
      { id: 'p-1', bio: long(40_000) },
      { id: 'p-2', bio: 'short' },
    ]
    const valid = validateOutput({ outputSchema }, rows)
    expect(valid).toEqual({ kind: 'valid', data: rows })
    const { data } = cross(rows, { maxResults: 1 })
    expect(data).toEqual([{ id: 'p-1', bio: marker(40_002, null) }])
    expect(validateOutput({ outputSchema }, data).kind).toBe('invalid')
    expect(validateOutput({ outputSchema }, rows.slice(0, 1)).kind).toBe('invalid')
  })

  test('a credential hidden behind zero-width characters is found, because they are taken out first', () => {
    const { data } = cross(
      { note: 'sk-li\u200bve-01234\u200d56789' },
      { kind: 'vendor', secrets: ['sk-live-0123456789'] },
    )
    expect(data).toEqual({ note: '[redacted]' })
  })
})

describe('labels', () => {
  test('R36 what comes from outside is labelled untrusted and loses its hidden characters', () => {
    const text = 'ok\u202e\u{e0041}\u0007'
    for (const kind of ['vendor', 'mcp'] as const) {
      const answer = cross({ text, [`k\u200b`]: 1 }, { kind, meta: { untrusted: false } })
      expect(answer).toEqual({ data: { text: 'ok', k: 1 }, meta: { truncated: false, untrusted: true } })
    }
    expect(cross({ text }, { meta: { untrusted: true } })).toMatchObject({
      data: { text: 'ok' },
      meta: { untrusted: true },
    })
    expect(cross({ text })).toMatchObject({ data: { text }, meta: { untrusted: false } })
  })

  test('R12 a stop, a code or anything else a handler wrote beside its answer is left behind', () => {
    const answer = {
      ok: true,
      data: 1,
      stop: 'fault',
      meta: { usageId: 'u-1', stop: 'fault', count: 99, truncated: true },
    }
    const { data, meta } = answer as unknown as HandlerAnswer<JsonValue>
    expect(cross(data, { meta: meta ?? {} })).toEqual({
      data: 1,
      meta: { truncated: false, untrusted: false, usageId: 'u-1' },
    })
  })

  test('a partial reason is kept, short and without credentials', () => {
    const { meta } = cross([], {
      meta: { partialReason: `key sk-live-0123456789 refused \u001b[31m${long(900)}` },
      secrets: ['sk-live-0123456789'],
    })
    expect(meta.partialReason).toMatch(/^key \[redacted\] refused x+$/)
    expect(meta.partialReason).toHaveLength(300)
  })
})

test('R35 whatever an answer holds, it fits, and its count and truncated flag are true', () => {
  const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<JsonValue>
  const rows = fc.array(fc.record({ id: fc.string(), body: fc.string({ maxLength: 300 }), more: json }), {
    maxLength: 30,
  })
  fc.assert(
    fc.property(
      fc.oneof(json, rows),
      fc.integer({ min: 2, max: 1500 }),
      fc.option(fc.integer({ min: 1, max: 20 })),
      (data, maxOutputBytes, maxResults) => {
        const { data: answer, meta } = cross(data, {
          kind: 'vendor',
          maxOutputBytes,
          maxResults,
          itemKind: 'crm.person',
        })
        expect(bytes(answer)).toBeLessThanOrEqual(maxOutputBytes)
        expect(meta.count).toBe(Array.isArray(answer) ? answer.length : undefined)
        expect(meta.truncated || !Array.isArray(data) || meta.count === data.length).toBe(true)
        expect(Array.isArray(answer)).toBe(Array.isArray(data))
      },
    ),
    { numRuns: 500 },
  )
})
