import { sql } from 'kysely'
import { DEFAULT_APPROVAL_TTL_S, SAFE_DEFAULTS, type PolicyDefaults } from '../decision/stage-two.ts'
import type { RetentionSettings } from '../runs/retention.ts'
import type { Queryable } from './database.ts'

/** What an organization may set. Absent keys take the platform's defaults, which are the safe ones. */
export interface OrganizationSettings {
  /** Lets a person decide on calls of runs they started themselves. */
  readonly selfApproval: boolean
  /** Seconds a person has to answer when the rule does not say. */
  readonly approvalTtlS: number
  readonly policyDefaults: PolicyDefaults
  /** Cents that all runs together may cost on one day (UTC); checked before each segment and each node. Null is no ceiling. */
  readonly maxCostCentsPerDay?: number | null
  /** How long it keeps what its agents did; what is absent is as the deployment says. */
  readonly retention?: RetentionSettings
}

export interface Organization {
  readonly id: string
  readonly slug: string
  readonly name: string
  readonly settings: OrganizationSettings
  readonly rulesVersion: number
}

export const DEFAULT_SETTINGS: OrganizationSettings = {
  selfApproval: false,
  approvalTtlS: DEFAULT_APPROVAL_TTL_S,
  policyDefaults: SAFE_DEFAULTS,
}

export interface OrganizationStore {
  /** Creates it unless the slug exists, and answers what is stored. */
  ensure(organization: {
    readonly id: string
    readonly slug: string
    readonly name: string
    readonly settings?: Partial<OrganizationSettings>
  }): Promise<Organization>
  get(id: string): Promise<Organization | null>
  bySlug(slug: string): Promise<Organization | null>
  /** Moves the rules version: a claim decided under the old settings answers `moved`. */
  configure(id: string, settings: Partial<OrganizationSettings>): Promise<Organization>
}

export function organizationStore(database: Queryable): OrganizationStore {
  const one = async (column: 'id' | 'slug', value: string): Promise<Organization | null> => {
    const row = await database.kysely
      .selectFrom('agent.organizations')
      .selectAll()
      .where(column, '=', value)
      .executeTakeFirst()
    return row === undefined ? null : organizationOf(row)
  }
  return {
    get: (id) => one('id', id),
    bySlug: (slug) => one('slug', slug),
    async ensure(organization) {
      const known = await one('slug', organization.slug)
      if (known !== null) return known
      await database.kysely
        .insertInto('agent.organizations')
        .values({
          id: organization.id,
          slug: organization.slug,
          name: organization.name,
          settings: JSON.stringify(organization.settings ?? {}),
        })
        .onConflict((conflict) => conflict.column('slug').doNothing())
        .execute()
      const stored = await one('slug', organization.slug)
      if (stored === null) throw new Error(`organization ${organization.slug} could not be created`)
      return stored
    },
    async configure(id, settings) {
      const row = await database.kysely
        .updateTable('agent.organizations')
        .set({
          settings: sql<string>`settings || ${JSON.stringify(settings)}::jsonb`,
          rules_version: sql<number>`rules_version + 1`,
        })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow()
      return organizationOf(row)
    },
  }
}

function organizationOf(row: {
  id: string
  slug: string
  name: string
  settings: unknown
  rules_version: number
}): Organization {
  const stored = row.settings as Partial<OrganizationSettings>
  const settings = { ...DEFAULT_SETTINGS, ...stored, policyDefaults: { ...SAFE_DEFAULTS, ...stored.policyDefaults } }
  return { id: row.id, slug: row.slug, name: row.name, settings, rulesVersion: row.rules_version }
}
