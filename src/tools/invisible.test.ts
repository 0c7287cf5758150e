import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { stripInvisible } from './invisible.ts'

describe('stripInvisible', () => {
  test.each([
    ['control characters', 'a\u0000b\u0007c\u007fd\u0090e', 'abcde'],
    ['bidirectional overrides', 'pay \u202eeve\u202c now\u2066x\u2069', 'pay eve nowx'],
    ['zero-width marks', 'ig\u200bno\u200cre\u200d\ufeff\u2060 me', 'ignore me'],
    ['the tag block, which spells hidden text', 'hi\u{e0069}\u{e0067}\u{e007f}', 'hi'],
    ['variation selectors that spell bytes', '\u{1f600}\u{e0100}\u{e01ef}\ufe01', '\u{1f600}'],
    ['soft hyphens and fillers', 'pass\u00adword\u3164\uffa0', 'password'],
    ['terminal commands', '\u001b[31mred\u001b[0m \u001b]0;title\u0007ok\u001b[2J', 'red ok'],
  ])('removes %s', (_name, text, clean) => {
    expect(stripInvisible(text)).toBe(clean)
  })

  test('keeps tabs, line feeds, accents, emoji presentation and other scripts', () => {
    const kept = 'a\tb\nc é e\u0301 \u2764\ufe0f 日本語 עברית हिन्दी \u{1f468}'
    expect(stripInvisible(kept)).toBe(kept)
  })

  test('writes every line end as a line feed', () => {
    expect(stripInvisible('a\r\nb\rc\u2028d\u2029e\u0085f')).toBe('a\nb\nc\nd\ne\nf')
  })

  test('a second pass finds nothing, and nothing hidden is left', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        const clean = stripInvisible(text.toWellFormed())
        expect(stripInvisible(clean)).toBe(clean)
        expect(clean).not.toMatch(/[\u202a-\u202e\u200b-\u200f\u{e0000}-\u{e007f}]/u)
      }),
      { numRuns: 500 },
    )
  })
})
