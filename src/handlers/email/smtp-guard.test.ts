import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { callHandler, credentialOf, testRun } from '../../../test/handler-call.ts'
import { selfSigned } from '../../../simulators/self-signed.ts'
import { startSmtpServer, type SmtpServerSettings, type SmtpSimulator } from '../../../simulators/smtp-server.ts'
import { outgoingGuard } from '../../connections/outgoing.ts'
import { smtpTransport } from './smtp-transport.ts'
import { emailTools } from './tools.ts'

const started: SmtpSimulator[] = []
let outboxDir: string
beforeEach(async () => {
  outboxDir = await mkdtemp(join(tmpdir(), 'bailiff-guard-'))
})
afterEach(async () => {
  await Promise.all(started.splice(0).map((server) => server.close()))
  await rm(outboxDir, { recursive: true })
})

async function mailServer(settings: Partial<SmtpServerSettings> = {}): Promise<SmtpSimulator> {
  const server = await startSmtpServer({ outboxDir, ...settings })
  started.push(server)
  return server
}

interface Sending {
  readonly settings: Record<string, string>
  readonly allow?: readonly string[]
}

/** Sends a mail over a connection with these settings; a name ending in `.corp.test` is the server on loopback. */
function send({ settings, allow = [] }: Sending) {
  const resolve = (host: string): Promise<string[]> => Promise.resolve(host.endsWith('.corp.test') ? ['127.0.0.1'] : [])
  const transports = [smtpTransport({ guard: outgoingGuard({ allow, resolve }) })]
  const [tool] = emailTools({ recipients: { known: async () => new Set() }, transports })
  return callHandler(tool!, {
    run: testRun(),
    args: { to: ['jo@acme.test'], subject: 'Hello', body: 'Hi' },
    context: {
      credential: credentialOf({ security: 'none', from: 'team@acme.test', ...settings }),
      idempotencyKey: 'k',
    },
  })
}

describe('a mail server of somebody’s settings', () => {
  test.each(['127.0.0.1', 'localhost', '10.0.0.5', 'mail.corp.test', 'nowhere.test'])(
    'at %s is not connected to, and an operator is told',
    async (host) => {
      const server = await mailServer()
      await expect(send({ settings: { host, port: String(server.port) } })).rejects.toMatchObject({
        name: 'Error',
        message: 'The mail server of the connection may not be connected to',
        cause: { message: expect.stringMatching(/^This address (is not a public address|cannot be found)\.$/) },
      })
      expect(server.connections()).toBe(0)
    },
  )

  test('is connected to when the deployment lets it out, by the address that was checked', async () => {
    const server = await mailServer()
    const settings = { host: 'mail.corp.test', port: String(server.port) }
    expect(await send({ settings, allow: [`mail.corp.test:${server.port}`] })).toMatchObject({ ok: true })
    expect(await server.messages()).toHaveLength(1)
  })

  test('has to show a certificate for its name, not for the address it was reached at', async () => {
    const { key, cert } = selfSigned()
    const server = await mailServer({ tls: { key, cert, implicit: true } })
    const at = { port: String(server.port), security: 'implicit', ca: cert }
    const allow = [`mail.corp.test:${server.port}`, `127.0.0.1:${server.port}`]
    await expect(send({ settings: { ...at, host: 'mail.corp.test' }, allow })).rejects.toThrow('could not be set up')
    expect(await send({ settings: { ...at, host: '127.0.0.1' }, allow })).toMatchObject({ ok: true })
  })
})
