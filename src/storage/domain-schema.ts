import type { Generated } from 'kysely'
import type { Bytes, NullableInstant, StampedInstant } from './column-types.ts'

// Domain data: what an organization's agents work on, and the Intelligence that belongs to no organization.

export interface PeopleTable {
  id: string
  organization_id: string
  email: string | null
  linkedin_url: string | null
  full_name: string
  company: string | null
  company_id: string | null
  title: string | null
  location: string | null
  written_by_run: string | null
  written_by_root_run: string | null
  written_by_tool: string | null
  created_by_root_run: string | null
  email_by_root_run: string | null
  trusted: Generated<boolean>
  created_at: StampedInstant
  updated_at: StampedInstant
  deleted_at: NullableInstant
}

export interface CompaniesTable {
  id: string
  organization_id: string
  domain: string
  name: string
  industry: string | null
  employees: string | null
  location: string | null
  description: string | null
  written_by_run: string | null
  written_by_root_run: string | null
  written_by_tool: string | null
  created_by_root_run: string | null
  trusted: Generated<boolean>
  created_at: StampedInstant
  updated_at: StampedInstant
  deleted_at: NullableInstant
}

export interface ListsTable {
  id: string
  organization_id: string
  name: string
  kind: 'person' | 'company'
  description: string | null
  written_by_run: string | null
  written_by_root_run: string | null
  written_by_tool: string | null
  created_by_root_run: string | null
  trusted: Generated<boolean>
  created_at: StampedInstant
  updated_at: StampedInstant
  deleted_at: NullableInstant
}

export interface ListMembersTable {
  organization_id: string
  list_id: string
  member_id: string
  written_by_run: string | null
  written_by_root_run: string | null
  written_by_tool: string | null
  created_by_root_run: string | null
  trusted: Generated<boolean>
  created_at: StampedInstant
  updated_at: StampedInstant
  deleted_at: NullableInstant
}

export interface MemoriesTable {
  id: string
  organization_id: string
  kind: 'observation' | 'preference'
  subject: string
  text: string
  content_hash: Bytes
  written_by_run: string | null
  written_by_root_run: string | null
  written_by_tool: string | null
  created_by_root_run: string | null
  trusted: Generated<boolean>
  created_at: StampedInstant
  updated_at: StampedInstant
  deleted_at: NullableInstant
}

export interface IntelCompaniesTable {
  domain: string
  first_observed_at: StampedInstant
  last_observed_at: StampedInstant
}

export interface IntelObservationsTable {
  id: string
  domain: string
  attribute: string
  value: string
  source: string
  content_hash: Bytes
  observed_at: StampedInstant
}
