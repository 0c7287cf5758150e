import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { block, cut, duration, oneLine, table } from './text.ts'

test('what a terminal would obey or hide is spelled out', () => {
  expect(oneLine('a\u001b[2Jb')).toBe('a\\u{1b}[2Jb')
  expect(oneLine('pay \u202e001 \u200bnow\n')).toBe('pay \\u{202e}001 \\u{200b}now\\n')
  expect(oneLine('\u{e0041}tag')).toBe('\\u{e0041}tag')
  expect(oneLine('\u0085\u2028\u00ad\u3164')).toBe('\\u{85}\\u{2028}\\u{ad}\\u{3164}')
})

test('what people write stays as it is', () => {
  for (const text of ['Zoë Østergård', '東京', 'مرحبا', '❤️ 👍', 'a “quoted” – text']) expect(oneLine(text)).toBe(text)
  expect(block('one\n\ttwo')).toBe('one\n\ttwo')
})

test('no text at all reaches the terminal with a control or direction character in it', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(oneLine(text)).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u200b]/u)
      expect(block(text)).not.toMatch(/(?![\n\t])[\p{Cc}\p{Bidi_Control}\u200b]/u)
    }),
  )
})

test('times, columns and cuts', () => {
  expect([5, 1_500, 90_000, 7_200_000, 3 * 86_400_000].map(duration)).toStrictEqual([
    '5 ms',
    '1.5 s',
    '2 min',
    '2 h',
    '3 d',
  ])
  expect(
    table([
      ['a', 'bb'],
      ['ccc', 'd'],
    ]),
  ).toBe('a    bb\nccc  d')
  expect(cut('👍👍👍', 2)).toBe('👍…')
})
