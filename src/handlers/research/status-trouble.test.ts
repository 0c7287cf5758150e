import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { troubleOfStatus } from './status-trouble.ts'

test.each([
  [200, 'decode'],
  [204, 'decode'],
  [304, 'decode'],
  [400, 'request'],
  [401, 'authentication'],
  [402, 'payment'],
  [403, 'authentication'],
  [404, 'request'],
  [408, 'timeout'],
  [409, 'request'],
  [418, 'request'],
  [422, 'request'],
  [429, 'rate_limited'],
  [451, 'refused'],
  [500, 'server'],
  [502, 'server'],
  [503, 'overloaded'],
  [504, 'server'],
  [599, 'server'],
])('%i is %s', (status, trouble) => {
  expect(troubleOfStatus(status)).toBe(trouble)
})

test('a request is repeated for 429 and 503 alone', () => {
  const repeated = new Set(['rate_limited', 'overloaded'])
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 599 }), (status) => {
      expect(repeated.has(troubleOfStatus(status))).toBe(status === 429 || status === 503)
    }),
  )
})
