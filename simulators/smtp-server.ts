import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type AddressObject, type ParsedMail, simpleParser } from 'mailparser'
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server'

/** What the server does wrong, read anew for every command. */
export interface SmtpFaults {
  /** Milliseconds between the end of a message and its reply. */
  readonly delayMs?: number
  /** Reply codes for recipients, by address in lower case. */
  readonly refuseRecipients?: Readonly<Record<string, number>>
  /** Reply code for every sender. */
  readonly refuseSender?: number
  /** Reply code for every message after its content was read; nothing is filed. */
  readonly refuseContent?: number
  /** Cuts the connection instead of answering a message, before or after it was filed. */
  readonly dropAfterData?: 'before_filing' | 'after_filing'
}

export interface SmtpServerSettings {
  readonly outboxDir: string
  /** 0 takes a free port. */
  readonly port?: number
  readonly faults?: SmtpFaults
  /** Refuses mail until the client has signed in with exactly these. */
  readonly requireAuth?: { readonly user: string; readonly pass: string }
  /** PEM texts; without them the server offers no STARTTLS. */
  readonly tls?: { readonly key: string; readonly cert: string; readonly implicit?: boolean }
}

export interface FiledMessage {
  /** File name inside the outbox. */
  readonly file: string
  readonly from: string
  /** Addresses of the To header. */
  readonly to: readonly string[]
  /** Recipients of the envelope: who would have got it, whatever its headers say. */
  readonly deliveredTo: readonly string[]
  readonly subject: string
  readonly text: string
  readonly messageId: string
  readonly headers: ReadonlyMap<string, unknown>
}

export interface SmtpSimulator {
  readonly host: string
  readonly port: number
  readonly outboxDir: string
  /** Connections accepted so far. */
  connections(): number
  inject(faults: SmtpFaults): void
  messages(): Promise<FiledMessage[]>
  close(): Promise<void>
}

const HOST = '127.0.0.1'

/** A mail server on loopback that delivers nothing: every message becomes one file before it is answered with 250. */
export async function startSmtpServer(settings: SmtpServerSettings): Promise<SmtpSimulator> {
  await mkdir(settings.outboxDir, { recursive: true })
  const closing = new AbortController()
  const desk: Desk = {
    outboxDir: settings.outboxDir,
    faults: settings.faults ?? {},
    filed: 0,
    closing: closing.signal,
    hangUp: (session) => cut(server, (connection) => connection.session === session),
  }
  const server = new SMTPServer(serverOptions(desk, settings))
  // A client that goes away in the middle of a session is what several tests are about.
  server.on('error', () => undefined)
  let accepted = 0
  server.server.on('connection', () => (accepted += 1))
  await new Promise<void>((resolve, reject) => {
    server.server.once('error', reject)
    server.listen(settings.port ?? 0, HOST, resolve)
  })
  return {
    host: HOST,
    port: (server.server.address() as AddressInfo).port,
    outboxDir: settings.outboxDir,
    connections: () => accepted,
    inject: (faults) => void (desk.faults = faults),
    messages: () => readOutbox(settings.outboxDir),
    close: () => {
      closing.abort()
      cut(server, () => true)
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

/** Every message in an outbox, oldest first. Needs no running server, so a test can count after everything was killed. */
export async function readOutbox(outboxDir: string): Promise<FiledMessage[]> {
  const files = (await readdir(outboxDir)).filter((name) => name.endsWith('.eml')).sort()
  return Promise.all(
    files.map(async (file) => {
      const mail = await simpleParser(await readFile(join(outboxDir, file)))
      return {
        file,
        from: mail.from?.value[0]?.address ?? '',
        to: addresses(mail.to),
        deliveredTo: addresses(mail.headers.get('delivered-to') as ParsedMail['to']),
        subject: mail.subject ?? '',
        text: mail.text ?? '',
        messageId: mail.messageId ?? '',
        headers: mail.headers,
      }
    }),
  )
}

interface Desk {
  readonly outboxDir: string
  faults: SmtpFaults
  filed: number
  readonly closing: AbortSignal
  readonly hangUp: (session: SMTPServerSession) => void
}

type ServerConnection = SMTPServer['connections'] extends Set<infer Connection> ? Connection : never

/**
 * Breaks connections off. Only ever the topmost socket, and none that is about to turn into a TLS socket: Node 24 dies
 * of a segmentation fault when a socket is destroyed under an unfinished TLS handshake.
 */
function cut(server: SMTPServer, chosen: (connection: ServerConnection) => boolean): void {
  for (const connection of server.connections) {
    const { _upgrading: upgrading, _socket: socket } = connection
    if (chosen(connection) && !upgrading) socket.destroy()
  }
}

function serverOptions(desk: Desk, settings: SmtpServerSettings): SMTPServerOptions {
  const { requireAuth, tls } = settings
  return {
    name: 'simulator.test',
    disableReverseLookup: true,
    socketTimeout: 60_000,
    closeTimeout: 100,
    size: 1024 * 1024,
    allowInsecureAuth: true,
    authOptional: requireAuth === undefined,
    disabledCommands: [...(tls === undefined ? ['STARTTLS'] : []), ...(requireAuth === undefined ? ['AUTH'] : [])],
    ...(tls === undefined ? {} : { key: tls.key, cert: tls.cert, secure: tls.implicit ?? false }),
    onAuth(auth, _session, done) {
      const known = auth.username === requireAuth?.user && auth.password === requireAuth?.pass
      done(known ? null : refusal(535, 'Authentication failed'), { user: auth.username })
    },
    onMailFrom(_address, _session, done) {
      const code = desk.faults.refuseSender
      done(code === undefined ? null : refusal(code, 'Sender refused'))
    },
    onRcptTo({ address }, _session, done) {
      const code = desk.faults.refuseRecipients?.[address.toLowerCase()]
      done(code === undefined ? null : refusal(code, 'Recipient refused'))
    },
    onData(stream, session, done) {
      collect(stream)
        .then((content) => settle(desk, content, session))
        .then((reply) => (reply === 'dropped' ? undefined : done(reply)))
        .catch((error: unknown) => done(error instanceof Error ? error : new Error(String(error))))
    },
  }
}

/** Files one message and says what to answer; null is 250. */
async function settle(desk: Desk, content: Buffer, session: SMTPServerSession): Promise<Error | null | 'dropped'> {
  const { delayMs, dropAfterData, refuseContent } = desk.faults
  const drop = () => {
    desk.hangUp(session)
    return 'dropped' as const
  }
  if (refuseContent !== undefined) return refusal(refuseContent, 'Message refused')
  if (dropAfterData === 'before_filing') return drop()
  await file(desk, content, session)
  if (dropAfterData === 'after_filing') return drop()
  if (delayMs !== undefined) await delay(delayMs, undefined, { signal: desk.closing }).catch(() => undefined)
  return null
}

/** Written under another name and renamed, so that whoever counts files never counts half a message. */
async function file(desk: Desk, content: Buffer, session: SMTPServerSession): Promise<void> {
  const { subject } = await simpleParser(content)
  desk.filed += 1
  const stamp = new Date().toISOString().replace(/[-:.]/g, '')
  const name = `${stamp}-${String(desk.filed).padStart(4, '0')}-${slug(subject ?? '')}`
  const { mailFrom, rcptTo } = session.envelope
  const trace = [
    `Return-Path: <${mailFrom === false ? '' : mailFrom.address}>`,
    ...rcptTo.map(({ address }) => `Delivered-To: ${address}`),
  ]
  const temporary = join(desk.outboxDir, `.${name}.part`)
  await writeFile(temporary, Buffer.concat([Buffer.from(`${trace.join('\r\n')}\r\n`), content]))
  await rename(temporary, join(desk.outboxDir, `${name}.eml`))
}

function slug(subject: string): string {
  const words = subject
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
  return words.slice(0, 40).replace(/-$/, '') || 'message'
}

async function collect(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}

function refusal(responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode })
}

function addresses(header: AddressObject | AddressObject[] | undefined): string[] {
  return [header ?? []].flat().flatMap(({ value }) => value.map(({ address }) => address ?? ''))
}

/** `node simulators/smtp-server.ts --port 0 --outbox <dir>`: prints the port on a line of its own once it listens. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: 'string', default: '0' },
      outbox: { type: 'string' },
      'delay-ms': { type: 'string' },
      'drop-after-data': { type: 'string' },
    },
  })
  const { outbox, 'delay-ms': delayMs, 'drop-after-data': drop } = values
  if (outbox === undefined) throw new Error('--outbox <dir> is required')
  if (drop !== undefined && drop !== 'before_filing' && drop !== 'after_filing') {
    throw new Error('--drop-after-data is before_filing or after_filing')
  }
  const simulator = await startSmtpServer({
    outboxDir: outbox,
    port: Number(values.port),
    faults: {
      ...(delayMs === undefined ? {} : { delayMs: Number(delayMs) }),
      ...(drop === undefined ? {} : { dropAfterData: drop }),
    },
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void simulator.close())
  console.log(simulator.port)
}

if (import.meta.main) await main()
