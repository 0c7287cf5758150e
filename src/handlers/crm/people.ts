import type { Provenance } from '../provenance.ts'

export interface Person {
  readonly id: string
  readonly name: string
  readonly email: string | null
  /** Canonical address of a LinkedIn profile. */
  readonly linkedinUrl: string | null
  readonly company: string | null
  /** The company of the CRM the person belongs to; null as well when that was deleted. */
  readonly companyId: string | null
  readonly title: string | null
  readonly location: string | null
  /** False when the text came through a run: nobody in the organization vouched for it. */
  readonly trusted: boolean
}

export interface PeopleQuery {
  readonly organizationId: string
  /** Every word has to occur in name, company, title, location, email or profile, in any case. */
  readonly text: string
  readonly limit: number
}

export interface PersonKey {
  readonly organizationId: string
  readonly id: string
}

/** What is left out stays as it is; null empties it. */
export interface PersonDetails {
  readonly company?: string | null | undefined
  /** Of a company of the same organization. */
  readonly companyId?: string | null | undefined
  readonly title?: string | null | undefined
  readonly location?: string | null | undefined
}

export interface PersonUpsert extends PersonDetails {
  readonly organizationId: string
  /** Identifies the person, in any case. One of address and profile is given. */
  readonly email?: string | undefined
  /** Identifies a person whose address is not known; as `profileUrl` spells it. */
  readonly linkedinUrl?: string | undefined
  readonly name: string
  readonly provenance: Provenance
}

export type PersonUpsertOutcome =
  | { readonly kind: 'written'; readonly id: string; readonly created: boolean }
  /** Address and profile belong to different people; nothing was written. The one with the profile is named. */
  | { readonly kind: 'other_person'; readonly id: string }
  | { readonly kind: 'no_company' }

export interface PersonUpdate extends PersonKey {
  /** At least one of them is given. */
  readonly changes: PersonDetails & {
    readonly name?: string | undefined
    readonly email?: string | undefined
    readonly linkedinUrl?: string | undefined
  }
  readonly provenance: Provenance
}

export type PersonUpdateOutcome =
  | { readonly kind: 'written' }
  | { readonly kind: 'not_found' }
  /** Somebody else has that address or that profile. */
  | { readonly kind: 'taken' }
  | { readonly kind: 'no_company' }

export interface KnownEmails {
  readonly organizationId: string
  readonly emails: readonly string[]
  /** Root of the run tree whose own writing does not count. */
  readonly exceptRootRun: string
}

/** People of one organization. A person who was deleted is not there, for any of these. */
export interface PeopleStore {
  /** By name. */
  search(query: PeopleQuery): Promise<readonly Person[]>
  get(key: PersonKey): Promise<Person | null>
  /** Any number of runs that add the same person at once make one row. */
  upsert(person: PersonUpsert): Promise<PersonUpsertOutcome>
  /** One statement. */
  update(change: PersonUpdate): Promise<PersonUpdateOutcome>
  /** The ones of `emails` that the organization knew before the run tree wrote any, in lower case. */
  known(query: KnownEmails): Promise<ReadonlySet<string>>
}
