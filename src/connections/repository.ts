import type { Actor } from '../tools/invocation.ts'
import type { ConnectionAuth, ConnectionRecord, ConnectionState, ConnectionStore } from './connection.ts'
import type { SealedField } from './vault/sealed.ts'

export interface NewConnection {
  readonly organizationId: string
  readonly provider: string
  readonly label: string
  /** Public settings only; whoever may list connections can read them. */
  readonly settings: Readonly<Record<string, string>>
}

/** How a connection signs in from now on; its secrets are replaced whole. */
export interface Credentials {
  readonly auth: Exclude<ConnectionAuth, 'external'>
  readonly secrets: readonly SealedField[]
  readonly account: string | null
  readonly scope: string | null
  readonly expiresAt: Date | null
}

/** With an id of its own, because the secrets are sealed for it. */
export interface NewConnectionWithSecrets extends NewConnection {
  readonly id: string
  readonly credentials: Credentials
  readonly by: Actor
}

/** `label_taken`: the label names another live connection of that provider. */
export type CreateOutcome =
  | { readonly kind: 'created'; readonly connection: ConnectionRecord }
  | { readonly kind: 'label_taken'; readonly connection: ConnectionRecord }

export type StateOutcome =
  | { readonly kind: 'changed'; readonly connection: ConnectionRecord }
  /** The state it is in cannot lead to the one that was asked for. */
  | { readonly kind: 'refused'; readonly state: ConnectionState }
  | { readonly kind: 'not_found' }

export interface StateChange {
  readonly organizationId: string
  readonly connectionId: string
  readonly state: ConnectionState
  /** Why a person is needed; kept with `needs_reauth` alone. */
  readonly reason?: string
  readonly by?: Actor
}

export interface Reconnection {
  readonly organizationId: string
  readonly connectionId: string
  readonly credentials: Credentials
  /** Absent keeps the settings. */
  readonly settings?: Readonly<Record<string, string>>
  readonly by: Actor
}

export interface ConnectionFilter {
  readonly provider?: string | undefined
  readonly state?: ConnectionState | undefined
}

/** All rows of connections, without what is sealed in them. */
export interface ConnectionAdministration extends ConnectionStore {
  list(organizationId: string, provider: string): Promise<readonly ConnectionRecord[]>
  /** Of every provider, by provider and label. */
  listAll(organizationId: string, filter?: ConnectionFilter): Promise<readonly ConnectionRecord[]>
  /** Null for an id that is unknown, of another organization, or no id. */
  get(organizationId: string, connectionId: string): Promise<ConnectionRecord | null>
  create(wanted: NewConnection | NewConnectionWithSecrets): Promise<CreateOutcome>
  /**
   * Makes the connection, or gives the live one of that label these settings. Its state stays: reconnecting is a
   * person's act. One that was revoked and has no successor is answered as it is, and stays revoked.
   */
  ensure(wanted: NewConnection): Promise<ConnectionRecord>
  /**
   * Conditional on the state it comes from, so that a late failure cannot revive a revoked connection. Secrets and
   * pending sign-ins go in the transaction that revokes.
   */
  setState(change: StateChange): Promise<StateOutcome>
  /** New secrets for the same id. The old ones are gone when this resolves. */
  reconnect(reconnection: Reconnection): Promise<StateOutcome>
}
