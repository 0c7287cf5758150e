import { describe, expect, test } from 'vitest'
import { credentialOf } from '../../../test/handler-call.ts'
import { checkSecrets, checkSettings } from '../../connections/inputs.ts'
import { checkProviders } from '../../connections/provider.ts'
import { smtpAccount } from './account.ts'
import { emailProvider } from './email-provider.ts'
import { nylasMailbox } from './nylas-mailbox.ts'

const SMTP = { host: 'mail.acme.test', port: '587', from: 'team@acme.test', fromName: 'The Team' }
const NYLAS = { kind: 'nylas', grantId: '7d5b1a2c-0000-4000-8000-000000000002', from: 'team@acme.test' }

test('is a provider that a deployment can offer', () => {
  expect([...checkProviders([emailProvider()]).keys()]).toEqual(['email'])
})

describe('what a person types in', () => {
  test('is what the transports read, unchanged', async () => {
    expect(await checkSettings(emailProvider(), SMTP)).toEqual({ kind: 'valid', value: SMTP })
    expect(smtpAccount(credentialOf(SMTP))).toMatchObject({ host: 'mail.acme.test', port: 587 })
    expect(await checkSettings(emailProvider({ nylas: true }), NYLAS)).toEqual({ kind: 'valid', value: NYLAS })
    expect(nylasMailbox(credentialOf(NYLAS))).toMatchObject({ grantId: NYLAS.grantId })
  })

  test.each<[string, Record<string, string>, string]>([
    ['a server without a host', { from: 'team@acme.test' }, 'settings.host'],
    ['a port that is none', { ...SMTP, port: '99999' }, 'settings.port'],
    ['a setting nobody reads', { ...SMTP, secure: 'yes' }, 'settings'],
    ['a mailbox of a transport that is not offered', NYLAS, 'settings.kind'],
    ['another kind', { ...SMTP, kind: 'pigeon' }, 'settings.kind'],
  ])('is refused where it names %s', async (_what, settings, path) => {
    const checked = await checkSettings(emailProvider(), settings)
    expect(checked).toMatchObject({ kind: 'invalid' })
    expect(checked.kind === 'invalid' && checked.problems.map((problem) => problem.path)).toContain(path)
  })

  test('may have no password, and nothing that is no secret of it', () => {
    const { auth } = emailProvider()
    const fields = auth.kind === 'secret' ? auth.fields : []
    expect(checkSecrets(fields, {})).toEqual({ kind: 'valid', value: {} })
    expect(checkSecrets(fields, { apiKey: 'x' })).toMatchObject({ kind: 'invalid' })
  })
})
