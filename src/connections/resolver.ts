import { ConnectionError } from '../tools/errors.ts'
import type { Credential } from '../tools/invocation.ts'
import type { ConnectionRequest, ConnectionResolver } from '../tools/invoker.ts'
import type { Connection, ConnectionStore, SecretSource } from './connection.ts'
import type { ConnectionSecrets } from './secrets.ts'

/** Ids named in the message about several accounts; more would drown the message they stand in. */
const CHOICES_SHOWN = 5

export interface ResolverPorts {
  readonly store: ConnectionStore
  /** Of connections whose secrets the deployment keeps itself. */
  readonly secrets: SecretSource
  /** Of all others; null in a process without a vault. */
  readonly vault: ConnectionSecrets | null
  /** Takes a connection out of use until a person connects it again. */
  readonly markNeedsReauth: ConnectionResolver['refused']
}

/**
 * Finds the account a call acts with. Whether a connection belongs to the organization and the provider is checked
 * here on every call, whatever the store answered; an id that does not is answered like one that does not exist.
 * A fault of the store, the secret source or the vault raises through.
 */
export function connectionResolver(from: ResolverPorts): ConnectionResolver {
  const chosen = async (request: ConnectionRequest): Promise<Connection> => {
    const listed = await from.store.list(request.organizationId, request.provider)
    return usable(choose(owned(listed, request), request))
  }
  return {
    choose: async (request) => (await chosen(request)).id,
    async resolve(request): Promise<Credential> {
      const connection = await chosen(request)
      const { id: connectionId, provider, settings } = connection
      return { connectionId, provider, settings, secrets: await secretsOf(from, connection) }
    },
    refused: (account) => from.markNeedsReauth(account),
  }
}

async function secretsOf({ secrets, vault }: ResolverPorts, connection: Connection): Promise<Credential['secrets']> {
  if (connection.auth === 'external') return secrets.read(connection.id)
  if (vault === null)
    throw new Error(`connection ${connection.id} has its secrets in the vault, and this process has no vault key`)
  return vault.open(connection)
}

function owned(listed: readonly Connection[], request: ConnectionRequest): Connection[] {
  return listed.filter(
    ({ organizationId, provider }) => organizationId === request.organizationId && provider === request.provider,
  )
}

/**
 * Without a choice only a single account that is not revoked will do. An expired one beside a connected one still makes
 * two: picking the connected one would send from another mailbox than yesterday without anybody having decided so.
 */
function choose(connections: readonly Connection[], { connectionId, provider }: ConnectionRequest): Connection {
  if (connectionId !== null) {
    const chosen = connections.find(({ id }) => id === connectionId)
    if (chosen === undefined) throw required(provider)
    return chosen
  }
  const live = connections.filter(({ state }) => state !== 'revoked')
  const [first, ...others] = live.length > 0 ? live : connections.slice(0, 1)
  if (first === undefined) throw required(provider)
  if (others.length === 0) return first
  const choices = live.slice(0, CHOICES_SHOWN).map(({ id, label }) => `${id} (${label})`)
  const rest = live.length > CHOICES_SHOWN ? ` and ${live.length - CHOICES_SHOWN} more` : ''
  throw new ConnectionError(
    'connection_ambiguous',
    `Several ${provider} connections exist and none was chosen: ${choices.join(', ')}${rest}.`,
  )
}

function usable(connection: Connection): Connection {
  const { provider, state } = connection
  if (state === 'connected') return connection
  if (state === 'needs_reauth') {
    throw new ConnectionError(
      'connection_expired',
      `The ${provider} connection has expired. A person has to connect it again.`,
    )
  }
  throw new ConnectionError(
    'connection_revoked',
    `The ${provider} connection was removed. A person has to add a new one.`,
  )
}

function required(provider: string): ConnectionError {
  return new ConnectionError('connection_required', `No such ${provider} connection. A person has to add one.`)
}
