import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { previewLine } from './preview.ts'

test.each([
  [{ to: ['jo@acme.test'], newRecipients: 0 }, 'Email "Hello" to jo@acme.test'],
  [{ to: ['jo@acme.test'], newRecipients: 1 }, 'Email "Hello" to jo@acme.test (a new recipient)'],
  [
    { to: ['jo@acme.test', 'sam@acme.test'], newRecipients: 1 },
    'Email "Hello" to jo@acme.test and 1 more (1 new recipient)',
  ],
  [
    { to: ['jo@acme.test', 'sam@acme.test', 'ed@acme.test'], newRecipients: 2 },
    'Email "Hello" to jo@acme.test and 2 more (2 new recipients)',
  ],
])('%j reads %s', (part, line) => {
  expect(previewLine({ subject: 'Hello', ...part })).toBe(line)
})

test('a long subject is cut, the recipients never are', () => {
  const line = previewLine({ subject: '👩‍👩‍👧'.repeat(200), to: ['jo@acme.test', 'sam@acme.test'], newRecipients: 2 })
  expect(line).toMatch(/^Email "(👩‍👩‍👧)+…" to jo@acme\.test and 1 more \(2 new recipients\)$/u)
  expect(Buffer.byteLength(line)).toBeGreaterThan(480)
})

test('T23 the line is one line of at most 512 bytes for every message', () => {
  const address = fc.integer({ min: 1, max: 248 }).map((length) => `${'a'.repeat(length)}@b.cd`)
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', maxLength: 200 }),
      fc.array(address, { minLength: 1, maxLength: 20 }),
      (subject, to) => {
        const line = previewLine({ subject, to, newRecipients: to.length })
        expect(Buffer.byteLength(line)).toBeLessThanOrEqual(512)
        expect(line).not.toMatch(/[\r\n\u2028\u2029]/)
        expect(line.trim()).not.toBe('')
      },
    ),
  )
})
