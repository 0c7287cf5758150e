import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Actor } from '../../tools/invocation.ts'
import type { Sealed } from '../vault/sealed.ts'
import type { Vault } from '../vault/vault.ts'
import type { OAuthClient, TokenAnswer } from './oauth-client.ts'

/** What a sign-in is for: a new connection of this label, or one that is connected again. */
export type SignInTarget =
  | { readonly kind: 'new'; readonly label: string; readonly settings: Readonly<Record<string, string>> }
  | { readonly kind: 'again'; readonly connectionId: string }

/** A sign-in that has begun, as it is stored. */
export interface PendingSignIn {
  /** sha-256 of the state. */
  readonly stateHash: Uint8Array
  readonly organizationId: string
  readonly provider: string
  readonly target: SignInTarget
  readonly redirectUri: string
  /** sha-256 of the browser's cookie; null where it was begun without one. */
  readonly browserHash: Uint8Array | null
  readonly verifier: Sealed
  readonly begunBy: Actor
}

export interface SignInStore {
  /** Removes what has expired, too. Expires by the clock of the database. */
  begin(pending: PendingSignIn, ttlS: number): Promise<{ readonly expiresAt: Date }>
  /** Removes it: of any number of callers with one state, one gets it. Null for one that is unknown, used or expired. */
  take(stateHash: Uint8Array): Promise<PendingSignIn | null>
}

export interface SignInRequest {
  readonly organizationId: string
  readonly provider: string
  readonly target: SignInTarget
  readonly client: OAuthClient
  /** Of this server, exactly as the provider knows it. */
  readonly redirectUri: string
  /** A secret that only the browser of the person has, in a cookie; null for a sign-in that is begun with an API key. */
  readonly browser: string | null
  readonly by: Actor
}

export interface BegunSignIn {
  readonly authorizationUrl: string
  readonly expiresAt: Date
}

export interface SignInPorts {
  readonly store: SignInStore
  readonly vault: Vault
}

const TTL_S = 600
const VERIFIER = 'pkceVerifier'

/** Rejects when the provider's metadata cannot be read. */
export async function beginSignIn({ store, vault }: SignInPorts, request: SignInRequest): Promise<BegunSignIn> {
  const { organizationId, provider, target, client, redirectUri, browser, by } = request
  const state = randomBytes(32).toString('base64url')
  const verifier = randomBytes(32).toString('base64url')
  const authorizationUrl = await client.authorizationUrl({ redirectUri, state, verifier })
  const stateHash = sha256(state)
  const { expiresAt } = await store.begin(
    {
      stateHash,
      organizationId,
      provider,
      target,
      redirectUri,
      browserHash: browser === null ? null : sha256(browser),
      verifier: await vault.seal(placeOf({ organizationId, stateHash }), verifier),
      begunBy: by,
    },
    TTL_S,
  )
  return { authorizationUrl: authorizationUrl.href, expiresAt }
}

/** The browser comes back. */
export interface SignInReturn {
  readonly query: URLSearchParams
  /** The browser's cookie, if it has one. */
  readonly browser: string | null
}

export type TakenSignIn =
  | { readonly kind: 'taken'; readonly pending: PendingSignIn; readonly state: string }
  /** Unknown, used, or expired. */
  | { readonly kind: 'unknown' }
  /** Begun in another browser than the one that came back. */
  | { readonly kind: 'other_browser' }

/** Uses the state up, whatever comes of it. */
export async function takeSignIn({ store }: SignInPorts, { query, browser }: SignInReturn): Promise<TakenSignIn> {
  const [state, ...more] = query.getAll('state')
  if (state === undefined || more.length > 0 || state.length > 200) return { kind: 'unknown' }
  const pending = await store.take(sha256(state))
  if (pending === null) return { kind: 'unknown' }
  const { browserHash } = pending
  const same = browserHash === null || (browser !== null && timingSafeEqual(sha256(browser), browserHash))
  return same ? { kind: 'taken', pending, state } : { kind: 'other_browser' }
}

/** Exchanges the code of a sign-in that was taken. */
export async function finishSignIn(
  { vault }: Pick<SignInPorts, 'vault'>,
  taken: { readonly pending: PendingSignIn; readonly state: string; readonly query: URLSearchParams },
  client: OAuthClient,
): Promise<TokenAnswer> {
  const { pending, state, query } = taken
  const verifier = await vault.open(placeOf(pending), pending.verifier)
  return client.exchange({ redirectUri: pending.redirectUri, state, verifier, query })
}

/** A verifier belongs to its state as a secret to its connection. */
function placeOf({ organizationId, stateHash }: Pick<PendingSignIn, 'organizationId' | 'stateHash'>) {
  return { organizationId, connectionId: Buffer.from(stateHash).toString('hex'), field: VERIFIER }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
