import {
  OutcomeUnknownError,
  RetryableUpstreamError,
  UpstreamUnavailableError,
  ValidationError,
} from '../../tools/errors.ts'
import type { RefusedRecipient } from './transport.ts'

/** Milliseconds. `totalMs` ends whatever the others let through. */
export interface SendLimits {
  /** Name, connection, greeting and TLS together. */
  readonly connectMs: number
  /** Silence of the server after a command or after the message. */
  readonly replyMs: number
  readonly closeMs: number
  readonly totalMs: number
}

/** How far a dialogue came. From `content` on the server may have taken the message. */
export type SmtpStage = 'connect' | 'sign_in' | 'envelope' | 'content'

export type Delivery = AcceptedDelivery | FailedDelivery

export interface AcceptedDelivery {
  readonly kind: 'accepted'
  readonly accepted: readonly string[]
  readonly refused: readonly RefusedRecipient[]
}

export interface FailedDelivery {
  readonly kind: 'failed'
  readonly stage: SmtpStage
  /** The client library's code, such as `ECONNECTION`. */
  readonly code: string | null
  /** The system's code below it, such as `ECONNREFUSED`. */
  readonly originalCode: string | null
  readonly reply: number | null
  /** The command the reply answers. */
  readonly command: string | null
  readonly refused: readonly RefusedRecipient[]
  readonly cause: Error
}

/** Codes of failures that another attempt may not meet. */
const PASSING = new Set(['ECONNECTION', 'ETIMEDOUT', 'ESOCKET', 'EDNS', 'EPROTOCOL'])

/** The server wants other credentials, or better protection for them: nothing a model or another attempt can repair. */
const SIGN_IN_REPLIES = new Set([530, 534, 535, 538])

/** Refusals of TLS come as socket errors; they mean a wrong setting or somebody in between. */
const TLS_CODES = /^(CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|ERR_TLS_|ERR_SSL_|EPROTO$)/

/**
 * What to raise for a message that was not delivered. Answers only what is certain: before the message itself began to
 * leave, nothing happened; a reply to the message is a refusal; silence after it means that nobody knows.
 */
export function failureOf(failed: FailedDelivery): Error {
  return RAISED[failed.stage](failed)
}

const RAISED: Readonly<Record<SmtpStage, (failed: FailedDelivery) => Error>> = {
  connect: whileConnecting,
  sign_in: whileSigningIn,
  envelope: whileAddressing,
  content: afterSending,
}

function whileConnecting(failed: FailedDelivery): Error {
  if (!passing(failed)) return fault('The connection to the mail server could not be set up', failed)
  return new RetryableUpstreamError('The mail server could not be reached. Nothing was sent.', { cause: failed.cause })
}

function whileSigningIn(failed: FailedDelivery): Error {
  const later = failed.reply === null ? passing(failed) : isTemporary(failed.reply)
  if (!later) return fault('The mail server refused the credentials of the connection', failed)
  return new RetryableUpstreamError('The mail server could not check the sign-in right now. Nothing was sent.', {
    cause: failed.cause,
  })
}

function whileAddressing(failed: FailedDelivery): Error {
  const { cause, reply, refused } = failed
  if ([reply, ...refused.map(({ status }) => status)].some((code) => code !== null && SIGN_IN_REPLIES.has(code))) {
    return fault('The mail server wants a sign-in before it takes mail', failed)
  }
  if (refused.length > 0) return allRefused(failed)
  if (reply === 552 || (failed.code === 'EMESSAGE' && reply === null)) {
    return new ValidationError('The message is larger than the mail server takes. Nothing was sent; shorten it.', {
      cause,
    })
  }
  if (reply !== null && !isTemporary(reply)) {
    return new UpstreamUnavailableError(
      `The mail server takes no mail from this account (${reply}). Nothing was sent.`,
      { cause },
    )
  }
  if (reply === null && !passing(failed)) return fault('The message could not be addressed', failed)
  return new RetryableUpstreamError('The mail server takes no mail right now. Nothing was sent.', { cause })
}

/** One address that may be taken later makes the whole message worth another attempt; otherwise the arguments are wrong. */
function allRefused({ refused, cause }: FailedDelivery): Error {
  if (refused.some(({ status }) => isTemporary(status))) {
    return new RetryableUpstreamError('The mail server put off every recipient. Nothing was sent.', { cause })
  }
  const list = refused.map(({ address, status }) => `${address} (${status})`).join(', ')
  return new ValidationError(`The mail server refused every recipient: ${list}. Nothing was sent.`, { cause })
}

function afterSending(failed: FailedDelivery): Error {
  const { cause, reply } = failed
  // Any other code means that the connection ended, with or without a piece of a reply.
  if (failed.code !== 'EMESSAGE' || reply === null || reply < 400 || reply > 599) {
    return new OutcomeUnknownError(
      'The connection was lost after the message had been handed over. It may have been sent.',
      {
        cause,
      },
    )
  }
  if (isTemporary(reply)) {
    return new RetryableUpstreamError(`The mail server put off the message (${reply}). Nothing was sent.`, { cause })
  }
  return new UpstreamUnavailableError(`The mail server refused the message (${reply}). Nothing was sent.`, { cause })
}

function passing({ code, originalCode }: FailedDelivery): boolean {
  return code !== null && PASSING.has(code) && !(originalCode !== null && TLS_CODES.test(originalCode))
}

function isTemporary(reply: number): boolean {
  return reply >= 400 && reply < 500
}

/** For an operator: raised through, so that the run ends and the model reads nothing. */
function fault(message: string, { cause, reply }: FailedDelivery): Error {
  return new Error(reply === null ? message : `${message} (${reply})`, { cause })
}
