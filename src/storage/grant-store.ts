import { sql } from 'kysely'
import type { Actor } from '../tools/invocation.ts'
import type { Queryable } from './database.ts'

export interface Grant {
  readonly id: string
  readonly definition: string
  readonly tool: string
  readonly grantedAt: Date
  readonly revokedAt: Date | null
}

export interface GrantCommand {
  readonly organizationId: string
  readonly definition: string
  readonly tool: string
  readonly by: Actor
}

export interface GrantStore {
  /** First publication only: a grant that was withdrawn stays withdrawn until a person gives it again. */
  initial(command: GrantCommand & { readonly id: string }): Promise<void>
  grant(command: GrantCommand & { readonly id: string }): Promise<void>
  /** Live for the very next claim; answers how many calls of the tool were in flight when it took effect. */
  revoke(command: GrantCommand): Promise<{ readonly revoked: boolean; readonly inFlight: number }>
  list(organizationId: string, definition?: string): Promise<readonly Grant[]>
}

export function grantStore(database: Queryable): GrantStore {
  return {
    async initial(command) {
      await database.kysely
        .insertInto('agent.grants')
        .values(valuesOf(command))
        .onConflict((conflict) => conflict.columns(['organization_id', 'definition', 'tool']).doNothing())
        .execute()
    },
    async grant(command) {
      await database.kysely
        .insertInto('agent.grants')
        .values(valuesOf(command))
        .onConflict((conflict) =>
          conflict.columns(['organization_id', 'definition', 'tool']).doUpdateSet({
            revoked_at: null,
            revoked_by: null,
            granted_by: JSON.stringify(command.by),
            granted_at: sql<Date>`clock_timestamp()`,
          }),
        )
        .execute()
    },
    async revoke({ organizationId, definition, tool, by }) {
      const revoked = await database.kysely
        .updateTable('agent.grants')
        .set({ revoked_at: sql<Date>`clock_timestamp()`, revoked_by: JSON.stringify(by) })
        .where('organization_id', '=', organizationId)
        .where('definition', '=', definition)
        .where('tool', '=', tool)
        .where('revoked_at', 'is', null)
        .executeTakeFirst()
      const { live } = await database.kysely
        .selectFrom('agent.idempotency_keys as k')
        .innerJoin('agent.runs as r', 'r.id', 'k.run_id')
        .select((eb) => eb.fn.countAll<number>().as('live'))
        .where('k.organization_id', '=', organizationId)
        .where('k.scope', '=', `tool.${tool}`)
        .where('k.status', '=', 'processing')
        .where('k.lease_until', '>', sql<Date>`clock_timestamp()`)
        .where('r.definition', '=', definition)
        .executeTakeFirstOrThrow()
      return { revoked: revoked.numUpdatedRows > 0n, inFlight: live }
    },
    async list(organizationId, definition) {
      let query = database.kysely.selectFrom('agent.grants').selectAll().where('organization_id', '=', organizationId)
      if (definition !== undefined) query = query.where('definition', '=', definition)
      const rows = await query.orderBy('definition').orderBy('tool').execute()
      return rows.map((row) => ({
        id: row.id,
        definition: row.definition,
        tool: row.tool,
        grantedAt: row.granted_at,
        revokedAt: row.revoked_at,
      }))
    },
  }
}

function valuesOf(command: GrantCommand & { readonly id: string }) {
  return {
    id: command.id,
    organization_id: command.organizationId,
    definition: command.definition,
    tool: command.tool,
    granted_by: JSON.stringify(command.by),
  }
}
