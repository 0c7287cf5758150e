/** What may be recorded of a company. */
export const ATTRIBUTES = [
  'name',
  'industry',
  'employees',
  'location',
  'description',
  'technology',
  'funding',
  'news',
] as const

export type Attribute = (typeof ATTRIBUTES)[number]

/** One publicly known fact and where it can be read. */
export interface Fact {
  readonly attribute: Attribute
  readonly value: string
  readonly source: string
  /** When somebody last recorded it. */
  readonly observedAt: Date
}

export interface CompanyIntelligence {
  readonly domain: string
  /** The newest of each source for each attribute, the newest first. */
  readonly facts: readonly Fact[]
}

export interface IntelligenceQuery {
  /** Every word has to occur in the domain or in something recorded of the company, in any case. */
  readonly words: readonly string[]
  readonly limit: number
}

/** Whoever records it is not part of it: the store belongs to no organization, and every one reads it. */
export interface Observation {
  /** As `companyDomain` spells it. */
  readonly domain: string
  readonly attribute: Attribute
  readonly value: string
  /** Address of a public page. */
  readonly source: string
}

/**
 * What is publicly known about companies, for all organizations. Handlers get it as this port; the client behind it,
 * which no row-level security holds back, stays in storage.
 */
export interface IntelligenceStore {
  /** Companies by domain. */
  search(query: IntelligenceQuery): Promise<readonly CompanyIntelligence[]>
  /** One statement. The same observation again is the same row, observed now. */
  record(observation: Observation): Promise<{ readonly created: boolean }>
}
