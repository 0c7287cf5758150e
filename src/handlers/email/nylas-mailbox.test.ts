import { describe, expect, test } from 'vitest'
import type { Credential } from '../../tools/invocation.ts'
import { nylasMailbox } from './nylas-mailbox.ts'

const SETTINGS = { kind: 'nylas', grantId: '7d5b1a2c-0000-4000-8000-000000000002' }

function mailbox(settings: Record<string, string>) {
  const credential: Credential = { connectionId: 'c-1', provider: 'email', settings, secrets: {} }
  return nylasMailbox(credential)
}

test('a connection needs a grant; who sends is the mailbox itself unless it says otherwise', () => {
  expect(mailbox(SETTINGS)).toEqual({ grantId: SETTINGS.grantId, from: null })
  expect(mailbox({ ...SETTINGS, from: 'team@acme.test' })).toMatchObject({ from: { email: 'team@acme.test' } })
  expect(mailbox({ ...SETTINGS, from: 'team@acme.test', fromName: 'The Team' })).toMatchObject({
    from: { email: 'team@acme.test', name: 'The Team' },
  })
})

describe('a setting that cannot be used is named and its value is not', () => {
  test.each<[string, Record<string, string>, RegExp]>([
    ['no grant', { kind: 'nylas' }, /grantId/],
    ['a grant by address', { ...SETTINGS, grantId: 'evil@evil.test' }, /grantId/],
    ['a grant by whoever asks', { ...SETTINGS, grantId: 'me' }, /grantId/],
    ['a grant that is a path', { ...SETTINGS, grantId: '../evil' }, /grantId/],
    ['an address of the API', { ...SETTINGS, apiUri: 'https://evil.test' }, /unknown setting apiUri/],
    ['a region', { ...SETTINGS, region: 'eu' }, /unknown setting region/],
    ['a key', { ...SETTINGS, apiKey: 'evil' }, /unknown setting apiKey/],
    ['a name without an address', { ...SETTINGS, fromName: 'evil' }, /fromName needs from/],
    ['a sender that carries a header', { ...SETTINGS, from: 'team@acme.test\r\nBcc: x@evil.test' }, /from/],
    ['a name that carries a header', { ...SETTINGS, from: 'a@b.cd', fromName: 'x\r\nBcc: x@evil.test' }, /fromName/],
  ])('%s', (...[, settings, message]) => {
    expect(() => mailbox(settings)).toThrow(message)
    expect(() => mailbox(settings)).not.toThrow(/evil/)
  })
})
