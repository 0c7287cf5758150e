import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { companyDomain } from './company-domain.ts'

test.each([
  ['acme.com', 'acme.com'],
  ['  ACME.com ', 'acme.com'],
  ['www.acme.com', 'acme.com'],
  ['WWW.Acme.COM.', 'acme.com'],
  ['https://www.acme.com/about?x=1#team', 'acme.com'],
  ['http://acme.com:8080/', 'acme.com'],
  ['//acme.com/x', 'acme.com'],
  ['acme.com/careers', 'acme.com'],
  ['shop.acme.co.uk', 'shop.acme.co.uk'],
  ['bücher.example', 'xn--bcher-kva.example'],
  ['https://XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
  // The name that can be registered is `www.com` itself.
  ['www.com', 'www.com'],
  ['www.www.com', 'www.com'],
])('%j stands for %s', (text, domain) => {
  expect(companyDomain(text)).toBe(domain)
})

test.each([
  '',
  ' ',
  'acme',
  'localhost',
  'acme corporation',
  'jo@acme.com',
  'https://jo:secret@acme.com',
  'mailto:jo@acme.com',
  'ftp://acme.com',
  'javascript:alert(1)',
  '127.0.0.1',
  'https://2130706433/',
  '[::1]',
  'acme..com',
  '-acme.com',
  'under_score.com',
  'acme.123',
  `${'a'.repeat(64)}.com`,
  `${'a.'.repeat(130)}com`,
  'https://',
])('%j names no company', (text) => {
  expect(companyDomain(text)).toBeNull()
})

test('every spelling of a domain is one domain, and that is its own spelling', () => {
  const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$/).filter((text) => text !== 'www')
  const domain = fc
    .tuple(fc.array(label, { minLength: 1, maxLength: 3 }), fc.constantFrom('com', 'test', 'co.uk', 'example'))
    .map(([labels, end]) => `${labels.join('.')}.${end}`)
    // Labels in front of `--` are how letters beyond ASCII are written, and not every one of them is a word.
    .filter((name) => !/(^|\.)..--/.test(name))
  const mixed = (text: string, upper: readonly boolean[]): string =>
    Array.from(text, (letter, at) => (upper[at % upper.length] === true ? letter.toUpperCase() : letter)).join('')
  fc.assert(
    fc.property(
      domain,
      fc.constantFrom('', 'http://', 'https://', '//', 'HTTPS://'),
      fc.constantFrom('', 'www.', 'WWW.', 'www.www.'),
      fc.constantFrom('', '/', ':443/x', '/a/b?c=d#e', '.'),
      fc.array(fc.boolean(), { minLength: 1, maxLength: 5 }),
      (...[name, scheme, www, rest, upper]) => {
        expect(companyDomain(scheme + www + mixed(name, upper) + rest)).toBe(name)
      },
    ),
  )
})

test('whatever is given, the answer is null or stays as it is', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.webUrl(), fc.domain()), (text) => {
      const domain = companyDomain(text)
      expect(domain === null ? null : companyDomain(domain)).toBe(domain)
    }),
  )
})
