import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { JsonValue } from '../../tools/json.ts'
import { PLATFORM_OUTPUT_BYTES } from '../../tools/models.ts'
import { MAX_FIELDS } from './submit-task.ts'
import { taskView } from './task-view.ts'

const answer = (content: unknown, basis: unknown = []): JsonValue =>
  ({ run: { status: 'completed' }, output: { type: 'json', content, basis } }) as JsonValue

test('a field is found by its name, with what the vendor says about it', () => {
  const basis = [
    {
      field: 'head',
      confidence: 'medium',
      citations: [{ url: 'https://example.com/a' }, { url: 'javascript:alert(1)' }],
    },
    { field: 7 },
  ]
  expect(taskView(['founded', 'head'], answer({ head: 'A. Person', founded: 1990, extra: 'x' }, basis))).toEqual({
    fields: [
      { name: 'founded', value: '1990', confidence: null, sources: [], result: 'answered' },
      {
        name: 'head',
        value: 'A. Person',
        confidence: 'medium',
        sources: ['https://example.com/a'],
        result: 'answered',
      },
    ],
    diagnostics: { missing: 0, malformed: 0, unknown: 1 },
  })
})

test.each([
  ['nothing', {}, 'missing'],
  ['null', { a: null }, 'empty'],
  ['spaces', { a: '  ' }, 'empty'],
  ['a list', { a: ['x'] }, 'malformed'],
  ['a record', { a: { x: 1 } }, 'malformed'],
])('a field that holds %s has no value', (_says, content, result) => {
  expect(taskView(['a'], answer(content)).fields).toEqual([
    { name: 'a', value: null, confidence: null, sources: [], result },
  ])
})

test('names of the language itself are fields like others', () => {
  const content = JSON.parse('{"__proto__": "p", "constructor": "c"}') as JsonValue
  expect(taskView(['__proto__', 'constructor', 'toString'], answer(content)).fields.map(({ value }) => value)).toEqual([
    'p',
    'c',
    null,
  ])
})

test('an answer without fields misses every one of them', () => {
  for (const result of [null, {}, answer('text'), { output: { type: 'text', content: 'a: 1' } }] as JsonValue[])
    expect(taskView(['a'], result).diagnostics.missing).toBe(1)
})

test('whatever a vendor answers, every field is answered once, in order, and all of it fits', () => {
  const names = Array.from({ length: MAX_FIELDS }, (_, index) => `field_${index}`)
  const text = fc.string({ unit: 'binary', maxLength: 2_000 })
  const content = fc.dictionary(fc.constantFrom(...names), fc.oneof(text, fc.jsonValue({ maxDepth: 2 })))
  const citation = fc.record({ url: fc.oneof(fc.webUrl(), text) })
  const basis = fc.array(fc.record({ field: fc.constantFrom(...names), citations: fc.array(citation) }))
  fc.assert(
    fc.property(content, basis, (given, based) => {
      const { fields } = taskView(names, answer(given, based))
      expect(fields.map(({ name }) => name)).toEqual(names)
      expect(Buffer.byteLength(JSON.stringify(fields))).toBeLessThan(PLATFORM_OUTPUT_BYTES)
    }),
    { numRuns: 50 },
  )
})
