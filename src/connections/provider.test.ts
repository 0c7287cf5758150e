import { expect, test } from 'vitest'
import { ValidationError } from '../tools/errors.ts'
import { checkProviders, type ConnectionProvider, type OAuth2Auth } from './provider.ts'

const MAIL: ConnectionProvider = {
  name: 'mail',
  title: 'Mail',
  auth: { kind: 'secret', fields: [{ name: 'pass', title: 'Password' }] },
}
const OAUTH: OAuth2Auth = { kind: 'oauth2', issuer: 'https://id.acme.test', clientId: 'bailiff', scopes: ['openid'] }

const calendar = (auth: Partial<OAuth2Auth>): ConnectionProvider => ({
  name: 'calendar',
  title: 'Calendar',
  auth: { ...OAUTH, ...auth },
})

test('providers are found by their names', () => {
  expect([...checkProviders([MAIL, calendar({})]).keys()]).toEqual(['mail', 'calendar'])
})

test.each<[string, ConnectionProvider[], RegExp]>([
  ['two of one name', [MAIL, MAIL], /"mail": two providers/],
  ['a name that is none', [{ ...MAIL, name: 'Mail Box' }], /"Mail Box": its name/],
  ['no field', [{ ...MAIL, auth: { kind: 'secret', fields: [] } }], /no secret field/],
  [
    'a field that would become a prototype',
    [{ ...MAIL, auth: { kind: 'secret', fields: [{ name: '__proto__', title: 'x' }] } }],
    /"__proto__" is not usable/,
  ],
  ['an issuer without TLS', [calendar({ issuer: 'http://id.acme.test' })], /issuer address must be https/],
  ['an issuer that only looks local', [calendar({ issuer: 'http://localhost.acme.test' })], /issuer address/],
  [
    'a token endpoint without TLS',
    [calendar({ endpoints: { authorization: 'https://id.acme.test/a', token: 'http://id.acme.test/t' } })],
    /token address must be https/,
  ],
  ['no client', [calendar({ clientId: '' })], /no clientId/],
  ['a parameter that the flow decides', [calendar({ parameters: { redirect_uri: 'https://evil.test' } })], /not free/],
])('%s is refused', (_what, providers, says) => {
  expect(() => checkProviders(providers)).toThrow(ValidationError)
  expect(() => checkProviders(providers)).toThrow(says)
})

test('a server on this very machine needs no TLS', () => {
  for (const issuer of ['http://127.0.0.1:4000', 'http://localhost:4000', 'http://[::1]:4000'])
    expect(checkProviders([calendar({ issuer })]).size).toBe(1)
})
