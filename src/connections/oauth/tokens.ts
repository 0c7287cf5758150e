import { ConnectionError, RetryableUpstreamError } from '../../tools/errors.ts'
import type { ConnectionState } from '../connection.ts'
import type { Credentials } from '../repository.ts'
import type { SealedField } from '../vault/sealed.ts'
import type { SealOwner, Vault } from '../vault/vault.ts'
import { ACCESS_TOKEN, credentialsOf, REFRESH_TOKEN } from './grant.ts'
import type { OAuthClient, TokenAnswer } from './oauth-client.ts'

/** The credential of a connection as it is stored. */
export interface StoredCredential {
  readonly state: ConnectionState
  readonly account: string | null
  readonly scope: string | null
  readonly expiresAt: Date | null
  readonly secrets: readonly SealedField[]
}

/** One connection while nobody else can renew it. */
export interface RenewalSession {
  /** As it is now, after any wait for the lock; null when it is gone. */
  read(): Promise<StoredCredential | null>
  /** Stored for good before `exclusively` resolves. */
  save(credentials: Credentials): Promise<void>
  needsReauth(reason: string): Promise<void>
}

/**
 * Lets one worker of one process at a time renew a connection, however many there are. What `work` stored stands when
 * this resolves, and nothing of it when `work` rejects.
 */
export type Exclusively = <T>(owner: SealOwner, work: (session: RenewalSession) => Promise<T>) => Promise<T>

export interface TokenPorts {
  readonly vault: Vault
  readonly exclusively: Exclusively
  readonly now: () => Date
}

/** Renewed this long before its end, so that a call does not meet it on the way. */
const MARGIN_MS = 60_000
/** A renewal holds a connection of the database while the provider answers; a slow provider must not take them all. */
const RENEWALS_AT_ONCE = 3

interface Renewing {
  readonly owner: SealOwner
  readonly provider: string
  /** Null when this deployment does not know the provider (any more). */
  readonly client: OAuthClient | null
}

export interface AccessTokens {
  /**
   * A token that is good for a while yet, renewed if need be: once, whoever asks for it at the same time.
   *
   * @throws ConnectionError `connection_expired` when only a person can go on
   * @throws RetryableUpstreamError when the provider cannot be asked now
   */
  current(renewing: Renewing, stored: StoredCredential): Promise<string>
}

type Renewal =
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'expired' | 'later' | 'misconfigured' }

export function accessTokens(ports: TokenPorts): AccessTokens {
  const inFlight = new Map<string, Promise<Renewal>>()
  const limited = gate(RENEWALS_AT_ONCE)
  const once = (renewing: Renewing): Promise<Renewal> => {
    const { connectionId } = renewing.owner
    const running = inFlight.get(connectionId)
    if (running !== undefined) return running
    const renewal = limited(() => renew(ports, renewing)).finally(() => inFlight.delete(connectionId))
    inFlight.set(connectionId, renewal)
    return renewal
  }
  return {
    async current(renewing, stored) {
      const { owner, provider } = renewing
      if (!lasts(ports, stored, MARGIN_MS)) return tokenOf(await once(renewing), provider)
      const token = await opened(ports, { owner, stored, field: ACCESS_TOKEN })
      if (token === null) throw expired(provider)
      return token
    },
  }
}

function renew(ports: TokenPorts, { owner, client }: Renewing): Promise<Renewal> {
  return ports.exclusively(owner, async (session) => {
    const stored = await session.read()
    if (stored === null || stored.state !== 'connected') return { kind: 'expired' }
    const held = await opened(ports, { owner, stored, field: ACCESS_TOKEN })
    // Whoever had the lock before us has done it.
    if (held !== null && lasts(ports, stored, MARGIN_MS)) return { kind: 'token', token: held }
    const usable: Renewal | null = held !== null && lasts(ports, stored, 0) ? { kind: 'token', token: held } : null
    const refreshToken = await opened(ports, { owner, stored, field: REFRESH_TOKEN })
    if (refreshToken === null) {
      if (usable !== null) return usable
      await session.needsReauth('the access has ended and the provider gave no way to renew it')
      return { kind: 'expired' }
    }
    if (client === null) return usable ?? { kind: 'misconfigured' }
    return settle(ports, await client.refresh(refreshToken), { session, owner, stored, refreshToken, usable })
  })
}

interface Settling {
  readonly session: RenewalSession
  readonly owner: SealOwner
  readonly stored: StoredCredential
  readonly refreshToken: string
  /** The token at hand, while it still works. */
  readonly usable: Renewal | null
}

async function settle(ports: TokenPorts, answer: TokenAnswer, at: Settling): Promise<Renewal> {
  switch (answer.kind) {
    case 'tokens': {
      const tokens = { ...answer.tokens, refreshToken: answer.tokens.refreshToken ?? at.refreshToken }
      const credentials = await credentialsOf(ports.vault, { owner: at.owner, tokens, now: ports.now() })
      const { account, scope } = at.stored
      await at.session.save({ ...credentials, account, scope: credentials.scope ?? scope })
      return { kind: 'token', token: tokens.accessToken }
    }
    case 'refused':
      await at.session.needsReauth(`the provider refused to renew the access (${answer.code})`)
      return { kind: 'expired' }
    case 'later':
    case 'misconfigured':
      return at.usable ?? { kind: answer.kind }
    default:
      return answer satisfies never
  }
}

function lasts({ now }: TokenPorts, { expiresAt }: StoredCredential, marginMs: number): boolean {
  return expiresAt === null || expiresAt.getTime() - marginMs > now().getTime()
}

interface Opening {
  readonly owner: SealOwner
  readonly stored: StoredCredential
  readonly field: string
}

async function opened({ vault }: TokenPorts, { owner, stored, field }: Opening): Promise<string | null> {
  const found = stored.secrets.find((secret) => secret.field === field)
  return found === undefined ? null : vault.open({ ...owner, field }, found)
}

function tokenOf(renewal: Renewal, provider: string): string {
  switch (renewal.kind) {
    case 'token':
      return renewal.token
    case 'expired':
      throw expired(provider)
    case 'later':
      throw new RetryableUpstreamError(`the access to ${provider} could not be renewed now`)
    case 'misconfigured':
      throw new Error(
        `the access to ${provider} cannot be renewed: this deployment is not, or not rightly, set up as its client`,
      )
    default:
      return renewal satisfies never
  }
}

export function expired(provider: string): ConnectionError {
  return new ConnectionError(
    'connection_expired',
    `The ${provider} connection has expired. A person has to connect it again.`,
  )
}

/** Runs so many at a time; the others wait in order. */
function gate(size: number): <T>(work: () => Promise<T>) => Promise<T> {
  let free = size
  const waiting: (() => void)[] = []
  return async (work) => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => void waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free += 1
      else next()
    }
  }
}
