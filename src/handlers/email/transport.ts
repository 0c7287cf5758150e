import type { Credential } from '../../tools/invocation.ts'

/** One message, ready to be written down. */
export interface Letter {
  /** With angle brackets; the same for every attempt at one call. */
  readonly messageId: string
  /** Short name of the call, for a person who looks for the message in a mailbox. */
  readonly operationId: string
  readonly to: readonly string[]
  readonly subject: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

/** What a transport may know beyond the letter. Dies with the call. */
export interface SendContext {
  readonly credential: Credential
  /** The same for every attempt at one call. */
  readonly idempotencyKey: string
  /** Aborts when the invoker stops waiting. */
  readonly signal: AbortSignal
}

export interface RefusedRecipient {
  readonly address: string
  /** SMTP reply code; 0 when the server's answer had none. */
  readonly status: number
}

/** A letter that was taken for at least one recipient. */
export interface Delivered {
  /** What a person finds the message by. */
  readonly messageId: string
  readonly accepted: readonly string[]
  readonly refused: readonly RefusedRecipient[]
}

/** One way of sending mail. */
export interface EmailTransport {
  /** As the setting `kind` of a connection spells it. */
  readonly kind: string
  /** Seconds for which the receiver remembers an idempotency key; null for one that takes none. */
  readonly keyLifeS: number | null
  /** Whether a connection is one of this kind. */
  handles(credential: Credential): boolean
  /**
   * Sends one letter. Raises the neutral errors of `tools/errors.ts`, each for what is certain only, and a plain error
   * for what an operator has to repair.
   *
   * @throws RetryableUpstreamError nothing was sent, and another attempt may fare better
   * @throws UpstreamUnavailableError nothing was sent, and nothing will be
   * @throws ValidationError nothing was sent because of the letter itself
   * @throws ConnectionError the account has to be connected again; nothing was sent
   * @throws OutcomeUnknownError the letter may have been sent
   */
  send(letter: Letter, context: SendContext): Promise<Delivered>
}

/** The transport of a connection. A connection of a kind that the deployment does not offer is an operator's to repair. */
export function transportFor(transports: readonly EmailTransport[], credential: Credential): EmailTransport {
  const found = transports.find((transport) => transport.handles(credential))
  if (found !== undefined) return found
  const kinds = transports.map(({ kind }) => kind).join(', ')
  throw new Error(`Email connection ${credential.connectionId} is of a kind that is not offered here (${kinds})`)
}

/**
 * Seconds for which a repeat is recognised whichever transport a call took; null as soon as one of them takes no key.
 *
 * @throws Error without transports, or with two of one kind
 */
export function keyLifeOf(transports: readonly EmailTransport[]): number | null {
  if (transports.length === 0) throw new Error('email.send needs a transport')
  if (new Set(transports.map(({ kind }) => kind)).size < transports.length) {
    throw new Error('email.send has two transports of one kind')
  }
  const lives = transports.map(({ keyLifeS }) => keyLifeS)
  return lives.every((life) => life !== null) ? Math.min(...lives) : null
}
