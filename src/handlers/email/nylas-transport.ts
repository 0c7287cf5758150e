import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { ConnectionError, RetryableUpstreamError } from '../../tools/errors.ts'
import type { VendorAccess } from '../vendor/access.ts'
import type { VendorError } from '../vendor/vendor-error.ts'
import { type NylasClient, nylasClient, type NylasMessage, type NylasSend } from './nylas-client.ts'
import { type NylasMailbox, nylasMailbox } from './nylas-mailbox.ts'
import { FRESH, nextStep, type Progress, type RepeatLimits } from './nylas-verdict.ts'
import type { Delivered, EmailTransport, Letter, SendContext } from './transport.ts'

/** Milliseconds. */
export interface NylasLimits extends RepeatLimits {
  /** One request, its body included. */
  readonly attemptMs: number
  /** Everything a send does: requests, pauses, and the question about the grant. */
  readonly totalMs: number
}

/**
 * A provider can take longer than one request waits; the repeat then reads that the first is still running, and goes on
 * asking until the total is over. All of it ends before the invoker would stop waiting.
 */
export const NYLAS_LIMITS: NylasLimits = { attemptMs: 12_000, totalMs: 26_000, pauseMs: 1_000, putOffRepeats: 2 }

/** Seconds for which Nylas answers a repeat from what it stored, counted from the first request with the key. */
export const NYLAS_KEY_LIFE_S = 3_600

export interface NylasOptions {
  /** The deployment's Nylas application; its region is part of the base URL. */
  readonly access: VendorAccess
  readonly limits?: NylasLimits
}

/**
 * Mail through a mailbox that its owner granted to the deployment's Nylas application. Every attempt at a call carries
 * the same idempotency key, so within its life a lost answer is asked for again instead of sent again.
 *
 * @throws Error when the access holds no usable key or address
 */
export function nylasTransport({ access, limits = NYLAS_LIMITS }: NylasOptions): EmailTransport {
  const client = nylasClient(access)
  return {
    kind: 'nylas',
    keyLifeS: NYLAS_KEY_LIFE_S,
    handles: ({ settings }) => Object.hasOwn(settings, 'kind') && settings['kind'] === 'nylas',
    async send(letter, context) {
      const mailbox = nylasMailbox(context.credential)
      const request = {
        grantId: mailbox.grantId,
        idempotencyKey: headerKey(context.idempotencyKey),
        message: messageFrom(letter, mailbox),
      }
      return sendOnce(
        { client, limits, signal: context.signal, endsAt: performance.now() + limits.totalMs },
        letter,
        request,
      )
    },
  }
}

interface Sending {
  readonly client: NylasClient
  readonly limits: NylasLimits
  readonly signal: SendContext['signal']
  /** On the clock of `performance.now()`. */
  readonly endsAt: number
}

/** Asks until the letter is known to be taken or not, as often and as long as the limits allow, always with one key. */
async function sendOnce(sending: Sending, letter: Letter, request: NylasSend): Promise<Delivered> {
  const { client, limits, signal } = sending
  let progress: Progress = FRESH
  for (;;) {
    const step = nextStep(await client.send(request, attemptOf(sending)), progress, limits)
    switch (step.kind) {
      case 'accepted':
        return { messageId: step.messageId ?? letter.messageId, accepted: letter.to, refused: [] }
      case 'raise':
        throw step.error
      case 'reconnect':
        throw expired()
      case 'ask_about_grant':
        throw await unauthorized(sending, request.grantId, step)
      case 'again':
        if (step.afterMs >= leftMs(sending)) throw step.otherwise
        await pause(step.afterMs, undefined, { signal }).catch(() => {
          throw step.otherwise
        })
        progress = step.progress
    }
  }
}

/** A send says `401` for both; only the key's own view of the grant tells whose it is. */
async function unauthorized(
  sending: Sending,
  grantId: string,
  { stale, error: cause }: { readonly stale: boolean; readonly error: VendorError },
): Promise<Error> {
  const grant = await sending.client.grant(grantId, attemptOf(sending))
  switch (grant.kind) {
    case 'key_refused':
      return grant.error
    case 'missing':
      return expired()
    case 'listed':
      // Renewed since: the refusal is read back under this key until the vendor forgets it. Otherwise a grant that is
      // still listed as valid is no contradiction: it may take minutes until its end is noticed.
      if (stale && grant.valid) return putOff('An earlier refusal is still being read back. Nothing was sent.', cause)
      return expired()
    case 'unknown':
      return putOff('The mailbox could not be checked right now. Nothing was sent.', cause)
  }
}

function putOff(message: string, cause: VendorError): RetryableUpstreamError {
  return new RetryableUpstreamError(message, { cause })
}

function expired(): ConnectionError {
  return new ConnectionError(
    'connection_expired',
    'The email connection has expired. A person has to connect it again.',
  )
}

function leftMs({ endsAt }: Sending): number {
  return Math.max(1, Math.floor(endsAt - performance.now()))
}

function attemptOf(sending: Sending) {
  return { timeoutMs: Math.min(sending.limits.attemptMs, leftMs(sending)), signal: sending.signal }
}

function messageFrom(letter: Letter, { from }: NylasMailbox): NylasMessage {
  return {
    ...(from === null ? {} : { from: [from] }),
    to: letter.to.map((email) => ({ email })),
    subject: letter.subject,
    body: letter.body.replaceAll('\r\n', '\n'),
    // The body is the sender's own text: as HTML it could hide a part of what a person approved.
    isPlaintext: true,
    customHeaders: Object.entries(letter.headers).map(([name, value]) => ({ name, value })),
    metadata: { key1: letter.operationId },
  }
}

/** The documented limit is 256 characters, and a header takes no others than these. */
function headerKey(idempotencyKey: string): string {
  if (/^[\x21-\x7e]{1,256}$/.test(idempotencyKey)) return idempotencyKey
  return createHash('sha256').update(idempotencyKey).digest('hex')
}
