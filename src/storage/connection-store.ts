import { v7 as uuidv7, validate as isUuid } from 'uuid'
import { LEGAL_FROM, type Connection, type ConnectionState, type ConnectionStore } from '../connections/connection.ts'
import type { Queryable } from './database.ts'

export interface NewConnection {
  readonly organizationId: string
  readonly provider: string
  readonly label: string
  /** Public settings only; whoever may list connections can read them. */
  readonly settings: Readonly<Record<string, string>>
}

/** `label_taken`: the label names another connection of that provider already, which may be a revoked one. */
export type CreateOutcome =
  | { readonly kind: 'created'; readonly connection: Connection }
  | { readonly kind: 'label_taken'; readonly connection: Connection }

export type StateOutcome =
  | { readonly kind: 'changed'; readonly connection: Connection }
  /** The state it is in cannot lead to the one that was asked for. */
  | { readonly kind: 'refused'; readonly state: ConnectionState }
  | { readonly kind: 'not_found' }

export interface StateChange {
  readonly organizationId: string
  readonly connectionId: string
  readonly state: ConnectionState
}

export interface ConnectionAdministration extends ConnectionStore {
  create(wanted: NewConnection): Promise<CreateOutcome>
  /** Makes the connection, or gives the one of that label these settings. Its state stays: reconnecting is a person's act. */
  ensure(wanted: NewConnection): Promise<Connection>
  /** Conditional on the state it comes from, so that a late failure cannot revive a revoked connection. */
  setState(change: StateChange): Promise<StateOutcome>
}

/** Connections on the service path, which bypasses row-level security: every query names its organization. */
export function connectionStore(database: Queryable): ConnectionAdministration {
  const { kysely } = database
  return {
    async list(organizationId, provider) {
      const rows = await kysely
        .selectFrom('agent.connections')
        .select(COLUMNS)
        .where('organization_id', '=', organizationId)
        .where('provider', '=', provider)
        .orderBy('label')
        .orderBy('id')
        .execute()
      return rows.map(toConnection)
    },

    async create(wanted) {
      const row = rowOf(wanted)
      // The empty update makes the statement return the row that is there, whichever of two racers made it.
      const kept = await kysely
        .insertInto('agent.connections')
        .values(row)
        .onConflict((conflict) => conflict.columns(LABEL).doUpdateSet({ label: (eb) => eb.ref('excluded.label') }))
        .returning(COLUMNS)
        .executeTakeFirstOrThrow()
      return { kind: kept.id === row.id ? 'created' : 'label_taken', connection: toConnection(kept) }
    },

    async ensure(wanted) {
      const kept = await kysely
        .insertInto('agent.connections')
        .values(rowOf(wanted))
        .onConflict((conflict) =>
          conflict.columns(LABEL).doUpdateSet({
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
        .returning(COLUMNS)
        .executeTakeFirstOrThrow()
      return toConnection(kept)
    },

    setState: (change) => setState(database, change),
  }
}

async function setState(
  { kysely }: Queryable,
  { organizationId, connectionId, state }: StateChange,
): Promise<StateOutcome> {
  // The id may come from a path or a command line; the database would answer a fault for what is not a UUID.
  if (!isUuid(connectionId)) return { kind: 'not_found' }
  const changed = await kysely
    .updateTable('agent.connections')
    .set({ state, changed_at: (eb) => eb.fn('now') })
    .where('organization_id', '=', organizationId)
    .where('id', '=', connectionId)
    .where('state', 'in', LEGAL_FROM[state])
    .returning(COLUMNS)
    .executeTakeFirst()
  if (changed !== undefined) return { kind: 'changed', connection: toConnection(changed) }
  const found = await kysely
    .selectFrom('agent.connections')
    .select('state')
    .where('organization_id', '=', organizationId)
    .where('id', '=', connectionId)
    .executeTakeFirst()
  return found === undefined ? { kind: 'not_found' } : { kind: 'refused', state: found.state }
}

function rowOf({ organizationId, provider, label, settings }: NewConnection) {
  return {
    id: uuidv7(),
    organization_id: organizationId,
    provider,
    label,
    state: 'connected' as const,
    settings: JSON.stringify(settings),
  }
}

const LABEL = ['organization_id', 'provider', 'label'] as const

const COLUMNS = ['id', 'organization_id', 'provider', 'label', 'state', 'settings'] as const

interface Row {
  readonly id: string
  readonly organization_id: string
  readonly provider: string
  readonly label: string
  readonly state: ConnectionState
  readonly settings: unknown
}

function toConnection(row: Row): Connection {
  return {
    id: row.id,
    organizationId: row.organization_id,
    provider: row.provider,
    label: row.label,
    state: row.state,
    settings: textsOf(row.settings),
  }
}

/** Settings are written by this module alone, but a row edited by hand must not put a number where a host is expected. */
function textsOf(settings: unknown): Record<string, string> {
  if (typeof settings !== 'object' || settings === null) return {}
  return Object.fromEntries(
    Object.entries(settings).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
