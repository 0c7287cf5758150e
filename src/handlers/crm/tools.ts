import type { ToolDeclaration } from '../../tools/declarations.ts'
import type { CompanyStore } from './companies.ts'
import { companyTools } from './company-tools.ts'
import { listTools } from './list-tools.ts'
import type { ListStore } from './lists.ts'
import type { PeopleStore } from './people.ts'
import { personTools } from './person-tools.ts'

export interface CrmOptions {
  readonly people: PeopleStore
  /** Left out, there are no tools for companies. */
  readonly companies?: CompanyStore
  /** Left out, there are no tools for lists. */
  readonly lists?: ListStore
}

/** The organization's own CRM. Failures of a store raise: an outage must never read as an empty answer. */
export function crmTools({ people, companies, lists }: CrmOptions): ToolDeclaration[] {
  return [
    ...personTools(people),
    ...(companies === undefined ? [] : companyTools(companies)),
    ...(lists === undefined ? [] : listTools(lists)),
  ]
}
