import { isIP } from 'node:net'
import { Readable } from 'node:stream'
import MailComposer from 'nodemailer/lib/mail-composer'
import SMTPConnection, { type SMTPError } from 'nodemailer/lib/smtp-connection'
import type { SmtpAccount } from './account.ts'
import type { Delivery, FailedDelivery, SendLimits, SmtpStage } from './delivery.ts'
import type { Letter, RefusedRecipient } from './transport.ts'

/** Where and how to deliver one letter. */
export interface Route {
  readonly account: SmtpAccount
  /** Where the account's host is reached: its name, or an address that was checked. */
  readonly address: string
  readonly limits: SendLimits
  readonly signal: AbortSignal
}

/** Sends one letter over a connection of its own. Resolves for everything a server or a network can do; never retries. */
export async function deliver(letter: Letter, { account, address, limits, signal }: Route): Promise<Delivery> {
  const message = await compose(letter, account)
  const session = new Session(new SMTPConnection(connectionOptions(account, { address, limits })), message.length)
  const stop = AbortSignal.any([signal, AbortSignal.timeout(limits.totalMs)])
  const abort = () => session.fail(new Error('The time for this message is over'), 'ETIMEDOUT')
  stop.addEventListener('abort', abort, { once: true })
  try {
    if (stop.aborted) abort()
    else session.start(letter, { account, message })
    return await session.ended
  } finally {
    stop.removeEventListener('abort', abort)
  }
}

async function compose(letter: Letter, account: SmtpAccount): Promise<Buffer> {
  const mail = new MailComposer({
    from: { ...account.from },
    // Objects, so that nobody parses an address a second time and finds another one in it.
    to: letter.to.map((address) => ({ name: '', address })),
    subject: letter.subject,
    text: letter.body,
    messageId: letter.messageId,
    headers: { ...letter.headers },
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return await mail.compile().build()
}

function connectionOptions(account: SmtpAccount, { address, limits }: Pick<Route, 'address' | 'limits'>) {
  return {
    host: address,
    port: account.port,
    secure: account.security === 'implicit',
    requireTLS: account.security === 'starttls',
    ignoreTLS: account.security === 'none',
    tls: tlsOptions(account),
    dnsTimeout: limits.connectMs,
    // Covers name, connection, greeting and TLS together.
    connectionTimeout: limits.connectMs,
    greetingTimeout: limits.connectMs,
    socketTimeout: limits.replyMs,
    socketCloseTimeout: limits.closeMs,
    maxResponseSize: 64 * 1024,
  }
}

function tlsOptions({ host, ca }: SmtpAccount) {
  return {
    minVersion: 'TLSv1.2' as const,
    // The certificate is for the name, whatever address it leads to.
    ...(isIP(host) === 0 ? { servername: host } : {}),
    ...(ca === null ? {} : { ca }),
  }
}

/** One SMTP dialogue. `stage` says how far it came, which is what decides whether anything can have happened. */
class Session {
  readonly ended: Promise<Delivery>
  readonly #connection: SMTPConnection
  readonly #size: number
  #stage: SmtpStage = 'connect'
  #resolve: (delivery: Delivery) => void = () => undefined

  constructor(connection: SMTPConnection, size: number) {
    this.#connection = connection
    this.#size = size
    this.ended = new Promise((resolve) => (this.#resolve = resolve))
  }

  start(letter: Letter, { account, message }: { account: SmtpAccount; message: Buffer }): void {
    this.#connection.on('error', (error: SMTPError) => this.fail(error))
    // Comes alone when a server hangs up between two commands; a specific error of the same moment goes first.
    this.#connection.once('end', () => setImmediate(() => this.fail(new Error('The connection ended'), 'ECONNECTION')))
    this.#connection.connect((error) => {
      if (error) return this.fail(error)
      if (account.auth === null) return this.#send(letter, { account, message })
      this.#stage = 'sign_in'
      this.#connection.login({ credentials: account.auth }, (refused) =>
        refused ? this.fail(refused) : this.#send(letter, { account, message }),
      )
    })
  }

  #send(letter: Letter, { account, message }: { account: SmtpAccount; message: Buffer }): void {
    this.#stage = 'envelope'
    const enter = () => (this.#stage = 'content')
    // Read only after the server has said "go ahead": reading is the first moment a byte of the message can leave.
    const content = new Readable({
      read() {
        enter()
        this.push(message)
        this.push(null)
      },
    })
    const envelope = { from: account.from.address, to: [...letter.to], size: this.#size }
    this.#connection.send(envelope, content, (error, info) => {
      if (error) return this.fail(error)
      this.#end({ kind: 'accepted', accepted: info.accepted, refused: refusedBy(info.rejectedErrors) })
    })
  }

  fail(error: SMTPError, code = error.code ?? null): void {
    const failed: FailedDelivery = {
      kind: 'failed',
      stage: this.#stage,
      code,
      originalCode: error.originalCode ?? null,
      reply: error.responseCode ?? null,
      command: error.command ?? null,
      refused: refusedBy(error.rejectedErrors),
      cause: error,
    }
    this.#end(failed)
  }

  /** The first end counts: closing makes the connection report ends of its own. */
  #end(delivery: Delivery): void {
    this.#resolve(delivery)
    this.#connection.close()
  }
}

function refusedBy(errors: readonly SMTPError[] | undefined): RefusedRecipient[] {
  return (errors ?? []).map(({ recipient, responseCode }) => ({ address: recipient ?? '', status: responseCode ?? 0 }))
}
