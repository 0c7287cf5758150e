import type { Connection } from './connection.ts'
import { type AccessTokens, expired, type StoredCredential } from './oauth/tokens.ts'
import { ACCESS_TOKEN } from './oauth/grant.ts'
import type { OAuthClient } from './oauth/oauth-client.ts'
import type { SealOwner, Vault } from './vault/vault.ts'

/** Opens the secret half of one connection, for one call. */
export interface ConnectionSecrets {
  /**
   * @throws ConnectionError `connection_expired` when the secrets are gone, or only a person can renew them
   * @throws RetryableUpstreamError when the provider cannot be asked for a new token now
   * @throws VaultFault when what is stored does not open
   */
  open(connection: Connection): Promise<Readonly<Record<string, string>>>
}

export interface CredentialStore {
  /** Null for a connection that is unknown or has no secrets here. */
  read(owner: SealOwner): Promise<StoredCredential | null>
}

interface SecretsPorts {
  readonly store: CredentialStore
  readonly vault: Vault
  readonly tokens: AccessTokens
  readonly clientOf: (provider: string) => OAuthClient | null
}

export function connectionSecrets({ store, vault, tokens, clientOf }: SecretsPorts): ConnectionSecrets {
  return {
    async open({ id, organizationId, provider, auth }) {
      const owner = { organizationId, connectionId: id }
      const stored = await store.read(owner)
      // It was connected a moment ago; whatever happened since, only a person can bring it back.
      if (stored === null || stored.state !== 'connected') throw expired(provider)
      if (auth === 'secret') return vault.openAll(owner, stored.secrets)
      // The refresh token stays here: a handler has no use for it.
      return { [ACCESS_TOKEN]: await tokens.current({ owner, provider, client: clientOf(provider) }, stored) }
    },
  }
}
