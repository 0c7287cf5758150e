import { smtpAccount, type SmtpAccount } from './account.ts'
import { failureOf, type SendLimits } from './delivery.ts'
import type { EmailTransport } from './transport.ts'

/**
 * The send ends itself before the invoker would, so that a server that was never reached reads as such and not as a
 * timeout that nobody knows the outcome of.
 */
export const SEND_LIMITS: SendLimits = { connectMs: 10_000, replyMs: 15_000, closeMs: 1_000, totalMs: 25_000 }

/** Decides which mail servers may be connected to. */
export interface ServerGuard {
  /**
   * The address to connect to.
   * @throws ValidationError for a server that no mail is given to
   */
  addressOf(server: { readonly host: string; readonly port: number }): Promise<string>
}

export interface SmtpOptions {
  readonly limits?: SendLimits
  /** Asked about the server of every letter. Without one every server goes, those of the deployment's own network too. */
  readonly guard?: ServerGuard
}

/** Mail through the organization's own mail server. SMTP knows no idempotency key, so a lost answer stays unknown. */
export function smtpTransport({ limits = SEND_LIMITS, guard }: SmtpOptions = {}): EmailTransport {
  return {
    kind: 'smtp',
    keyLifeS: null,
    handles: ({ settings }) => !Object.hasOwn(settings, 'kind') || settings['kind'] === 'smtp',
    async send(letter, { credential, signal }) {
      const account = smtpAccount(credential)
      const address = guard === undefined ? account.host : await allowedAddress(guard, account)
      // Loaded with the first message: nodemailer is an optional dependency of the package.
      const { deliver } = await import('./smtp.ts')
      const delivery = await deliver(letter, { account, address, limits, signal })
      if (delivery.kind === 'failed') throw failureOf(delivery)
      return { messageId: letter.messageId, accepted: delivery.accepted, refused: delivery.refused }
    },
  }
}

/** A server that is not let out is a wrong setting of the connection: an operator's to repair, and no answer to a model. */
async function allowedAddress(guard: ServerGuard, { host, port }: SmtpAccount): Promise<string> {
  try {
    return await guard.addressOf({ host, port })
  } catch (cause) {
    throw new Error('The mail server of the connection may not be connected to', { cause })
  }
}
