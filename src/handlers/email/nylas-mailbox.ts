import { z } from 'zod'
import type { Credential } from '../../tools/invocation.ts'
import { ADDRESS_PATTERN, MAX_ADDRESS_LENGTH } from '../address.ts'
import { FROM_NAME, misconfigured, settingsOf } from './connection-settings.ts'

/** A mailbox that its owner has granted to the deployment's Nylas application. */
export interface NylasMailbox {
  readonly grantId: string
  /** Null sends as whoever the mailbox belongs to. */
  readonly from: { readonly email: string; readonly name?: string } | null
}

/**
 * Strict: where the mail goes to and with which key is the deployment's to say, so a host or a region among the settings
 * of a connection is refused. A grant is named by its id alone; the API would take an address or `me` in its place.
 */
export const NYLAS_SETTINGS = z.strictObject({
  kind: z.literal('nylas'),
  grantId: z.guid(),
  from: z.string().max(MAX_ADDRESS_LENGTH).regex(ADDRESS_PATTERN).optional(),
  fromName: FROM_NAME.min(1).optional(),
})

/** Settings: `kind`, `grantId`, and optionally `from` and `fromName`. Throws a plain error that names the setting and never its value. */
export function nylasMailbox(credential: Credential): NylasMailbox {
  const { grantId, from, fromName } = settingsOf(credential, NYLAS_SETTINGS)
  if (from === undefined) {
    if (fromName !== undefined) throw misconfigured(credential, 'fromName needs from')
    return { grantId, from: null }
  }
  return { grantId, from: fromName === undefined ? { email: from } : { email: from, name: fromName } }
}
