import { sql } from 'kysely'
import { v7 as uuidv7, validate as isUuid } from 'uuid'
import { LEGAL_FROM, type ConnectionRecord } from '../connections/connection.ts'
import type {
  ConnectionAdministration,
  ConnectionFilter,
  CreateOutcome,
  Credentials,
  NewConnection,
  NewConnectionWithSecrets,
  Reconnection,
  StateChange,
  StateOutcome,
} from '../connections/repository.ts'
import { CONNECTION_COLUMNS, sealedRow, toRecord } from './connection-rows.ts'
import type { Database, Queryable } from './database.ts'
import { lockOrganization } from './organization-lock.ts'

export type { ConnectionAdministration, NewConnection } from '../connections/repository.ts'

/** Connections on the service path, which bypasses row-level security: every query names its organization. */
export function connectionStore(database: Database): ConnectionAdministration {
  return {
    list: (organizationId, provider) => listAll(database, organizationId, { provider }),
    listAll: (organizationId, filter = {}) => listAll(database, organizationId, filter),
    get: (organizationId, connectionId) => get(database, { organizationId, connectionId }),
    create: (wanted) => create(database, wanted),
    ensure: (wanted) => ensure(database, wanted),
    setState: (change) => setState(database, change),
    reconnect: (reconnection) => reconnect(database, reconnection),
  }
}

interface ConnectionKey {
  readonly organizationId: string
  readonly connectionId: string
}

async function listAll(
  { kysely }: Queryable,
  organizationId: string,
  { provider, state }: ConnectionFilter,
): Promise<readonly ConnectionRecord[]> {
  let query = kysely
    .selectFrom('agent.connections')
    .select(CONNECTION_COLUMNS)
    .where('organization_id', '=', organizationId)
  if (provider !== undefined) query = query.where('provider', '=', provider)
  if (state !== undefined) query = query.where('state', '=', state)
  const rows = await query.orderBy('provider').orderBy('label').orderBy('id').execute()
  return rows.map(toRecord)
}

async function get(
  { kysely }: Queryable,
  { organizationId, connectionId }: ConnectionKey,
): Promise<ConnectionRecord | null> {
  // The id may come from a path or a command line; the database would answer a fault for what is not a UUID.
  if (!isUuid(connectionId)) return null
  const row = await kysely
    .selectFrom('agent.connections')
    .select(CONNECTION_COLUMNS)
    .where('organization_id', '=', organizationId)
    .where('id', '=', connectionId)
    .executeTakeFirst()
  return row === undefined ? null : toRecord(row)
}

async function create(database: Database, wanted: NewConnection | NewConnectionWithSecrets): Promise<CreateOutcome> {
  const own = 'credentials' in wanted ? wanted : null
  const row = {
    id: own?.id ?? uuidv7(),
    organization_id: wanted.organizationId,
    provider: wanted.provider,
    label: wanted.label,
    state: 'connected' as const,
    settings: JSON.stringify(wanted.settings),
    ...(own === null ? {} : { ...accountOf(own.credentials), changed_by: JSON.stringify(own.by) }),
  }
  return database.transaction(async (tx) => {
    // As `ensure` does: in another order, the two would wait for each other's label and organization.
    await lockOrganization(tx, wanted.organizationId)
    // The empty update makes the statement return the row that is there, whichever of two racers made it.
    const kept = await tx.kysely
      .insertInto('agent.connections')
      .values(row)
      .onConflict((conflict) =>
        conflict
          .columns(LABEL)
          .where('state', '<>', sql.lit('revoked'))
          .doUpdateSet({ label: (eb) => eb.ref('excluded.label') }),
      )
      .returning(CONNECTION_COLUMNS)
      .executeTakeFirstOrThrow()
    if (kept.id !== row.id) return { kind: 'label_taken', connection: toRecord(kept) }
    if (own !== null)
      await replaceSecrets(tx, { organizationId: own.organizationId, connectionId: row.id }, own.credentials)
    return { kind: 'created', connection: toRecord(kept) }
  })
}

/** Under the organization's lock, so that a connection that is revoked in the same instant is not made again. */
function ensure(database: Database, wanted: NewConnection): Promise<ConnectionRecord> {
  const { organizationId, provider, label } = wanted
  const settings = JSON.stringify(wanted.settings)
  return database.transaction(async (tx) => {
    await lockOrganization(tx, organizationId)
    const found = await tx.kysely
      .selectFrom('agent.connections')
      .select(CONNECTION_COLUMNS)
      .where('organization_id', '=', organizationId)
      .where('provider', '=', provider)
      .where('label', '=', label)
      .orderBy((eb) => eb('state', '=', 'revoked'))
      .orderBy('changed_at', 'desc')
      .limit(1)
      .executeTakeFirst()
    if (found?.state === 'revoked') return toRecord(found)
    const kept = await tx.kysely
      .insertInto('agent.connections')
      .values({ id: uuidv7(), organization_id: organizationId, provider, label, state: 'connected', settings })
      .onConflict((conflict) =>
        conflict
          .columns(LABEL)
          .where('state', '<>', sql.lit('revoked'))
          .doUpdateSet({
            settings: (eb) => eb.ref('excluded.settings'),
            changed_at: (eb) =>
              eb
                .case()
                .when('agent.connections.settings', '=', eb.ref('excluded.settings'))
                .then(eb.ref('agent.connections.changed_at'))
                .else(eb.fn<Date>('now'))
                .end(),
          }),
      )
      .returning(CONNECTION_COLUMNS)
      .executeTakeFirstOrThrow()
    return toRecord(kept)
  })
}

function setState(database: Database, change: StateChange): Promise<StateOutcome> {
  const { organizationId, connectionId, state, reason, by } = change
  if (!isUuid(connectionId)) return Promise.resolve({ kind: 'not_found' })
  return database.transaction(async (tx) => {
    if (state === 'revoked') await lockOrganization(tx, organizationId)
    const changed = await tx.kysely
      .updateTable('agent.connections')
      .set({
        state,
        reauth_reason: state === 'needs_reauth' ? (reason ?? null) : null,
        changed_at: (eb) => eb.fn('now'),
        ...(state === 'revoked' ? { expires_at: null } : {}),
        ...(by === undefined ? {} : { changed_by: JSON.stringify(by) }),
      })
      .where('organization_id', '=', organizationId)
      .where('id', '=', connectionId)
      .where('state', 'in', LEGAL_FROM[state])
      .returning(CONNECTION_COLUMNS)
      .executeTakeFirst()
    if (changed === undefined) return stateOf(tx, change)
    if (state === 'revoked') {
      await forgetSecrets(tx, change)
      await forgetSignIns(tx, change)
    }
    return { kind: 'changed', connection: toRecord(changed) }
  })
}

function reconnect(database: Database, { credentials, settings, by, ...key }: Reconnection): Promise<StateOutcome> {
  if (!isUuid(key.connectionId)) return Promise.resolve({ kind: 'not_found' })
  return database.transaction(async (tx) => {
    const changed = await tx.kysely
      .updateTable('agent.connections')
      .set({
        ...accountOf(credentials),
        state: 'connected',
        reauth_reason: null,
        changed_at: (eb) => eb.fn('now'),
        changed_by: JSON.stringify(by),
        ...(settings === undefined ? {} : { settings: JSON.stringify(settings) }),
      })
      .where('organization_id', '=', key.organizationId)
      .where('id', '=', key.connectionId)
      .where('state', 'in', LEGAL_FROM.connected)
      .returning(CONNECTION_COLUMNS)
      .executeTakeFirst()
    if (changed === undefined) return stateOf(tx, key)
    await replaceSecrets(tx, key, credentials)
    return { kind: 'changed', connection: toRecord(changed) }
  })
}

/** Why a conditional change met no row. */
async function stateOf(tx: Queryable, key: ConnectionKey): Promise<StateOutcome> {
  const found = await get(tx, key)
  return found === null ? { kind: 'not_found' } : { kind: 'refused', state: found.state }
}

export async function replaceSecrets(
  tx: Queryable,
  key: ConnectionKey,
  { secrets }: Pick<Credentials, 'secrets'>,
): Promise<void> {
  await forgetSecrets(tx, key)
  if (secrets.length === 0) return
  const owner = { organization_id: key.organizationId, connection_id: key.connectionId }
  await tx.kysely
    .insertInto('agent.connection_secrets')
    .values(secrets.map((secret) => ({ ...owner, field: secret.field, ...sealedRow(secret) })))
    .execute()
}

async function forgetSecrets({ kysely }: Queryable, { organizationId, connectionId }: ConnectionKey): Promise<void> {
  await kysely
    .deleteFrom('agent.connection_secrets')
    .where('organization_id', '=', organizationId)
    .where('connection_id', '=', connectionId)
    .execute()
}

async function forgetSignIns({ kysely }: Queryable, { organizationId, connectionId }: ConnectionKey): Promise<void> {
  await kysely
    .deleteFrom('agent.connection_authorizations')
    .where('organization_id', '=', organizationId)
    .where('connection_id', '=', connectionId)
    .execute()
}

function accountOf({ auth, account, scope, expiresAt }: Credentials) {
  return { auth, account, scope, expires_at: expiresAt }
}

const LABEL = ['organization_id', 'provider', 'label'] as const
