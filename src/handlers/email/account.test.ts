import { describe, expect, test } from 'vitest'
import type { Credential } from '../../tools/invocation.ts'
import { smtpAccount } from './account.ts'

const SETTINGS = { host: 'mail.acme.test', from: 'team@acme.test' }

function account(settings: Record<string, string>, secrets: Record<string, string> = {}) {
  const credential: Credential = { connectionId: 'c-1', provider: 'email', settings, secrets }
  return smtpAccount(credential)
}

test('a connection needs a host and a sender; TLS is on unless it says otherwise', () => {
  expect(account(SETTINGS)).toEqual({
    host: 'mail.acme.test',
    port: 587,
    security: 'starttls',
    ca: null,
    from: { address: 'team@acme.test', name: '' },
    auth: null,
  })
})

test.each([
  ['starttls', 587],
  ['implicit', 465],
  ['none', 25],
] as const)('security %s uses port %i by default', (security, port) => {
  expect(account({ ...SETTINGS, security })).toMatchObject({ security, port })
})

test('the user may be public or secret, the password is always secret', () => {
  expect(account({ ...SETTINGS, user: 'team' }, { pass: 'pw' })).toMatchObject({ auth: { user: 'team', pass: 'pw' } })
  expect(account(SETTINGS, { user: 'team', pass: 'pw' })).toMatchObject({ auth: { user: 'team', pass: 'pw' } })
})

describe('a setting that cannot be used is named and its value is not', () => {
  test.each<[string, Record<string, string>, Record<string, string>, RegExp]>([
    ['no host', { from: 'team@acme.test' }, {}, /host/],
    ['no sender', { host: 'mail.acme.test' }, {}, /from/],
    ['a sender that carries a header', { ...SETTINGS, from: 'team@acme.test\r\nBcc: x@evil.test' }, {}, /from/],
    ['a name that carries a header', { ...SETTINGS, fromName: 'Team\r\nBcc: x@evil.test' }, {}, /fromName/],
    ['a port that is no number', { ...SETTINGS, port: 'smtp' }, {}, /port/],
    ['a port that does not exist', { ...SETTINGS, port: '70000' }, {}, /port/],
    ['a misspelt setting', { ...SETTINGS, secuirty: 'implicit' }, {}, /secuirty/],
    ['a password in the settings', { ...SETTINGS, pass: 'hunter2' }, {}, /unknown setting pass/],
    ['a password without a user', SETTINGS, { pass: 'hunter2' }, /needs a user/],
    ['a user without a password', { ...SETTINGS, user: 'team' }, {}, /needs a secret "pass"/],
    ['a password sent in the clear', { ...SETTINGS, security: 'none', user: 'team' }, { pass: 'hunter2' }, /readable/],
  ])('%s', (...[, settings, secrets, message]) => {
    expect(() => account(settings, secrets)).toThrow(message)
    expect(() => account(settings, secrets)).not.toThrow(/hunter2|evil/)
  })

  test('a password may stay unencrypted on this machine itself', () => {
    const local = { ...SETTINGS, host: '127.0.0.1', security: 'none', user: 'team' }
    expect(account(local, { pass: 'pw' })).toMatchObject({ auth: { user: 'team' } })
  })
})
