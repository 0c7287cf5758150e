import { ConnectionError } from '../tools/errors.ts'
import type { Credential } from '../tools/invocation.ts'
import type { ConnectionRequest, ConnectionResolver } from '../tools/invoker.ts'
import type { Connection, ConnectionStore, SecretSource } from './connection.ts'

/** Ids named in the message about several accounts; more would drown the message they stand in. */
const CHOICES_SHOWN = 5

/**
 * Finds the account a call acts with. Whether a connection belongs to the organization and the provider is checked
 * here on every call, whatever the store answered; an id that does not is answered like one that does not exist.
 * A fault of the store or the secret source raises through.
 */
export function connectionResolver(from: { store: ConnectionStore; secrets: SecretSource }): ConnectionResolver {
  return {
    async resolve(request): Promise<Credential> {
      const listed = await from.store.list(request.organizationId, request.provider)
      const connection = usable(choose(owned(listed, request), request))
      const secrets = await from.secrets.read(connection.id)
      return { connectionId: connection.id, provider: connection.provider, settings: connection.settings, secrets }
    },
  }
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
