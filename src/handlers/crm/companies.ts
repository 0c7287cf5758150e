import type { Provenance } from '../provenance.ts'

export interface Company {
  readonly id: string
  /** As `companyDomain` spells it. */
  readonly domain: string
  readonly name: string
  readonly industry: string | null
  /** A range: `51-200`, `10001+`. */
  readonly employees: string | null
  readonly location: string | null
  readonly description: string | null
  /** False when the text came through a run: nobody in the organization vouched for it. */
  readonly trusted: boolean
}

export interface CompanyQuery {
  readonly organizationId: string
  /** Every word has to occur in domain, name, industry, location or description, in any case. */
  readonly text: string
  readonly limit: number
}

export interface CompanyKey {
  readonly organizationId: string
  readonly id: string
}

/** What is left out stays as it is; null empties it. */
export interface CompanyDetails {
  readonly industry?: string | null | undefined
  readonly employees?: string | null | undefined
  readonly location?: string | null | undefined
  readonly description?: string | null | undefined
}

export interface CompanyUpsert extends CompanyDetails {
  readonly organizationId: string
  /** Identifies the company; as `companyDomain` spells it. */
  readonly domain: string
  readonly name: string
  readonly provenance: Provenance
}

export interface CompanyUpdate extends CompanyKey {
  /** At least one of them is given. */
  readonly changes: CompanyDetails & { readonly name?: string | undefined }
  readonly provenance: Provenance
}

/** Companies of one organization. One that was deleted is not there, for any of these. */
export interface CompanyStore {
  /** By name. */
  search(query: CompanyQuery): Promise<readonly Company[]>
  get(key: CompanyKey): Promise<Company | null>
  /** One statement, so that two runs that add the same company at once make one row. */
  upsert(company: CompanyUpsert): Promise<{ readonly id: string; readonly created: boolean }>
  /** One statement. */
  update(change: CompanyUpdate): Promise<'written' | 'not_found'>
}
