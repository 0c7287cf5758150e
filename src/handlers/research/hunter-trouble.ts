import { z } from 'zod'
import { VendorError, type VendorTrouble } from '../vendor/vendor-error.ts'
import { troubleOfStatus } from './status-trouble.ts'

const Errors = z.object({
  errors: z.array(z.object({ id: z.string().catch(''), details: z.string().catch('') })).min(1),
})

/** The first error of an answer's body; null when the body is none of the vendor's. */
export function hunterComplaint(body: unknown): { readonly id: string; readonly details: string } | null {
  const parsed = Errors.safeParse(body)
  return parsed.success ? (parsed.data.errors[0] ?? null) : null
}

interface RefusedAnswer {
  readonly status: number
  /** Parsed JSON, or null. */
  readonly body: unknown
  readonly retryAfterMs: number | null
}

/**
 * Reads a refusal. The documentation and the vendor's own client disagree on 403 and 429, so the words of the error are
 * read for these two, towards the side that does no harm: what may be a wrong key or an empty account is not asked again.
 */
export function hunterError({ status, body, retryAfterMs }: RefusedAnswer): VendorError {
  const complaint = hunterComplaint(body)
  const words = complaint === null ? '' : `${complaint.id} ${complaint.details.slice(0, 500)}`.toLowerCase()
  const trouble = troubleOf(status, words)
  return new VendorError({ vendor: 'hunter', trouble, status, retryAfterMs, vendorCode: complaint?.id ?? null })
}

/** Documented as the limit on requests for a second or minute; the vendor's own client takes it for a wrong key. */
const SAYS_RATE = /(^|[^a-z])rate([^a-z]|$)|too[ _]many/
/** Documented as used up; the vendor's own client takes it for a limit on requests. */
const SAYS_USED_UP = /billing|(^|[^a-z])plan([^a-z]|$)|limit for the number of|quota/

function troubleOf(status: number, words: string): VendorTrouble {
  // Still being worked on, and charged for once.
  if (status === 202) return 'overloaded'
  if (status === 403) return SAYS_RATE.test(words) ? 'rate_limited' : 'authentication'
  if (status === 429 && words.includes('restricted_account')) return 'authentication'
  if (status === 429 && SAYS_USED_UP.test(words)) return 'payment'
  return troubleOfStatus(status)
}
