import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PLATFORM_OUTPUT_BYTES } from '../../tools/models.ts'
import { boundResult } from '../../tools/result-boundary.ts'
import { readPage } from './firecrawl-page.ts'

const URL_ASKED = 'https://sample.test/'
const page = (markdown: string, metadata: object = {}) => readPage({ markdown, metadata }, URL_ASKED)

const bytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

/** The answer after the boundary behind every tool. */
function bounded(read: ReturnType<typeof readPage>) {
  const spec = { kind: 'vendor', maxResults: null, maxOutputBytes: null, itemKind: null } as const
  return boundResult({ spec, data: { ...read.page }, meta: {}, secrets: [] })
}

describe('a long page', () => {
  test('R35 keeps its beginning, as much as an answer may hold, and says how much that is', () => {
    const read = page('x'.repeat(100_000))
    expect(bytes(read.page)).toBe(PLATFORM_OUTPUT_BYTES)
    expect(read.partialReason).toBe(`the first ${read.page.markdown.length} of 100000 characters of the page`)
    expect(bounded(read).meta.truncated).toBe(false)
  })

  test('that fits is left whole', () => {
    const read = page('# Sample\n\n'.repeat(2_000))
    expect(read.page.markdown).toHaveLength(20_000)
    expect(read.partialReason).toBeNull()
  })

  test('every page fits, begins as it begins, and breaks no character', () => {
    const unit = fc.constantFrom('x', 'é', '\n', '"', '\\', '\u0001', '漢', '😀', '\ud83d')
    const text = fc.tuple(unit, fc.string({ unit, maxLength: 20 }), fc.integer({ min: 0, max: 12_000 }))
    const markdown = text.map(([one, some, times]) => some + one.repeat(times) + some.repeat(times % 300))
    const title = fc.option(fc.string({ unit, maxLength: 600 }), { nil: undefined })
    fc.assert(
      fc.property(markdown, title, (markdown, title) => {
        const read = page(markdown, { title, description: title })
        const whole = markdown.toWellFormed()
        expect(bytes(read.page)).toBeLessThanOrEqual(PLATFORM_OUTPUT_BYTES)
        expect(read.page.markdown.isWellFormed()).toBe(true)
        expect(whole.startsWith(read.page.markdown)).toBe(true)
        expect(read.partialReason === null).toBe(read.page.markdown === whole)
        // One more character, of at most six bytes for each of its two units, would not have fitted.
        if (read.partialReason !== null) expect(bytes(read.page)).toBeGreaterThan(PLATFORM_OUTPUT_BYTES - 12)
        expect(bounded(read).meta.truncated).toBe(false)
      }),
      { numRuns: 60 },
    )
  })
})

test.each([undefined, null, 'text', 7, [], {}, { metadata: null }, { metadata: {}, markdown: 7 }])(
  'a document like %j is not read as an empty page',
  (document) => {
    expect(() => readPage(document, URL_ASKED)).toThrow('the answer cannot be read')
  },
)

test('other parts of a document stay behind', () => {
  const document = {
    markdown: '#',
    html: '<b>',
    json: {},
    agent_hints: ['do this'],
    metadata: { ogTitle: 'x', title: 't' },
  }
  expect(readPage(document, URL_ASKED).page).toEqual({
    url: URL_ASKED,
    finalUrl: null,
    title: 't',
    description: null,
    language: null,
    statusCode: null,
    markdown: '#',
  })
})

test.each([
  ['application/pdf', ''],
  ['Application/PDF; charset=binary', ''],
  ['application/pdfx', 'JVBERi0='],
  ['text/html', 'JVBERi0='],
])('a page of type %s answers %j', (contentType, markdown) => {
  expect(page('JVBERi0=', { contentType }).page.markdown).toBe(markdown)
})
