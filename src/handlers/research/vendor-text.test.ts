import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clippedLine, clippedText, webAddress } from './vendor-text.ts'

describe('text of a vendor', () => {
  test('is never longer than allowed, is well formed, and is never empty', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.integer({ min: 2, max: 30 }), (text, max) => {
        for (const kept of [clippedText(text, max), clippedLine(text, max)]) {
          expect(kept === null ? text.trim() : kept).toSatisfy((value: string) =>
            kept === null ? value === '' : value !== '' && value.length <= max && value.isWellFormed(),
          )
        }
      }),
    )
  })

  test('is cut between characters, and shows that it was', () => {
    expect(clippedText('abcdef', 4)).toBe('abc…')
    expect(clippedText('abcd', 4)).toBe('abcd')
    expect(clippedText('ab😀cd', 4)).toBe('ab…')
    expect(clippedText('half a \ud83d', 20)).toBe('half a �')
  })

  test('keeps its lines unless it is one line by nature', () => {
    expect(clippedText(' a\n\nb ', 10)).toBe('a\n\nb')
    expect(clippedLine(' a\r\n\tb ', 10)).toBe('a b')
  })

  test.each([null, undefined, '', ' \n\t'])('that is %j is none', (text) => {
    expect([clippedText(text, 10), clippedLine(text, 10)]).toEqual([null, null])
  })
})

describe('an address', () => {
  test.each([
    ['https://example.com/a?b#c', 'https://example.com/a?b#c'],
    ['HTTP://EXAMPLE.com', 'http://example.com/'],
    ['https://exämple.test/', 'https://xn--exmple-cua.test/'],
    ['javascript:alert(1)', null],
    ['data:text/html,x', null],
    ['file:///etc/passwd', null],
    ['//example.com', null],
    ['https://user@example.com', null],
    ['https://:pw@example.com', null],
    ['https://', null],
    [`https://example.com/${'x'.repeat(2_100)}`, null],
    [`https://example.com/${'ä'.repeat(1_000)}`, null],
    ['', null],
    [null, null],
    [undefined, null],
  ])('%s', (text, address) => {
    expect(webAddress(text)).toBe(address)
  })
})
