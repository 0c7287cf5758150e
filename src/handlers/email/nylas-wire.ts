import { z } from 'zod'
import { retryAfterMs } from '../vendor/buffered-fetch.ts'
import { VendorError, type VendorTrouble } from '../vendor/vendor-error.ts'

export const VENDOR = 'nylas'

/** What came of one request to send. */
export type NylasAnswer =
  /** `messageId` is null when the answer named none, as the documented examples do not. */
  | { readonly kind: 'taken'; readonly messageId: string | null }
  | NylasRefusal
  /** No connection ever stood, so nothing left. `passing` when another attempt may find one. */
  | { readonly kind: 'unreached'; readonly passing: boolean; readonly error: VendorError }
  /** The request may have arrived, and no answer that can be read came back. */
  | { readonly kind: 'lost'; readonly error: VendorError }

/** An answer that is no success. */
export interface NylasRefusal {
  readonly kind: 'refused'
  readonly status: number
  /** Last part of the error's type; the documentation spells it with and without `api.` before it. */
  readonly type: string | null
  /** Read back from what is stored under the key: it tells of the first request, not of this one. */
  readonly replayed: boolean
  readonly retryAfterMs: number | null
  readonly error: VendorError
}

/** Headers and status of an answer; the body as it came. */
export interface RawAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

const ErrorBody = z.object({
  request_id: z.string().optional(),
  error: z.object({ type: z.string().optional() }),
})

const NO_DETAILS: z.output<typeof ErrorBody> = { error: {} }

export function refusalOf({ status, headers, text }: RawAnswer): NylasRefusal {
  const body = ErrorBody.safeParse(parsed(text))
  const { request_id: inBody, error } = body.success ? body.data : NO_DETAILS
  const type = error.type?.split('.').at(-1) ?? null
  return {
    kind: 'refused',
    status,
    type,
    replayed: headers.get('idempotent-response') === 'true',
    retryAfterMs: retryAfterMs(headers.get('retry-after')),
    error: new VendorError({
      vendor: VENDOR,
      trouble: troubleOf(status, type),
      status,
      vendorCode: type,
      requestId: headers.get('x-request-id') ?? inBody ?? null,
      retryAfterMs: retryAfterMs(headers.get('retry-after')),
    }),
  }
}

const TROUBLES: Readonly<Record<number, VendorTrouble>> = {
  401: 'authentication',
  402: 'refused',
  403: 'authentication',
  422: 'refused',
  423: 'refused',
  429: 'rate_limited',
}

function troubleOf(status: number, type: string | null): VendorTrouble {
  if (type === 'invalid_request_error') return 'request'
  return TROUBLES[status] ?? (status >= 500 ? 'server' : 'request')
}

/** What the SDK made of a success: every field of the message is optional in the documented schema. */
const Success = z.object({ data: z.object({ id: z.string().nullish() }).optional() })

/** Letters and digits as providers make ids of: a message id goes to a model, and nothing else of the answer does. */
const PLAIN_ID = /^[\w+/=.-]{1,200}$/

/** Null for an answer that no send has. A letter that was only queued (202) need not come with the message. */
export function takenOf(payload: unknown, status: number): NylasAnswer | null {
  const success = Success.safeParse(payload)
  if (!success.success) return null
  const { data } = success.data
  if (data === undefined && status !== 202) return null
  const id = data?.id ?? null
  return { kind: 'taken', messageId: id !== null && PLAIN_ID.test(id) ? id : null }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

/** Codes that only an attempt to connect can end with. A time-out or a reset may come later as well, so neither is here. */
const CONNECTING = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EADDRNOTAVAIL', 'UND_ERR_CONNECT_TIMEOUT'])

/** Codes of a certificate that is not trusted: a wrong address of the vendor, or somebody in between. */
const UNTRUSTED = /^(CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|ERR_TLS_CERT_)/

/** What a request that brought no answer means. Only what failed before a connection stood is known not to have left. */
export function withoutAnswer(error: VendorError): NylasAnswer {
  const codes = error.trouble === 'transport' ? codesOf(error.cause) : []
  const passing = codes.some((code) => CONNECTING.has(code))
  const unreached = passing || codes.some((code) => UNTRUSTED.test(code))
  return unreached ? { kind: 'unreached', passing, error } : { kind: 'lost', error }
}

/** Names and codes of what the network raised, as a `VendorError` keeps them: `TypeError < Error ECONNREFUSED`. */
function codesOf(outline: unknown): string[] {
  return typeof outline === 'string' ? outline.split(/[\s<]+/) : []
}
