import { z } from 'zod'
import { ADDRESS_PATTERN, MAX_ADDRESS_LENGTH } from '../address.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { isRoleMailbox } from './role-mailbox.ts'
import { clippedLine, webAddress } from './vendor-text.ts'
import { type Verification, verificationOf } from './verification.ts'

export interface FoundContact {
  readonly email: string
  readonly verification: Exclude<Verification, 'not_found'>
  readonly role: boolean
  readonly score: number | null
  /** As the provider spells it; null when it does not. */
  readonly name: string | null
  readonly position: string | null
  readonly sources: readonly { uri: string; lastSeenOn: string | null; stillOnPage: boolean | null }[]
}

const MAX_SOURCES = 5

const text = z.string().nullish().catch(null)
const flag = z.boolean().nullish().catch(null)

/** The address has to be readable; what stands beside it is kept where it is, so that a paid answer is not lost over it. */
const Contact = z.object({
  email: z.string().max(MAX_ADDRESS_LENGTH).regex(ADDRESS_PATTERN).nullable(),
  score: z.number().min(0).max(100).nullish().catch(null),
  first_name: text,
  last_name: text,
  position: text,
  accept_all: flag,
  verification: z.object({ status: text }).nullish().catch(null),
  sources: z.array(z.unknown()).nullish().catch(null),
})

const Source = z.object({ uri: text, last_seen_on: text, still_on_page: flag })

/**
 * Reads an answer of the email finder; null for a person without a known address.
 *
 * @throws VendorError `decode`, for a row without the field or with an address that is none: never read as a miss
 */
export function readContact(row: unknown): FoundContact | null {
  const parsed = Contact.safeParse(row)
  if (!parsed.success) throw new VendorError({ vendor: 'hunter', trouble: 'decode', cause: parsed.error })
  const { email, score, first_name, last_name, position, accept_all, verification, sources } = parsed.data
  if (email === null) return null
  return {
    email,
    verification: verificationOf({ status: verification?.status ?? null, acceptAll: accept_all ?? null }),
    role: isRoleMailbox(email),
    score: typeof score === 'number' ? Math.round(score) : null,
    name: clippedLine([first_name, last_name].filter(Boolean).join(' '), 200),
    position: clippedLine(position, 200),
    sources: (sources ?? []).flatMap(readSource).slice(0, MAX_SOURCES),
  }
}

/** A source that cannot be opened is none. */
function readSource(value: unknown): FoundContact['sources'] {
  const parsed = Source.safeParse(value)
  const uri = parsed.success ? webAddress(parsed.data.uri) : null
  if (!parsed.success || uri === null) return []
  const { last_seen_on, still_on_page } = parsed.data
  return [{ uri, lastSeenOn: dateOf(last_seen_on), stillOnPage: still_on_page ?? null }]
}

function dateOf(text: string | null | undefined): string | null {
  return /^\d{4}-\d{2}-\d{2}$/.test(text ?? '') ? (text ?? null) : null
}
