import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isEcmaPattern, linearPattern, patternSize } from './schema-regexp.ts'
import { toRe2 } from './schema-pattern.ts'

function matches(pattern: string, text: string): boolean {
  const matcher = linearPattern(pattern)
  if (matcher === null) throw new Error(`${pattern} is not run`)
  return matcher.test(text)
}

describe('a pattern means what ECMA-262 says', () => {
  const cases: [pattern: string, text: string, expected: boolean][] = [
    ['^.+$', 'a\rb', false],
    ['^.+$', 'a\u2028b', false],
    ['^a$', 'a\n', false],
    ['^[^a]$', '\n', true],
    [String.raw`^\S+$`, 'a\u00a0b', false],
    [String.raw`^[\s]$`, '\ufeff', true],
    [String.raw`^[^\S]$`, '\u3000', true],
    [String.raw`^\s$`, '\v', true],
    [String.raw`^\d$`, '\u0663', false],
    [String.raw`^\w$`, '\u00e9', false],
    ['^[[:alpha:]]$', 'b', false],
    ['^[[:alpha:]]$', 'p]', true],
    ['[]', 'a', false],
    ['^[^]$', '\n', true],
    [String.raw`^[\w-.]+$`, 'a.b-c', true],
    [String.raw`^[\b]$`, '\b', true],
    [String.raw`^\cJ$`, '\n', true],
    [String.raw`^\0$`, '\0', true],
    [String.raw`^\x41\u0042\u{43}$`, 'ABC', true],
    [String.raw`^\ud83d\ude00$`, '😀', true],
    ['^.$', '😀', true],
    ['^[😀-😂]$', '😁', true],
    [String.raw`^\p{Letter}+$`, 'é\u0436', true],
    [String.raw`^\p{Letter}+$`, 'a1', false],
    [String.raw`^\p{gc=Decimal_Number}$`, '\u0663', true],
    [String.raw`^\p{digit}+$`, '৪২', true],
    [String.raw`^\p{Script=Greek}+$`, '\u03a9', true],
    [String.raw`^\P{Lu}$`, 'A', false],
    [String.raw`^[^\p{L}]$`, '1', true],
    [String.raw`^\p{ASCII}+$`, 'a~', true],
    ['^(?<year>[0-9]{4})-(?:x|y)$', '2026-y', true],
    ['^x{,3}$', 'x{,3}', true],
    ['^a{2}$', 'aa', true],
    ['', 'anything', true],
    ['}', '}', true],
  ]
  test.each(cases)('%s on %j is %s', (pattern, text, expected) => {
    expect(matches(pattern, text)).toBe(expected)
  })

  test('whatever it is made of, both engines agree on every text', () => {
    fc.assert(
      fc.property(patterns, fc.array(texts, { minLength: 6, maxLength: 6 }), (pattern, samples) => {
        fc.pre(compiles(pattern))
        const matcher = linearPattern(pattern)
        expect(matcher).not.toBeNull()
        for (const text of samples)
          expect([text, matcher?.test(text)]).toEqual([text, new RegExp(pattern, 'u').test(text)])
      }),
      { numRuns: 3000 },
    )
  })
})

describe('what other languages write', () => {
  test.each([
    [String.raw`\A[a-z]+\Z`, 'abc', true],
    [String.raw`\A[a-z]+\z`, 'abc\n', false],
    ['(?i)^abc$', 'ABC', true],
    ['^(?P<id>[0-9]+)$', '42', true],
    [String.raw`^https\:\/\/`, 'https://x', true],
    [String.raw`^\_\-$`, '_-', true],
  ])('%s on %j is %s', (pattern, text, expected) => {
    expect(matches(pattern, text)).toBe(expected)
  })
})

describe('what no linear engine runs', () => {
  test.each([
    ['^(?=a)b'],
    ['^(?!a)b'],
    ['(?<=a)b'],
    ['(?<!a)b'],
    [String.raw`(a)\1`],
    [String.raw`(?<a>x)\k<a>`],
    [String.raw`\p{ID_Start}`],
    [String.raw`\p{Script_Extensions=Greek}`],
    ['(?s:.)'],
    ['a{1001}'],
    ['(?:a{1,100}){100}'],
    ['[a-z]{1,1000}'.repeat(20)],
    ['x'.repeat(5000)],
  ])('%s is left to be reported, and is no broken pattern', (pattern) => {
    expect(linearPattern(pattern)).toBeNull()
    expect(isEcmaPattern(pattern)).toBe(true)
  })

  test.each(['[', '(', ')', '[b-a]', 'a**', String.raw`\u{110000}`, '(?<1>a)', '(?<a', '(?'])(
    '%s is broken',
    (pattern) => {
      expect(linearPattern(pattern)).toBeNull()
    },
  )

  test('the size of a program is known before it is compiled', () => {
    expect(patternSize('^[a-z]{1,1000}$')).toBeGreaterThan(1000)
    expect(patternSize('[a-z]{1,1000}'.repeat(20))).toBe(0)
    fc.assert(
      fc.property(patterns, (pattern) => {
        const [estimate, matcher] = [toRe2(pattern)?.size ?? 0, linearPattern(pattern)]
        expect((matcher?.size ?? 0) <= 2 * estimate + 8).toBe(true)
      }),
    )
  })

  test('any text is a pattern or is none, without a crash', () => {
    const pieces = fc.constantFrom(
      ...String.raw`\ ( ) [ ] { } ? * + ^ $ . | < > = ! : - , a b 0 1 u p P k x c i s`.split(' '),
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
        const pattern = parts.join('')
        const matcher = linearPattern(pattern)
        const comparable = matcher !== null && compiles(pattern)
        const expected = comparable ? new RegExp(pattern, 'u').test('ab0') : undefined
        expect(comparable ? matcher.test('ab0') : undefined).toBe(expected)
      }),
      { numRuns: 3000 },
    )
  })
})

test('two patterns keep apart by their text, which is the key of whoever stores them', () => {
  expect(String(linearPattern('^a$'))).toBe('/^a$/u')
  expect(String(linearPattern('^b$'))).not.toBe(String(linearPattern('^a$')))
})

function compiles(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}

const atoms = fc.constantFrom(
  ' ',
  ...'a b Z 0 _ - . é 😀 ^ $ / = & ~ #'.split(' '),
  ...String.raw`\d \D \w \W \s \S \b \B \n \r \t \v \f \0 \x41 \u0041 \u{1F600} \ud83d\ude00 \cJ \. \/ \^ \$`.split(
    ' ',
  ),
  ...String.raw`[abc] [^abc] [a-z] [\w.-] [\s] [^\S] [\D] [^\W] [] [^] [[:alpha:]] [a\]b] [-a] [a-] [\b]`.split(' '),
  ...String.raw`\p{L} \p{Lu} \P{L} \p{Letter} \p{gc=Nd} \p{Script=Greek} [\p{L}\p{N}] [^\p{L}] \p{ASCII} \p{digit}`.split(
    ' ',
  ),
  ...String.raw`[a&&b] [a--b] [^.] [.] [|]`.split(' '),
)
const quantifiers = fc.constantFrom('', '', '', '*', '+', '?', '*?', '+?', '{2}', '{1,3}', '{0,}', '{2,}?')
const { pattern: patterns } = fc.letrec<{ pattern: string }>((tie) => ({
  pattern: fc.oneof(
    { maxDepth: 3 },
    fc.tuple(atoms, quantifiers).map((parts) => parts.join('')),
    fc.array(tie('pattern'), { minLength: 1, maxLength: 4 }).map((parts) => parts.join('')),
    fc.tuple(tie('pattern'), tie('pattern')).map((parts) => parts.join('|')),
    fc
      .tuple(fc.constantFrom('(', '(?:', '(?<n>'), tie('pattern'), quantifiers)
      .map(([opened, inside, repeated]) => `${opened}${inside})${repeated}`),
  ),
}))
const letters = [
  'a',
  'b',
  'c',
  'z',
  'A',
  'Z',
  '0',
  '7',
  '_',
  '-',
  ' ',
  '.',
  '/',
  '^',
  '$',
  '[',
  ']',
  ':',
  '|',
  '&',
  '1',
]
const oddities = [
  '\n',
  '\r',
  '\t',
  '\v',
  '\f',
  '\0',
  '\b',
  '\u2028',
  '\u00a0',
  '\ufeff',
  'é',
  '\u0436',
  '\u03a9',
  '\u0663',
  '😀',
]
const texts = fc.array(fc.constantFrom(...letters, ...oddities), { maxLength: 5 }).map((parts) => parts.join(''))
