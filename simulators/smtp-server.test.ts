import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTransport } from 'nodemailer'
import { afterEach, describe, expect, test } from 'vitest'
import { readOutbox, type SmtpServerSettings, type SmtpSimulator, startSmtpServer } from './smtp-server.ts'

const open: SmtpSimulator[] = []
const outboxes: string[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()))
  await Promise.all(outboxes.splice(0).map((folder) => rm(folder, { recursive: true })))
})

async function started(settings: Omit<SmtpServerSettings, 'outboxDir'> = {}): Promise<SmtpSimulator> {
  const server = await startSmtpServer({ outboxDir: await outbox(), ...settings })
  open.push(server)
  return server
}

async function outbox(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'bailiff-outbox-'))
  outboxes.push(folder)
  return folder
}

function sendTo(port: number, subject = 'Hello', to = 'jo@acme.test') {
  const transport = createTransport({ host: '127.0.0.1', port, ignoreTLS: true })
  return transport.sendMail({ from: 'team@bailiff.test', to, subject, text: 'Hi' })
}

describe('filing', () => {
  test('every message is one file that says who would have got it, oldest first', async () => {
    const server = await started()
    await sendTo(server.port, 'First: ünïcode / slash')
    await sendTo(server.port, '', 'sam@acme.test')
    const [first, second, ...others] = await server.messages()
    expect(others).toEqual([])
    expect(first?.file).toMatch(/^\d{8}T\d{9}Z-0001-first-u-ni-code-slash\.eml$/)
    expect(first).toMatchObject({ from: 'team@bailiff.test', deliveredTo: ['jo@acme.test'], text: 'Hi\n' })
    expect(second?.file).toMatch(/-0002-message\.eml$/)
    expect(second?.deliveredTo).toEqual(['sam@acme.test'])
  })

  test('a file is complete before the sender reads its 250, and half a file is never counted', async () => {
    const server = await started()
    await sendTo(server.port)
    expect((await readdir(server.outboxDir)).map((name) => name.split('.').at(-1))).toEqual(['eml'])
  })

  test('a subject cannot leave the outbox', async () => {
    const server = await started()
    await sendTo(server.port, '../../../etc/passwd')
    expect((await server.messages())[0]?.file).toMatch(/-etc-passwd\.eml$/)
  })
})

describe('faults', () => {
  test('a recipient, a sender or a message can be refused with any code', async () => {
    const server = await started()
    server.inject({ refuseRecipients: { 'jo@acme.test': 550 } })
    await expect(sendTo(server.port)).rejects.toMatchObject({ responseCode: 550, command: 'RCPT TO' })
    server.inject({ refuseSender: 451 })
    await expect(sendTo(server.port)).rejects.toMatchObject({ responseCode: 451, command: 'MAIL FROM' })
    server.inject({ refuseContent: 554 })
    await expect(sendTo(server.port)).rejects.toMatchObject({ responseCode: 554, command: 'DATA' })
    server.inject({})
    await expect(sendTo(server.port)).resolves.toMatchObject({ accepted: ['jo@acme.test'] })
    expect(await server.messages()).toHaveLength(1)
  })

  test.each([
    ['before_filing', 0],
    ['after_filing', 1],
  ] as const)('the connection can be cut %s', async (dropAfterData, filed) => {
    const server = await started({ faults: { dropAfterData } })
    await expect(sendTo(server.port)).rejects.toMatchObject({ code: 'ECONNECTION' })
    expect(await server.messages()).toHaveLength(filed)
  })

  test('an answer can be held back: the message is filed, and closing does not wait', async () => {
    const server = await started({ faults: { delayMs: 3_600_000 } })
    const sending = sendTo(server.port).catch((error: unknown) => error)
    while ((await server.messages()).length === 0) await new Promise((resolve) => setImmediate(resolve))
    await server.close()
    expect(await sending).toBeInstanceOf(Error)
  })

  test('mail can be refused until the sender has signed in', async () => {
    const server = await started({ requireAuth: { user: 'agent', pass: 'pw' } })
    await expect(sendTo(server.port)).rejects.toMatchObject({ responseCode: 530 })
    const signedIn = createTransport({
      host: '127.0.0.1',
      port: server.port,
      ignoreTLS: true,
      auth: { user: 'agent', pass: 'pw' },
    })
    await expect(signedIn.sendMail({ from: 'a@b.test', to: 'jo@acme.test', text: 'Hi' })).resolves.toBeDefined()
  })
})

test('connections are counted, those that said nothing too', async () => {
  const server = await started()
  const socket = connect(server.port, server.host)
  await once(socket, 'data')
  socket.destroy()
  expect(server.connections()).toBe(1)
})

test('as a process of its own it prints its port, and what it filed outlives it', async () => {
  const outboxDir = await outbox()
  const script = join(import.meta.dirname, 'smtp-server.ts')
  const child = spawn(process.execPath, [script, '--port', '0', '--outbox', outboxDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    expect(line.toString()).toMatch(/^\d+\n$/)
    await sendTo(Number(line.toString()))
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  expect(await readOutbox(outboxDir)).toMatchObject([{ subject: 'Hello' }])
})

test('a process without an outbox says what it needs', async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'smtp-server.ts')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const errors: Buffer[] = []
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk))
  const [code] = (await once(child, 'close')) as [number]
  expect(code).toBe(1)
  expect(Buffer.concat(errors).toString()).toContain('--outbox <dir> is required')
})
