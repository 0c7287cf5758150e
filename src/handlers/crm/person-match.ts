/** What tells one person from another: the address, or the profile of one whose address is not known. */
export interface PersonIdentity {
  /** In lower case. */
  readonly email: string | null
  /** As `profileUrl` spells it. */
  readonly linkedinUrl: string | null
}

export interface IdentifiedPerson {
  readonly id: string
  readonly email: string | null
  readonly linkedinUrl: string | null
}

export type PersonMatch =
  | { readonly kind: 'nobody' }
  | { readonly kind: 'same'; readonly person: IdentifiedPerson }
  /** Address and profile belong to two people, or the profile to somebody with another address. */
  | { readonly kind: 'conflict'; readonly person: IdentifiedPerson }

/**
 * Who of the people that share the address or the profile is meant. The address decides; a profile names a person only
 * as long as no other address is known for it, so that research never turns one person into another.
 */
export function matchPerson(found: readonly IdentifiedPerson[], given: PersonIdentity): PersonMatch {
  const byEmail = found.find(({ email }) => email !== null && email.toLowerCase() === given.email)
  const byProfile = found.find(({ linkedinUrl }) => linkedinUrl !== null && linkedinUrl === given.linkedinUrl)
  if (byProfile !== undefined && byProfile.id !== byEmail?.id) {
    const other = byEmail !== undefined || (given.email !== null && byProfile.email !== null)
    return { kind: other ? 'conflict' : 'same', person: byProfile }
  }
  return byEmail === undefined ? { kind: 'nobody' } : { kind: 'same', person: byEmail }
}
