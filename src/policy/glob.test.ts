import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { globMatches } from './glob.ts'

describe('a glob', () => {
  test.each([
    ['ada@example.com', '*@example.com', true],
    ['ada@example.com.evil.net', '*@example.com', false],
    ['@example.com', '*@example.com', true],
    ['ada@example.com', 'ada@*', true],
    ['ada', 'ada', true],
    ['Ada', 'ada', false],
    ['abc', 'a?c', true],
    ['ac', 'a?c', false],
    ['', '', true],
    ['', '*', true],
    ['', '?', false],
    ['a', '', false],
    ['a.b', 'a?b', true],
    ['axb', 'a.b', false],
    ['(a+)+$', '(a+)+$', true],
    ['a*b', 'a*b', true],
    ['mississippi', '*iss*ip*', true],
    ['😀', '?', true],
    ['😀x', '??', true],
    ['*bc', '*c', true],
    ['a?', '??', true],
  ])('%j against %j is %j', (text, pattern, matches) => {
    expect(globMatches(text, pattern)).toBe(matches)
  })

  test('agrees with the textbook definition on every short text and pattern', () => {
    const letters = fc.array(fc.constantFrom('a', 'b', '😀'), { maxLength: 8 }).map((parts) => parts.join(''))
    const patterns = fc
      .array(fc.constantFrom('a', 'b', '😀', '*', '?'), { maxLength: 8 })
      .map((parts) => parts.join(''))
    fc.assert(
      fc.property(letters, patterns, (text, pattern) => {
        expect(globMatches(text, pattern)).toBe(byDefinition(Array.from(text), Array.from(pattern)))
      }),
      { numRuns: 3000 },
    )
  })

  test('a pattern made to make backtracking explode is answered', () => {
    expect(globMatches('a'.repeat(20_000), '*a'.repeat(100) + 'b')).toBe(false)
    expect(globMatches('a'.repeat(20_000) + 'b', '*a'.repeat(100) + '*b')).toBe(true)
  })
})

function byDefinition(text: readonly string[], pattern: readonly string[]): boolean {
  const [first, ...rest] = pattern
  if (first === undefined) return text.length === 0
  if (first === '*') return byDefinition(text, rest) || (text.length > 0 && byDefinition(text.slice(1), pattern))
  return text.length > 0 && (first === '?' || first === text[0]) && byDefinition(text.slice(1), rest)
}
