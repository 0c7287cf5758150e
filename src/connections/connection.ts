/** `needs_reauth` can be connected again; `revoked` is the end of a connection. */
export type ConnectionState = 'connected' | 'needs_reauth' | 'revoked'

/** An organization's account at a provider. Holds nothing secret. */
export interface Connection {
  readonly id: string
  readonly organizationId: string
  readonly provider: string
  /** Chosen by a person, unique for organization and provider. */
  readonly label: string
  readonly state: ConnectionState
  /** Public settings: hosts, ports, sender addresses. */
  readonly settings: Readonly<Record<string, string>>
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
