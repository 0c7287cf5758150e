import type { Queryable } from './database.ts'

/**
 * Holds the organization's row to the end of the transaction, so that two changes of one organization's settings come
 * one after the other. Throws where there is no such organization.
 */
export async function lockOrganization(tx: Queryable, organizationId: string): Promise<void> {
  await tx.kysely
    .selectFrom('agent.organizations')
    .select('id')
    .where('id', '=', organizationId)
    .forUpdate()
    .executeTakeFirstOrThrow()
}
