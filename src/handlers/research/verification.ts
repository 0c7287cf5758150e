/**
 * What is known about whether an address takes mail.
 *
 * - `verified`: the provider checked it, and it does
 * - `unverifiable`: the provider checked, and could not confirm it: invalid, disposable, a webmail account, no result
 * - `accepts_all`: its domain takes every address, so that it exists proves nothing
 * - `unverified`: nobody has checked it
 * - `not_found`: there is no address
 */
export type Verification = 'verified' | 'unverifiable' | 'accepts_all' | 'unverified' | 'not_found'

export const VERIFICATIONS = [
  'verified',
  'unverifiable',
  'accepts_all',
  'unverified',
  'not_found',
] as const satisfies readonly Verification[]

const STATUSES: ReadonlyMap<string, Verification> = new Map([
  ['valid', 'verified'],
  ['accept_all', 'accepts_all'],
  ['invalid', 'unverifiable'],
  ['disposable', 'unverifiable'],
  ['webmail', 'unverifiable'],
  ['unknown', 'unverifiable'],
])

/**
 * The state of an address that was answered. The status counts before the domain: one that takes every address still tells
 * the truth when it names one invalid. A status nobody knows says nothing, and in particular not `verified`.
 */
export function verificationOf(answered: {
  readonly status: string | null
  readonly acceptAll: boolean | null
}): Exclude<Verification, 'not_found'> {
  const named = STATUSES.get(answered.status ?? '')
  if (named !== undefined && named !== 'not_found') return named
  return answered.acceptAll === true ? 'accepts_all' : 'unverified'
}
