import type { Exclusively, RenewalSession } from '../connections/oauth/tokens.ts'
import type { SealOwner } from '../connections/vault/vault.ts'
import { replaceSecrets } from './connection-store.ts'
import type { Database, Queryable } from './database.ts'
import { readCredential } from './vault-store.ts'

/**
 * On a shared database the connection's row is locked while the provider answers, in a transaction that carries what it
 * granted: of many processes one asks, and the others read what it stored. The embedded database has one process and
 * one session: the caller's own single flight is enough there, and a transaction would hold up every other statement.
 */
export function exclusiveRenewal(database: Database): Exclusively {
  if (database.dialect === 'pglite')
    return (owner, work) => work(sessionOf(database, { owner, save: (change) => database.transaction(change) }))
  return (owner, work) =>
    database.transaction(async (tx) => {
      await tx.kysely
        .selectFrom('agent.connections')
        .select('id')
        .where('organization_id', '=', owner.organizationId)
        .where('id', '=', owner.connectionId)
        // Keys of other tables may still refer to the row meanwhile.
        .forNoKeyUpdate()
        .executeTakeFirst()
      return work(sessionOf(tx, { owner, save: (change) => change(tx) }))
    })
}

interface SessionParts {
  readonly owner: SealOwner
  readonly save: (change: (tx: Queryable) => Promise<void>) => Promise<void>
}

function sessionOf(handle: Queryable, { owner, save }: SessionParts): RenewalSession {
  const connected = (tx: Queryable) =>
    tx.kysely
      .updateTable('agent.connections')
      .where('organization_id', '=', owner.organizationId)
      .where('id', '=', owner.connectionId)
      // What was revoked while the provider answered stays revoked, without a token.
      .where('state', '=', 'connected')
  return {
    read: () => readCredential(handle, owner),
    save: (credentials) =>
      save(async (tx) => {
        const { expiresAt, scope } = credentials
        const { numUpdatedRows } = await connected(tx).set({ expires_at: expiresAt, scope }).executeTakeFirst()
        if (numUpdatedRows > 0n) await replaceSecrets(tx, owner, credentials)
      }),
    needsReauth: (reason) =>
      save(async (tx) => {
        await connected(tx)
          .set({ state: 'needs_reauth', reauth_reason: reason, changed_at: (eb) => eb.fn('now') })
          .execute()
      }),
  }
}
