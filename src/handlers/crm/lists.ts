import type { Provenance } from '../provenance.ts'
import type { Company } from './companies.ts'
import type { Person } from './people.ts'

export type MemberKind = 'person' | 'company'

export interface List {
  readonly id: string
  readonly name: string
  /** What its members are. */
  readonly kind: MemberKind
  readonly description: string | null
  /** False when a run made the list. */
  readonly trusted: boolean
}

export interface ListQuery {
  readonly organizationId: string
  /** Every word has to occur in name or description, in any case; null finds every list. */
  readonly text: string | null
  readonly limit: number
}

export interface ListCreation {
  readonly organizationId: string
  /** Identifies the list, in any case. */
  readonly name: string
  readonly kind: MemberKind
  readonly description?: string | undefined
  readonly provenance: Provenance
}

/** `other_kind`: the name is that of a list of the other kind; nothing was written. */
export type ListCreationOutcome =
  | { readonly kind: 'there'; readonly id: string; readonly created: boolean }
  | { readonly kind: 'other_kind'; readonly id: string }

export interface ListPage {
  readonly organizationId: string
  readonly id: string
  /** Member that the page before ended with; null for the first page. */
  readonly after: string | null
  readonly limit: number
}

/** Members by id. `trusted` of a member is false as well when a run put it on the list. */
export interface ListContent extends List {
  /** Members that are there, on any page. */
  readonly size: number
  readonly people: readonly Person[]
  readonly companies: readonly Company[]
  /** Member to go on after; null at the end. */
  readonly next: string | null
}

export interface MembershipChange {
  readonly organizationId: string
  readonly listId: string
  readonly memberIds: readonly string[]
  readonly provenance: Provenance
}

/** `missing`: ids that name nobody of the list's kind; the others are members now. */
export type AddOutcome =
  | { readonly kind: 'done'; readonly added: number; readonly missing: readonly string[] }
  | { readonly kind: 'no_list' }

export type RemoveOutcome = { readonly kind: 'done'; readonly removed: number } | { readonly kind: 'no_list' }

/** Lists of one organization. A list or member that was deleted is not there, for any of these. */
export interface ListStore {
  /** By name. */
  search(query: ListQuery): Promise<readonly List[]>
  /** Any number of runs that make the same list at once make one row. */
  create(list: ListCreation): Promise<ListCreationOutcome>
  get(page: ListPage): Promise<ListContent | null>
  /** Written by one statement. A member that is on the list already stays as it is. */
  add(change: MembershipChange): Promise<AddOutcome>
  /** Written by one statement. */
  remove(change: MembershipChange): Promise<RemoveOutcome>
}
