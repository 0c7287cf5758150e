import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { redactError } from './redact-error.ts'

const SECRET = 'sk-live-0123456789'
const all = (error: unknown): string => {
  const stack = error instanceof Error ? String(error.stack) : ''
  return inspect(error, { depth: null, showHidden: true }) + stack
}

test('an error that quotes nothing is the same error', () => {
  const error = new TypeError('broken', { cause: new Error('below') })
  expect(redactError(error, [SECRET])).toBe(error)
  expect(redactError(error, [])).toBe(error)
})

describe('T36 a credential of the call is in nothing that a handler raises', () => {
  const withStack = new Error('fine')
  withStack.stack = `Error: fine\n    at send (key=${SECRET})`
  test.each<[string, unknown]>([
    ['its message', new Error(`401 for ${SECRET}`)],
    ['its stack', withStack],
    ['its cause', new Error('outer', { cause: new Error(`Bearer ${SECRET}`) })],
    [
      'the request it holds',
      Object.assign(new Error('axios'), { config: { headers: { Authorization: `Bearer ${SECRET}` } } }),
    ],
    ['its message in base64', new Error(Buffer.from(`user:${SECRET}`).toString('base64'))],
    ['its name', Object.assign(new Error('x'), { name: SECRET })],
    ['a cause that is no error', new Error('outer', { cause: { key: SECRET } })],
    ['an object that is no error', { key: SECRET }],
    ['a text', SECRET],
  ])('where it stands in %s', (_where, raised) => {
    expect(all(raised)).toMatch(/sk-live|zay1saXZl/)
    const error = redactError(raised, [SECRET])
    expect(error).toBeInstanceOf(Error)
    expect(all(error)).not.toContain(SECRET)
    expect(all(error)).not.toMatch(/zay1saXZl/)
  })
})

test('the name, the rest of the message and the causes are kept for whoever reads the log', () => {
  const raised = new TypeError(`call with ${SECRET} failed`, { cause: new RangeError(`status 500 ${SECRET}`) })
  expect(redactError(raised, [SECRET])).toMatchObject({
    name: 'TypeError',
    message: 'call with [redacted] failed',
    cause: { name: 'RangeError', message: 'status 500 [redacted]' },
  })
})
