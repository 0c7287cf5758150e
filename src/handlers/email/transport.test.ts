import { describe, expect, test } from 'vitest'
import { admitted, callHandler, credentialOf, testRun } from '../../../test/handler-call.ts'
import { NYLAS_KEY_LIFE_S, nylasTransport } from './nylas-transport.ts'
import { smtpTransport } from './smtp-transport.ts'
import { emailTools, type EmailOptions } from './tools.ts'
import { type EmailTransport, keyLifeOf, transportFor } from './transport.ts'

const smtp = smtpTransport()
const nylas = nylasTransport({ access: { apiKey: 'nyk_test', baseUrl: 'http://127.0.0.1:9' } })
const GRANT = '7d5b1a2c-0000-4000-8000-000000000002'
const MAIL = { to: ['jo@acme.test'], subject: 'Hello', body: 'Hi' }

function tool(options: Omit<EmailOptions, 'recipients'> = {}) {
  return emailTools({ recipients: { known: async () => new Set() }, ...options })[0]!
}

describe('the connection chooses', () => {
  test.each<[string, Record<string, string>, EmailTransport]>([
    ['SMTP where it names no kind', { host: 'mail.acme.test' }, smtp],
    ['SMTP by name', { kind: 'smtp', host: 'mail.acme.test' }, smtp],
    ['Nylas by name', { kind: 'nylas', grantId: GRANT }, nylas],
  ])('%s', (_case, settings, expected) => {
    expect(transportFor([smtp, nylas], credentialOf(settings))).toBe(expected)
  })

  test.each([{ kind: 'pigeon' }, { kind: '' }, { kind: 'Nylas' }])(
    '%j is nobody’s, and an operator’s to repair',
    async (settings) => {
      const context = { credential: credentialOf(settings), idempotencyKey: 'key-1' }
      const error: unknown = await callHandler(tool({ transports: [smtp, nylas] }), {
        run: testRun(),
        args: MAIL,
        context,
      }).catch((raised: unknown) => raised)
      expect(Object(error).constructor).toBe(Error)
      expect(error).toMatchObject({ message: expect.stringMatching(/kind that is not offered here \(smtp, nylas\)$/) })
    },
  )

  test('a mailbox of a transport that the deployment left out is nobody’s', () => {
    expect(() => transportFor([smtp], credentialOf({ kind: 'nylas', grantId: GRANT }))).toThrow('not offered')
  })
})

describe('a repeat is recognised', () => {
  test('as long as the most forgetful of the receivers remembers, and never when one takes no key', () => {
    const brief = { ...nylas, kind: 'brief', keyLifeS: 60 }
    expect(keyLifeOf([nylas])).toBe(NYLAS_KEY_LIFE_S)
    expect(keyLifeOf([nylas, brief])).toBe(60)
    expect(keyLifeOf([nylas, smtp])).toBeNull()
  })

  test('no transport, or two of one kind, is a mistake of the deployment', () => {
    expect(() => keyLifeOf([])).toThrow('needs a transport')
    expect(() => tool({ transports: [smtp, smtpTransport()] })).toThrow('two transports of one kind')
  })

  test.each([
    ['SMTP alone asks a person', [smtp], { downstreamKey: false, downstreamKeyS: null, onUnknown: 'ask' }],
    [
      'SMTP beside Nylas asks a person',
      [smtp, nylas],
      { downstreamKey: false, downstreamKeyS: null, onUnknown: 'ask' },
    ],
    ['Nylas alone repeats for an hour', [nylas], { downstreamKey: true, downstreamKeyS: 3_600, onUnknown: 'reclaim' }],
  ] as const)('%s', (_case, transports, expected) => {
    expect(tool({ transports }).spec).toMatchObject(expected)
  })
})

describe('the contract', () => {
  test('is the same whatever the transports are', () => {
    const { schemaHash, description } = tool().spec
    expect(schemaHash).toBe('4333877fd4a8b05d240f83424cc7d53fdaf59ac6f142a544f9cc2b83b7bee496')
    for (const transports of [[smtp], [nylas], [smtp, nylas]]) {
      expect(tool({ transports }).spec).toMatchObject({ schemaHash, description, connection: 'email', metered: false })
    }
  })

  test('takes a connection only where a deployment asked for it', () => {
    const chosen = { ...MAIL, connection_id: GRANT }
    expect(() => admitted(tool(), chosen)).toThrow(/connection_id/)
    const choosing = tool({ chooseAccount: true })
    expect(admitted(choosing, chosen)).toEqual(chosen)
    expect(admitted(choosing, MAIL)).toEqual(MAIL)
    expect(() => admitted(choosing, { ...MAIL, connection_id: '../other' })).toThrow(/./)
  })
})
