import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { selfSigned } from '../../../simulators/self-signed.ts'
import { type SmtpServerSettings, type SmtpSimulator, startSmtpServer } from '../../../simulators/smtp-server.ts'
import {
  OutcomeUnknownError,
  RetryableUpstreamError,
  UpstreamUnavailableError,
  ValidationError,
} from '../../tools/errors.ts'
import type { SmtpAccount } from './account.ts'
import { type Delivery, failureOf, type SendLimits } from './delivery.ts'
import { deliver } from './smtp.ts'
import type { Letter } from './transport.ts'

const open: { close(): unknown }[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()))
})

const LETTER: Letter = {
  messageId: '<abc@bailiff>',
  operationId: 'abc',
  to: ['jo@acme.test', 'sam@acme.test'],
  subject: 'Grüße from the team',
  body: 'Hello\n.\nWorld\n',
  headers: { 'X-Bailiff-Run': 'run-1' },
}

/** Generous, so that only tests about waiting ever wait. */
const LIMITS: SendLimits = { connectMs: 20_000, replyMs: 20_000, closeMs: 100, totalMs: 20_000 }

async function mailServer(settings: Omit<SmtpServerSettings, 'outboxDir'> = {}): Promise<SmtpSimulator> {
  const outboxDir = await mkdtemp(join(tmpdir(), 'bailiff-outbox-'))
  const server = await startSmtpServer({ outboxDir, ...settings })
  open.push({ close: () => server.close().then(() => rm(outboxDir, { recursive: true })) })
  return server
}

/** What a server says to one line; `null` hangs up, `undefined` says nothing at all. */
type Say = (line: string, socket: Socket) => string | null | undefined

/** A server of its own making, for what a well-behaved library would never do. `.` is the end of a message. */
async function oddServer(say: Say): Promise<{ port: number }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let buffered = ''
    let inMessage = false
    const answer = (line: string) => {
      const reply = say(line, socket)
      if (reply === null) socket.destroy()
      else if (reply !== undefined) socket.write(`${reply}\r\n`)
      inMessage = line === 'DATA' && reply?.startsWith('354') === true
    }
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      buffered += chunk.toString('latin1')
      for (let end = buffered.indexOf('\r\n'); end !== -1; end = buffered.indexOf('\r\n')) {
        const line = buffered.slice(0, end)
        buffered = buffered.slice(end + 2)
        if (!inMessage || line === '.') answer(line)
      }
    })
    answer('CONNECT')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  open.push({
    close: () => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(resolve))
    },
  })
  return { port: (server.address() as AddressInfo).port }
}

const POLITE: Readonly<Record<string, string>> = {
  CONNECT: '220 odd.test',
  EHLO: '250 odd.test',
  MAIL: '250 ok',
  RCPT: '250 ok',
  DATA: '354 go ahead',
  '.': '250 taken',
}

/** Polite except where told otherwise, by the first word of the line. */
function polite(except: Record<string, string | null | undefined>): Say {
  return (line) => {
    const verb = line.split(' ')[0] ?? ''
    return Object.hasOwn(except, verb) ? except[verb] : (POLITE[verb] ?? '502 no')
  }
}

function accountAt(port: number, part: Partial<SmtpAccount> = {}): SmtpAccount {
  return {
    host: '127.0.0.1',
    port,
    security: 'none',
    ca: null,
    from: { address: 'team@bailiff.test', name: 'The Team' },
    auth: null,
    ...part,
  }
}

function send(
  account: SmtpAccount,
  part: { limits?: Partial<SendLimits>; letter?: Partial<Letter>; signal?: AbortSignal; address?: string } = {},
) {
  return deliver(
    { ...LETTER, ...part.letter },
    {
      account,
      address: part.address ?? account.host,
      limits: { ...LIMITS, ...part.limits },
      signal: part.signal ?? new AbortController().signal,
    },
  )
}

async function failureFrom(delivery: Promise<Delivery>): Promise<Error> {
  const ended = await delivery
  if (ended.kind === 'failed') return failureOf(ended)
  throw new Error(`the message was accepted for ${ended.accepted.join()}`)
}

describe('a message that is taken', () => {
  test('arrives once, with the headers, the text and the recipients it was given', async () => {
    const server = await mailServer()
    expect(await send(accountAt(server.port))).toEqual({ kind: 'accepted', accepted: LETTER.to, refused: [] })
    const [message, ...others] = await server.messages()
    expect(others).toEqual([])
    expect(message).toMatchObject({
      from: 'team@bailiff.test',
      to: LETTER.to,
      deliveredTo: LETTER.to,
      subject: LETTER.subject,
      text: LETTER.body,
      messageId: LETTER.messageId,
    })
    expect(message?.headers.get('x-bailiff-run')).toBe('run-1')
  })

  test('some recipients refused: the others get it, and each refusal is reported with its reply', async () => {
    const server = await mailServer({ faults: { refuseRecipients: { 'sam@acme.test': 550, 'ed@acme.test': 451 } } })
    const delivery = await send(accountAt(server.port), { letter: { to: [...LETTER.to, 'ed@acme.test'] } })
    expect(delivery).toEqual({
      kind: 'accepted',
      accepted: ['jo@acme.test'],
      refused: [
        { address: 'sam@acme.test', status: 550 },
        { address: 'ed@acme.test', status: 451 },
      ],
    })
    expect((await server.messages()).map(({ deliveredTo }) => deliveredTo)).toEqual([['jo@acme.test']])
  })

  test('the connection signs in when it has credentials', async () => {
    const auth = { user: 'agent', pass: 'right' }
    const server = await mailServer({ requireAuth: auth })
    expect(await send(accountAt(server.port, { auth }))).toMatchObject({ kind: 'accepted' })
  })

  test('text that looks like commands or headers stays text', async () => {
    const server = await mailServer()
    const body =
      'Hi\r\n.\r\nMAIL FROM:<x@evil.test>\r\nRCPT TO:<y@evil.test>\r\nDATA\r\nBcc: z@evil.test\r\n\r\n.\nQUIT\r.\r\n'
    await send(accountAt(server.port), { letter: { subject: 'A Bcc: z@evil.test', body } })
    const messages = await server.messages()
    expect(messages).toHaveLength(1)
    expect(messages[0]).toMatchObject({ deliveredTo: LETTER.to, subject: 'A Bcc: z@evil.test' })
    expect(messages[0]?.headers.has('bcc')).toBe(false)
  })
})

describe('nothing happened, and another attempt may pass', () => {
  test('nobody listens on the port', async () => {
    const server = await mailServer()
    await server.close()
    expect(await failureFrom(send(accountAt(server.port)))).toBeInstanceOf(RetryableUpstreamError)
  })

  test('the host name does not resolve', async () => {
    const account = accountAt(25, { host: 'mail.invalid' })
    expect(await failureFrom(send(account))).toBeInstanceOf(RetryableUpstreamError)
  })

  test.each<[string, Record<string, string | null>]>([
    ['a greeting that sends everybody away', { CONNECT: '554 not today' }],
    ['a connection cut instead of a greeting', { CONNECT: null }],
    ['a greeting that is no SMTP', { CONNECT: 'HTTP/1.1 400 Bad Request' }],
    ['a server that is closing', { EHLO: '421 closing' }],
    ['a sender put off', { MAIL: '451 later' }],
    ['every recipient put off', { RCPT: '450 later' }],
    ['DATA put off', { DATA: '451 later' }],
    ['the message put off after it was read', { '.': '452 no space' }],
    ['the server closing with a reply to the message', { '.': '421 closing' }],
    ['a connection cut after the sender', { MAIL: null }],
    ['a connection cut before the message began', { DATA: null }],
  ])('%s', async (_case, except) => {
    const { port } = await oddServer(polite(except))
    expect(await failureFrom(send(accountAt(port)))).toBeInstanceOf(RetryableUpstreamError)
  })

  test('a server that never greets', async () => {
    const { port } = await oddServer(polite({ CONNECT: undefined }))
    expect(await failureFrom(send(accountAt(port), { limits: { connectMs: 50 } }))).toBeInstanceOf(
      RetryableUpstreamError,
    )
  })

  test('a server that falls silent before the message began', async () => {
    const { port } = await oddServer(polite({ RCPT: undefined }))
    expect(await failureFrom(send(accountAt(port), { limits: { replyMs: 50 } }))).toBeInstanceOf(RetryableUpstreamError)
  })

  test('a call that was given up before it began connects to nobody', async () => {
    const server = await mailServer()
    const failure = await failureFrom(send(accountAt(server.port), { signal: AbortSignal.abort() }))
    expect(failure).toBeInstanceOf(RetryableUpstreamError)
    expect(server.connections()).toBe(0)
  })

  test('one of several refused recipients may be taken later', async () => {
    const server = await mailServer({ faults: { refuseRecipients: { 'jo@acme.test': 550, 'sam@acme.test': 450 } } })
    expect(await failureFrom(send(accountAt(server.port)))).toBeInstanceOf(RetryableUpstreamError)
  })
})

describe('a refusal that another attempt would meet again', () => {
  test('every recipient refused is bad input, and the message names them', async () => {
    const server = await mailServer({ faults: { refuseRecipients: { 'jo@acme.test': 550, 'sam@acme.test': 553 } } })
    const failure = await failureFrom(send(accountAt(server.port)))
    expect(failure).toBeInstanceOf(ValidationError)
    expect(failure.message).toContain('jo@acme.test (550), sam@acme.test (553)')
    expect(await server.messages()).toEqual([])
  })

  test('a message that is too large is bad input, whether the limit was announced or not', async () => {
    const small = await oddServer(polite({ EHLO: '250-odd.test\r\n250 SIZE 10' }))
    expect(await failureFrom(send(accountAt(small.port)))).toBeInstanceOf(ValidationError)
    const silent = await oddServer(polite({ MAIL: '552 too large' }))
    expect(await failureFrom(send(accountAt(silent.port)))).toBeInstanceOf(ValidationError)
  })

  test('a refused sender or a refused message is unavailable', async () => {
    const sender = await mailServer({ faults: { refuseSender: 550 } })
    expect(await failureFrom(send(accountAt(sender.port)))).toBeInstanceOf(UpstreamUnavailableError)
    const content = await mailServer({ faults: { refuseContent: 554 } })
    expect(await failureFrom(send(accountAt(content.port)))).toBeInstanceOf(UpstreamUnavailableError)
    expect(await content.messages()).toEqual([])
  })
})

describe('nobody knows whether the message was taken', () => {
  test.each(['before_filing', 'after_filing'] as const)('the connection is lost %s', async (dropAfterData) => {
    const server = await mailServer({ faults: { dropAfterData } })
    expect(await failureFrom(send(accountAt(server.port)))).toBeInstanceOf(OutcomeUnknownError)
    expect(await server.messages()).toHaveLength(dropAfterData === 'after_filing' ? 1 : 0)
  })

  test.each<[string, Record<string, string | null | undefined>]>([
    ['a reply that is no answer to a message', { '.': '354 go on' }],
    ['a reply that is no SMTP', { '.': 'thank you' }],
    ['a connection cut inside the reply', { '.': null }],
  ])('%s', async (_case, except) => {
    const { port } = await oddServer(polite(except))
    expect(await failureFrom(send(accountAt(port)))).toBeInstanceOf(OutcomeUnknownError)
  })

  test('a refusal that was cut off before its end is not taken for one', async () => {
    const { port } = await oddServer((line, socket) => {
      if (line !== '.') return polite({})(line, socket)
      socket.end('554 refu')
      return undefined
    })
    expect(await failureFrom(send(accountAt(port)))).toBeInstanceOf(OutcomeUnknownError)
  })

  test('a server that falls silent after the message', async () => {
    const { port } = await oddServer(polite({ '.': undefined }))
    expect(await failureFrom(send(accountAt(port), { limits: { replyMs: 50 } }))).toBeInstanceOf(OutcomeUnknownError)
    expect(await failureFrom(send(accountAt(port), { limits: { totalMs: 50 } }))).toBeInstanceOf(OutcomeUnknownError)
  })

  test('the caller gives up while the answer is awaited', async () => {
    const giveUp = new AbortController()
    const { port } = await oddServer((line, socket) => {
      if (line !== '.') return polite({})(line, socket)
      giveUp.abort()
      return undefined
    })
    expect(await failureFrom(send(accountAt(port), { signal: giveUp.signal }))).toBeInstanceOf(OutcomeUnknownError)
  })
})

describe('faults for an operator raise as plain errors', () => {
  test('credentials that are refused', async () => {
    const server = await mailServer({ requireAuth: { user: 'agent', pass: 'right' } })
    const failure = await failureFrom(send(accountAt(server.port, { auth: { user: 'agent', pass: 'wrong-pass' } })))
    expect(failure.constructor).toBe(Error)
    expect(failure.message).toContain('credentials')
    expect(`${failure.message} ${String(failure.cause)}`).not.toContain('wrong-pass')
  })

  test('a sign-in that the server asks for and the connection has not', async () => {
    const server = await mailServer({ requireAuth: { user: 'agent', pass: 'right' } })
    expect((await failureFrom(send(accountAt(server.port)))).constructor).toBe(Error)
  })

  test('a sign-in that cannot be checked right now is no fault', async () => {
    const { port } = await oddServer(polite({ EHLO: '250-odd.test\r\n250 AUTH PLAIN', AUTH: '454 later' }))
    const failure = await failureFrom(send(accountAt(port, { auth: { user: 'agent', pass: 'x' } })))
    expect(failure).toBeInstanceOf(RetryableUpstreamError)
  })

  test('a server without TLS when TLS is wanted: the message is not sent in the clear', async () => {
    const server = await mailServer()
    expect((await failureFrom(send(accountAt(server.port, { security: 'starttls' })))).constructor).toBe(Error)
    expect(await server.messages()).toEqual([])
  })

  test.each([false, true])('a certificate nobody vouches for (implicit TLS: %s)', async (implicit) => {
    const server = await mailServer({ tls: { ...selfSigned(), implicit } })
    expect(
      (await failureFrom(send(accountAt(server.port, { security: implicit ? 'implicit' : 'starttls' })))).constructor,
    ).toBe(Error)
    expect(await server.messages()).toEqual([])
  })

  test.each([false, true])(
    'a certificate the connection vouches for is accepted (implicit TLS: %s)',
    async (implicit) => {
      const { key, cert } = selfSigned()
      const server = await mailServer({ tls: { key, cert, implicit } })
      const account = accountAt(server.port, { security: implicit ? 'implicit' : 'starttls', ca: cert })
      expect(await send(account)).toMatchObject({ kind: 'accepted' })
    },
  )
})
