import type { Database, Transaction } from './database.ts'
import { ORGANIZATION_TABLES } from './organization-tables.ts'
import { statement, unnamed } from './statement.ts'

export type DeletionOutcome =
  | { readonly kind: 'deleted'; readonly rows: Readonly<Record<string, number>> }
  | { readonly kind: 'missing' }
  /** Cancel them, and wait until they have ended. */
  | { readonly kind: 'open_runs'; readonly count: number }

const LOCK = statement('organization_delete_lock', 'SELECT id FROM agent.organizations WHERE id = $1::uuid FOR UPDATE')

const OPEN = statement(
  'organization_open_runs',
  `SELECT count(*)::integer AS count FROM agent.runs
   WHERE organization_id = $1::uuid AND status IN ('queued', 'running', 'parked')`,
)

/** People who are members of nothing else have no reason to be here any more. */
const MEMBERS_OF_NOTHING = statement(
  'organization_delete_users',
  `DELETE FROM agent.users u WHERE u.id = ANY ($1::uuid[])
     AND NOT EXISTS (SELECT FROM agent.memberships m WHERE m.user_id = u.id)`,
)

const MEMBERS = statement(
  'organization_members',
  'SELECT user_id AS id FROM agent.memberships WHERE organization_id = $1::uuid',
)

const ORGANIZATION = statement('organization_delete', 'DELETE FROM agent.organizations WHERE id = $1::uuid')

/**
 * Removes every row of an organization, in one transaction. Nothing of it can be brought back but from a backup: export
 * it before. A run that starts meanwhile waits for the organization's row, and then finds it gone.
 */
export async function deleteOrganization(database: Database, organizationId: string): Promise<DeletionOutcome> {
  return database.transaction(async (tx) => {
    if ((await tx.query(LOCK, [organizationId])).rows.length === 0) return { kind: 'missing' }
    const { rows } = await tx.query<{ count: number }>(OPEN, [organizationId])
    const count = rows[0]?.count ?? 0
    if (count > 0) return { kind: 'open_runs', count }
    return { kind: 'deleted', rows: await deleteRows(tx, organizationId) }
  })
}

async function deleteRows(tx: Transaction, organizationId: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  const members = (await tx.query<{ id: string }>(MEMBERS, [organizationId])).rows.map(({ id }) => id)
  for (const { name } of ORGANIZATION_TABLES)
    counts[name] = (
      await tx.query(unnamed(`DELETE FROM ${name} WHERE organization_id = $1::uuid`), [organizationId])
    ).affected
  counts['agent.users'] = (await tx.query(MEMBERS_OF_NOTHING, [members])).affected
  counts['agent.organizations'] = (await tx.query(ORGANIZATION, [organizationId])).affected
  return counts
}
