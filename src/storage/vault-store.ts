import { sql } from 'kysely'
import type { SealedField } from '../connections/vault/sealed.ts'
import type { SealOwner } from '../connections/vault/vault.ts'
import type { SecretStore, StoredSecret } from '../connections/vault/rotation.ts'
import type { CredentialStore } from '../connections/secrets.ts'
import type { StoredCredential } from '../connections/oauth/tokens.ts'
import { SEALED_COLUMNS, sealedRow, toSealed } from './connection-rows.ts'
import type { Queryable } from './database.ts'

/** The secret half of connections, for the calls that use it. */
export function credentialStore(database: Queryable): CredentialStore {
  return { read: (owner) => readCredential(database, owner) }
}

/** One statement: a token never comes with the expiry of another. */
export async function readCredential(
  { kysely }: Queryable,
  { organizationId, connectionId }: SealOwner,
): Promise<StoredCredential | null> {
  const rows = await kysely
    .selectFrom('agent.connections as c')
    .innerJoin('agent.connection_secrets as s', (join) =>
      join.onRef('s.organization_id', '=', 'c.organization_id').onRef('s.connection_id', '=', 'c.id'),
    )
    .select(['c.state', 'c.account', 'c.scope', 'c.expires_at', 's.field'])
    .select(SEALED_COLUMNS)
    .where('c.organization_id', '=', organizationId)
    .where('c.id', '=', connectionId)
    .execute()
  const [first] = rows
  if (first === undefined) return null
  const secrets = rows.map((row): SealedField => ({ field: row.field, ...toSealed(row) }))
  return { state: first.state, account: first.account, scope: first.scope, expiresAt: first.expires_at, secrets }
}

/** Every sealed secret of every organization, for the rotation of keys. */
export function secretStore({ kysely }: Queryable): SecretStore {
  return {
    async countByKey() {
      const rows = await kysely
        .selectFrom('agent.connection_secrets')
        .select(['kek_id', (eb) => eb.fn.countAll<number>().as('secrets')])
        .groupBy('kek_id')
        .orderBy('kek_id')
        .execute()
      return rows.map((row) => ({ keyId: row.kek_id, secrets: row.secrets }))
    },

    async sealedOtherwise(keyId, { limit, after }) {
      let query = kysely
        .selectFrom('agent.connection_secrets')
        .select(['organization_id', 'connection_id', 'field'])
        .select(SEALED_COLUMNS)
        .where('kek_id', '<>', keyId)
      if (after !== null) {
        const { organizationId, connectionId, field } = after
        query = query.where(
          sql<boolean>`(organization_id, connection_id, field) > (${organizationId}, ${connectionId}, ${field})`,
        )
      }
      const rows = await query
        .orderBy('organization_id')
        .orderBy('connection_id')
        .orderBy('field')
        .limit(limit)
        .execute()
      return rows.map((row): StoredSecret => ({
        organizationId: row.organization_id,
        connectionId: row.connection_id,
        field: row.field,
        ...toSealed(row),
      }))
    },

    async replace(was, now) {
      const { organizationId, connectionId, field } = was
      const { numUpdatedRows } = await kysely
        .updateTable('agent.connection_secrets')
        .set({ ...sealedRow(now), rotated_at: (eb) => eb.fn('now') })
        .where('organization_id', '=', organizationId)
        .where('connection_id', '=', connectionId)
        .where('field', '=', field)
        // A data key is wrapped once, so its wrapped form names the version that was read.
        .where('wrapped_dek', '=', Buffer.from(was.wrappedKey))
        .executeTakeFirst()
      return numUpdatedRows > 0n
    },
  }
}
