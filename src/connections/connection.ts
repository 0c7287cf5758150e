import type { Actor } from '../tools/invocation.ts'

/** `needs_reauth` can be connected again; `revoked` is the end of a connection. */
export type ConnectionState = 'connected' | 'needs_reauth' | 'revoked'

/**
 * Where the secret half of a connection is: `external` with the deployment's {@link SecretSource}; in the vault, typed
 * in by a person (`secret`) or granted by the provider (`oauth2`).
 */
export type ConnectionAuth = 'external' | 'secret' | 'oauth2'

/** An organization's account at a provider. Holds nothing secret. */
export interface Connection {
  readonly id: string
  readonly organizationId: string
  readonly provider: string
  /** Chosen by a person, unique for organization and provider while the connection is not revoked. */
  readonly label: string
  readonly state: ConnectionState
  /** Public settings: hosts, ports, sender addresses. */
  readonly settings: Readonly<Record<string, string>>
  readonly auth: ConnectionAuth
}

/** A connection as a person administers it. Holds nothing secret either. */
export interface ConnectionRecord extends Connection {
  /** The mailbox or user at the provider, for people. */
  readonly account: string | null
  /** What the provider granted, as it spells it. */
  readonly scope: string | null
  /** End of the access token; null for what does not end by itself. */
  readonly expiresAt: Date | null
  /** Why it needs a person; null in every other state. */
  readonly reauthReason: string | null
  readonly createdAt: Date
  readonly changedAt: Date
  /** Null for what was never touched since it was first deployed. */
  readonly changedBy: Actor | null
}

export interface ConnectionStore {
  list(organizationId: string, provider: string): Promise<readonly Connection[]>
}

/** Where a deploy keeps the secret half of its connections: a vault, mounted files, the environment of the process. */
export interface SecretSource {
  read(connectionId: string): Promise<Readonly<Record<string, string>>>
}

/** States from which a connection may come into this one. A revoked connection stays revoked. */
export const LEGAL_FROM: Readonly<Record<ConnectionState, readonly ConnectionState[]>> = {
  connected: ['connected', 'needs_reauth'],
  needs_reauth: ['connected', 'needs_reauth'],
  revoked: ['connected', 'needs_reauth', 'revoked'],
}
