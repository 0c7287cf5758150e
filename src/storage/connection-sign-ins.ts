import { sql } from 'kysely'
import type { PendingSignIn, SignInStore, SignInTarget } from '../connections/oauth/sign-in.ts'
import type { Actor } from '../tools/invocation.ts'
import { sealedRow, textsOf, toSealed } from './connection-rows.ts'
import type { Queryable } from './database.ts'

/** Sign-ins at a provider, from the moment they begin until the browser is back. Read by a state nobody can list. */
export function signInStore({ kysely }: Queryable): SignInStore {
  return {
    async begin(pending, ttlS) {
      await kysely.deleteFrom('agent.connection_authorizations').where('expires_at', '<=', clock()).execute()
      const { target } = pending
      const { expires_at: expiresAt } = await kysely
        .insertInto('agent.connection_authorizations')
        .values({
          state_hash: pending.stateHash,
          organization_id: pending.organizationId,
          provider: pending.provider,
          label: target.kind === 'new' ? target.label : null,
          connection_id: target.kind === 'again' ? target.connectionId : null,
          settings: JSON.stringify(target.kind === 'new' ? target.settings : {}),
          redirect_uri: pending.redirectUri,
          browser_hash: pending.browserHash,
          ...sealedRow(pending.verifier),
          begun_by: JSON.stringify(pending.begunBy),
          expires_at: sql<Date>`clock_timestamp() + make_interval(secs => ${ttlS})`,
        })
        .returning('expires_at')
        .executeTakeFirstOrThrow()
      return { expiresAt }
    },

    async take(stateHash) {
      const row = await kysely
        .deleteFrom('agent.connection_authorizations')
        .where('state_hash', '=', Buffer.from(stateHash))
        .returningAll()
        .returning((eb) => eb('expires_at', '>', clock()).as('live'))
        .executeTakeFirst()
      if (row === undefined || !row.live) return null
      return {
        stateHash: row.state_hash,
        organizationId: row.organization_id,
        provider: row.provider,
        target: targetOf(row),
        redirectUri: row.redirect_uri,
        browserHash: row.browser_hash,
        verifier: toSealed(row),
        begunBy: row.begun_by as unknown as Actor,
      } satisfies PendingSignIn
    },
  }
}

interface TargetRow {
  readonly label: string | null
  readonly connection_id: string | null
  readonly settings: unknown
}

function targetOf({ label, connection_id: connectionId, settings }: TargetRow): SignInTarget {
  if (connectionId !== null) return { kind: 'again', connectionId }
  if (label === null) throw new Error('a sign-in is for nothing')
  return { kind: 'new', label, settings: textsOf(settings) }
}

function clock() {
  return sql<Date>`clock_timestamp()`
}
