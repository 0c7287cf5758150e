import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { verificationOf } from './verification.ts'

test.each([
  ['valid', false, 'verified'],
  ['valid', null, 'verified'],
  ['invalid', false, 'unverifiable'],
  ['disposable', false, 'unverifiable'],
  ['webmail', false, 'unverifiable'],
  ['unknown', false, 'unverifiable'],
  ['accept_all', true, 'accepts_all'],
  ['accept_all', false, 'accepts_all'],
  [null, true, 'accepts_all'],
  [null, false, 'unverified'],
  [null, null, 'unverified'],
] as const)('status %s on a domain that accepts all: %s is %s', (status, acceptAll, expected) => {
  expect(verificationOf({ status, acceptAll })).toBe(expected)
})

test('the status of the provider counts before the domain, whatever the domain accepts', () => {
  expect(verificationOf({ status: 'invalid', acceptAll: true })).toBe('unverifiable')
  expect(verificationOf({ status: 'valid', acceptAll: true })).toBe('verified')
})

test('a status nobody knows is never verified', () => {
  const status = fc.oneof(fc.string(), fc.constantFrom('VALID', ' valid', 'valid ', 'constructor', '__proto__', ''))
  fc.assert(
    fc.property(
      status.filter((text) => !['valid', 'accept_all', 'invalid', 'disposable', 'webmail', 'unknown'].includes(text)),
      fc.option(fc.boolean()),
      (status, acceptAll) => {
        expect(verificationOf({ status, acceptAll })).toBe(acceptAll === true ? 'accepts_all' : 'unverified')
      },
    ),
  )
})
