import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { linearPattern } from '../tools/schema-regexp.ts'
import { ADDRESS_PATTERN, distinctAddresses } from './address.ts'

test.each([
  'jo@acme.test',
  'jo.weber+news@mail.acme.test',
  "o'neil_99@a-b.example",
  'x@xn--bcher-kva.example',
  'a=b/c@acme.test',
])('%s is an address', (address) => {
  expect(address).toMatch(ADDRESS_PATTERN)
})

test.each([
  '',
  'jo',
  'jo@acme',
  '@acme.test',
  'jo@@acme.test',
  'jo.@acme.test',
  '.jo@acme.test',
  'j..o@acme.test',
  'jo@-acme.test',
  'jo@acme-.test',
  'jo@acme..test',
  'jo@acme.test.',
  'jo@acme.test ',
  ' jo@acme.test',
  'jo @acme.test',
  'jo@acme.test\r\nRCPT TO:<x@evil.test>',
  'jo@acme.test\n',
  'jo@acme.test, x@evil.test',
  'jo@acme.test;x@evil.test',
  'Jo <jo@acme.test>',
  '"jo"@acme.test',
  'jo(comment)@acme.test',
  'jo@[127.0.0.1]',
  '@relay.test:jo@acme.test',
  'evil.test!jo@acme.test',
  'jo%evil.test@acme.test',
  'jö@acme.test',
  'jo@acme.test\u0000',
  'jo@127.0.0.1',
])('%j is not an address', (text) => {
  expect(text).not.toMatch(ADDRESS_PATTERN)
})

test('the linear engine that checks arguments reads the pattern alike', () => {
  const matcher = linearPattern(ADDRESS_PATTERN.source)
  const text = fc.stringMatching(/^[a-zA-Z0-9.@_<>"' \r\n-]{0,24}$/)
  const near = fc.tuple(text, fc.constantFrom('jo@acme.test', 'j@a.bc', '')).map(([noise, address]) => address + noise)
  fc.assert(
    fc.property(fc.oneof(text, near), (candidate) => {
      expect(matcher?.test(candidate)).toBe(ADDRESS_PATTERN.test(candidate))
    }),
  )
})

test('a mailbox is kept once, in the order and the spelling it was first given', () => {
  expect(distinctAddresses(['Jo@acme.test', 'sam@acme.test', 'jo@ACME.test', 'Jo@acme.test'])).toEqual([
    'Jo@acme.test',
    'sam@acme.test',
  ])
})
