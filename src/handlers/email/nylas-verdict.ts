import { OutcomeUnknownError, RetryableUpstreamError, UpstreamUnavailableError } from '../../tools/errors.ts'
import type { VendorError } from '../vendor/vendor-error.ts'
import type { NylasAnswer, NylasRefusal } from './nylas-wire.ts'

/** What the requests of one call have come to so far. */
export interface Progress {
  /** An earlier request may have sent the letter. From then on only an answer about *that* request settles anything. */
  readonly maybeSent: boolean
  /** Repeats made because a request was lost or failed at the vendor. */
  readonly repeats: number
  /** Repeats made because the vendor put the letter off. */
  readonly putOff: number
}

export const FRESH: Progress = { maybeSent: false, repeats: 0, putOff: 0 }

export interface RepeatLimits {
  /** Milliseconds between two requests, unless the vendor asks for more. */
  readonly pauseMs: number
  /** Repeats after a request was put off. */
  readonly putOffRepeats: number
}

export type Step =
  | { readonly kind: 'accepted'; readonly messageId: string | null }
  | { readonly kind: 'raise'; readonly error: Error }
  /** Asks again with the same key, or raises `otherwise` when there is no time left for it. */
  | { readonly kind: 'again'; readonly afterMs: number; readonly progress: Progress; readonly otherwise: Error }
  /**
   * Nothing was sent, because of the deployment's key or the mailbox's grant: the vendor's view of the grant tells which.
   * `stale` when the answer was stored for an earlier attempt, and the grant may have been renewed since.
   */
  | { readonly kind: 'ask_about_grant'; readonly stale: boolean; readonly error: VendorError }
  /** Nothing was sent; a person has to connect the mailbox again. */
  | { readonly kind: 'reconnect' }

/** One repeat tells all there is to know: the vendor answers it from what it stored for the first request. */
const LOST_REPEATS = 1

/** What to do about an answer. Pure; what is not known to have sent nothing is never answered as if it had not. */
export function nextStep(answer: NylasAnswer, progress: Progress, limits: RepeatLimits): Step {
  switch (answer.kind) {
    case 'taken':
      return { kind: 'accepted', messageId: answer.messageId }
    case 'unreached':
      if (progress.maybeSent) return unknown(answer.error)
      return raise(answer.passing ? retryable(answer.error) : answer.error)
    case 'lost':
      return repeated(answer.error, progress, limits)
    case 'refused':
      return afterRefusal(answer, progress, limits)
  }
}

function afterRefusal(refusal: NylasRefusal, progress: Progress, limits: RepeatLimits): Step {
  const meaning = meaningOf(refusal)
  switch (meaning) {
    case 'undecided':
      // Stored for the first request: every repeat reads the same.
      return refusal.replayed ? unknown(refusal.error) : repeated(refusal.error, progress, limits)
    case 'running':
      return {
        kind: 'again',
        afterMs: refusal.retryAfterMs ?? limits.pauseMs,
        progress: { ...progress, maybeSent: true },
        otherwise: outcomeUnknown(refusal.error),
      }
    case 'maybe_sent':
      return unknown(refusal.error)
    case 'put_off':
      return afterPutOff(refusal, progress, limits)
    default:
      // It refuses this request, which says nothing about an earlier one whose answer was lost.
      if (progress.maybeSent && !refusal.replayed) return unknown(refusal.error)
      return NOTHING_SENT[meaning](refusal.error, refusal.replayed && !progress.maybeSent)
  }
}

type Certain = 'fault' | 'unauthorized' | 'unconnected' | 'impossible'
type Meaning = Certain | 'undecided' | 'running' | 'maybe_sent' | 'put_off'

const NOTHING_SENT: Readonly<Record<Certain, (error: VendorError, stale: boolean) => Step>> = {
  fault: raise,
  unauthorized: (error, stale) => ({ kind: 'ask_about_grant', stale, error }),
  unconnected: (error, stale) => (stale ? { kind: 'ask_about_grant', stale, error } : { kind: 'reconnect' }),
  impossible: (error) =>
    raise(new UpstreamUnavailableError('The mail was refused. Nothing was sent.', { cause: error })),
}

/** Statuses that say that the request was not carried out, whatever else they say. */
const FAULTS: ReadonlySet<number> = new Set([400, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 431])

/** By status first and the type second, never by text. Whatever is not listed may have sent the letter. */
function meaningOf({ status, type, error }: NylasRefusal): Meaning {
  if (status === 401 || type === 'unauthorized_access') return 'unauthorized'
  if (status === 402) return 'maybe_sent'
  // Without a type the answer is not the API's own, but that of something before it.
  if (status === 403 && type !== null) return 'unconnected'
  if (status === 404 && type === 'not_found_error') return 'unconnected'
  // The key is in use for another message: an earlier attempt at this call got through with it.
  if (status === 409) return type === 'invalid_idempotent_request' ? 'maybe_sent' : 'running'
  // Without the type of a malformed request it is the mail provider that refused.
  if (status === 422 && type !== 'invalid_request_error') return 'impossible'
  if (status === 423) return 'impossible'
  if (status === 429) return 'put_off'
  return FAULTS.has(status) || error.trouble === 'redirected' ? 'fault' : 'undecided'
}

function afterPutOff(refusal: NylasRefusal, progress: Progress, limits: RepeatLimits): Step {
  const otherwise = progress.maybeSent && !refusal.replayed ? outcomeUnknown(refusal.error) : retryable(refusal.error)
  // A stored refusal is what every repeat would read.
  if (refusal.replayed || progress.putOff >= limits.putOffRepeats) return raise(otherwise)
  return {
    kind: 'again',
    afterMs: refusal.retryAfterMs ?? limits.pauseMs * (progress.putOff + 1),
    progress: { ...progress, putOff: progress.putOff + 1 },
    otherwise,
  }
}

function repeated(error: VendorError, progress: Progress, limits: RepeatLimits): Step {
  if (progress.repeats >= LOST_REPEATS) return unknown(error)
  return {
    kind: 'again',
    afterMs: limits.pauseMs,
    progress: { ...progress, maybeSent: true, repeats: progress.repeats + 1 },
    otherwise: outcomeUnknown(error),
  }
}

function raise(error: Error): Step {
  return { kind: 'raise', error }
}

function unknown(error: VendorError): Step {
  return raise(outcomeUnknown(error))
}

function outcomeUnknown(cause: VendorError): Error {
  return new OutcomeUnknownError('The mail may have been sent; no answer says so.', { cause })
}

function retryable(cause: VendorError): Error {
  return new RetryableUpstreamError('The mail could not be handed over right now. Nothing was sent.', { cause })
}
