import { expect, test } from 'vitest'
import { publicSource } from './public-source.ts'

test.each([
  ['https://acme.com/about', 'https://acme.com/about'],
  [' HTTPS://Acme.com:8443/A?token=secret#part ', 'https://acme.com:8443/A'],
  ['http://acme.com', 'http://acme.com/'],
])('%j is kept as %s', (text, source) => {
  expect(publicSource(text)).toBe(source)
})

test.each([
  '',
  'acme.com',
  'ftp://acme.com/x',
  'file:///etc/passwd',
  'javascript:alert(1)',
  'https://user:secret@acme.com/',
  'https://intranet/page',
  'https://10.0.0.1/page',
  'https://[::1]/',
])('%j is no public page', (text) => {
  expect(publicSource(text)).toBeNull()
})
