import type { ConnectionResolver, Logger } from '../tools/invoker.ts'
import type { SecretSource } from './connection.ts'
import { type OAuthClient, oauthClient } from './oauth/oauth-client.ts'
import type { SignInStore } from './oauth/sign-in.ts'
import { accessTokens, type Exclusively } from './oauth/tokens.ts'
import { checkProviders, type ConnectionProvider } from './provider.ts'
import type { ConnectionAdministration } from './repository.ts'
import { connectionResolver } from './resolver.ts'
import { type ConnectionSecrets, connectionSecrets, type CredentialStore } from './secrets.ts'
import { type ConnectionService, connectionService, refusedBy } from './service.ts'
import type { KeyProvider } from './vault/key-provider.ts'
import { vaultOver } from './vault/vault.ts'

export interface ConnectionPorts {
  readonly store: ConnectionAdministration
  readonly credentials: CredentialStore
  readonly signIns: SignInStore
  readonly exclusively: Exclusively
  readonly providers: readonly ConnectionProvider[]
  /** Of connections whose secrets the deployment keeps itself. */
  readonly secrets: SecretSource
  /** Null in a process without a vault key. */
  readonly keys: KeyProvider | null
  readonly newId: () => string
  readonly now: () => Date
  readonly logger: Logger
}

/**
 * The parts of connections on one set of stores.
 * @throws ValidationError names every fault of every provider
 */
export function connectionParts(ports: ConnectionPorts): {
  readonly service: ConnectionService
  readonly resolver: ConnectionResolver
} {
  const { store, credentials, exclusively, now } = ports
  const providers = checkProviders(ports.providers)
  const clientOf = clientsOf(providers)
  const vault = ports.keys === null ? null : vaultOver(ports.keys)
  const service = connectionService({ ...ports, providers, clientOf, vault })
  const opened: ConnectionSecrets | null =
    vault === null
      ? null
      : connectionSecrets({
          store: credentials,
          vault,
          clientOf,
          tokens: accessTokens({ vault, exclusively, now }),
        })
  const resolver = connectionResolver({
    store,
    secrets: ports.secrets,
    vault: opened,
    markNeedsReauth: refusedBy(service),
  })
  return { service, resolver }
}

/** One client a provider: what it has read of the provider's metadata is kept. */
function clientsOf(providers: ReadonlyMap<string, ConnectionProvider>): (provider: string) => OAuthClient | null {
  const clients = new Map(
    [...providers.values()].flatMap(({ name, auth }) =>
      auth.kind === 'oauth2' ? [[name, oauthClient(auth)] as const] : [],
    ),
  )
  return (provider) => clients.get(provider) ?? null
}
