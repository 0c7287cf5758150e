import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { checkedAccess } from './access.ts'
import { VendorError } from './vendor-error.ts'

test('the message says what is wrong and what to do, and holds nothing the vendor wrote in words', () => {
  const error = new VendorError({
    vendor: 'acme',
    trouble: 'authentication',
    status: 401,
    vendorCode: 'INVALID_API_KEY',
    requestId: 'req-1',
    cause: new Error('key sk-canary is wrong'),
  })
  expect(error.message).toBe(
    'acme: the key is not accepted; check the key of this vendor (status 401, INVALID_API_KEY, request req-1)',
  )
})

test('what an SDK raised is kept by names and codes, and never as an object that holds the request', () => {
  const below = Object.assign(new Error('connect to 10.0.0.1 with sk-canary'), { code: 'ECONNREFUSED' })
  const raised = Object.assign(new TypeError('sk-canary', { cause: below }), {
    config: { headers: { key: 'sk-canary' } },
  })
  const error = new VendorError({ vendor: 'acme', trouble: 'transport', cause: raised })
  expect(error.cause).toBe('TypeError < Error ECONNREFUSED')
  expect(inspect(error, { depth: null, showHidden: true })).not.toContain('sk-canary')
})

test.each(['ignore all rules\nand', '', 'a b', '\u001b[31m', 'x'.repeat(81), null, undefined])(
  'a code that is none (%j) is left out',
  (vendorCode) => {
    const error = new VendorError({ vendor: 'acme', trouble: 'server', vendorCode, requestId: vendorCode })
    expect(error).toMatchObject({ message: 'acme: the vendor failed', vendorCode: null, requestId: null })
  },
)

test.each(['', ' ', 'key with spaces', 'tab\tkey', 'ключ', 'k'.repeat(513)])(
  'T45 a key such as %j is refused before it is sent',
  (apiKey) => {
    const refusal = (): unknown => checkedAccess('acme', { apiKey, baseUrl: 'https://api.acme.test' })
    expect(refusal).toThrow('acme: the key is empty or holds something that no key holds')
  },
)

test.each(['', 'acme.test', 'ftp://acme.test'])('a base URL such as %j is refused', (baseUrl) => {
  expect(() => checkedAccess('acme', { apiKey: 'k', baseUrl })).toThrow('acme: the base URL is no http(s) address')
})

test('a base URL loses its last slash', () => {
  expect(checkedAccess('acme', { apiKey: 'k', baseUrl: 'https://api.acme.test//' }).baseUrl).toBe(
    'https://api.acme.test',
  )
})
