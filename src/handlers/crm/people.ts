export interface Person {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly company: string | null
  readonly title: string | null
  /** False when the text came through a run: nobody in the organization vouched for it. */
  readonly trusted: boolean
}

export interface PeopleQuery {
  readonly organizationId: string
  /** Every word has to occur in name, company, title or email, in any case. */
  readonly text: string
  readonly limit: number
}

export interface PersonUpsert {
  readonly organizationId: string
  /** Identifies the person, in any case. */
  readonly email: string
  readonly name: string
  /** What is left out stays as it is. */
  readonly company?: string | undefined
  readonly title?: string | undefined
  readonly provenance: Provenance
}

/** Who wrote a row. */
export interface Provenance {
  readonly runId: string
  readonly rootRunId: string
  readonly tool: string
}

export interface KnownEmails {
  readonly organizationId: string
  readonly emails: readonly string[]
  /** Root of the run tree whose own rows do not count. */
  readonly exceptRootRun: string
}

/** People of one organization. A person who was deleted is not there, for any of these. */
export interface PeopleStore {
  /** By name. */
  search(query: PeopleQuery): Promise<readonly Person[]>
  /** One statement, so that two runs that add the same person at once make one row. */
  upsert(person: PersonUpsert): Promise<{ readonly id: string; readonly created: boolean }>
  /** The ones of `emails` that the organization knows, in lower case. */
  known(query: KnownEmails): Promise<ReadonlySet<string>>
}
