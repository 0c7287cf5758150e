import type { ZodType } from 'zod'
import type { Actor } from '../tools/invocation.ts'
import type { Logger, RefusedAccount } from '../tools/invoker.ts'
import type { ConnectionRecord, ConnectionState } from './connection.ts'
import { checkLabel, checkSecrets, checkSettings, type InputProblem } from './inputs.ts'
import { REFRESH_TOKEN } from './oauth/grant.ts'
import type { OAuthClient } from './oauth/oauth-client.ts'
import {
  beginSignIn,
  type BegunSignIn,
  type SignInReturn,
  type SignInStore,
  type SignInTarget,
} from './oauth/sign-in.ts'
import { returnFromSignIn, type SignInOutcome } from './oauth/return.ts'
import type { ConnectionProvider } from './provider.ts'
import type { ConnectionAdministration, ConnectionFilter, Credentials, StateOutcome } from './repository.ts'
import type { CredentialStore } from './secrets.ts'
import type { Vault } from './vault/vault.ts'

type Texts = Readonly<Record<string, string>>

export interface ConnectRequest {
  readonly organizationId: string
  readonly provider: string
  readonly label: string
  readonly settings: Texts
  readonly secrets: Texts
  readonly by: Actor
}

export interface ReconnectRequest {
  readonly organizationId: string
  readonly connectionId: string
  readonly secrets: Texts
  /** Absent keeps the settings. */
  readonly settings?: Texts
  readonly by: Actor
}

export interface AuthorizeRequest {
  readonly organizationId: string
  readonly provider: string
  readonly label: string
  readonly settings: Texts
  /** Of this server, exactly as it is registered with the provider. */
  readonly redirectUri: string
  /** A secret in a cookie of the person's browser; null when it is begun with an API key. */
  readonly browser: string | null
  readonly by: Actor
}

export type ReauthorizeRequest = Omit<AuthorizeRequest, 'provider' | 'label' | 'settings'> & {
  readonly connectionId: string
}

/** Why something cannot be begun; the caller, the deployment or the provider has to change something. */
export type Refusal =
  | { readonly kind: 'invalid'; readonly problems: readonly InputProblem[] }
  | { readonly kind: 'unknown_provider'; readonly known: readonly string[] }
  /** It signs in the other way. */
  | { readonly kind: 'other_auth'; readonly auth: ConnectionProvider['auth']['kind'] }
  | { readonly kind: 'label_taken'; readonly connection: ConnectionRecord }
  | { readonly kind: 'refused'; readonly state: ConnectionState }
  | { readonly kind: 'not_found' }
  /** This process has no vault key, so that it takes no secret. */
  | { readonly kind: 'no_vault' }
  /** The provider's metadata cannot be read. */
  | { readonly kind: 'unreachable' }

export type ConnectOutcome = { readonly kind: 'connected'; readonly connection: ConnectionRecord } | Refusal
export type AuthorizeOutcome = ({ readonly kind: 'begun' } & BegunSignIn) | Refusal

/** A provider as a form shows it. */
export interface ProviderView {
  readonly name: string
  readonly title: string
  readonly auth: ConnectionProvider['auth']['kind']
  readonly fields: readonly { readonly name: string; readonly title: string; readonly optional: boolean }[]
  readonly settings: ZodType | null
}

/** Everything people and handlers do to connections. No verb answers a secret. */
export interface ConnectionService {
  providers(): readonly ProviderView[]
  list(organizationId: string, filter?: ConnectionFilter): Promise<readonly ConnectionRecord[]>
  get(organizationId: string, connectionId: string): Promise<ConnectionRecord | null>
  /** With an API key, or user and password. */
  connect(request: ConnectRequest): Promise<ConnectOutcome>
  /** New secrets for the same id; the old ones are gone. */
  reconnect(request: ReconnectRequest): Promise<ConnectOutcome>
  /** The provider refused the credential. Leaves a revoked connection alone; false when there was nothing to change. */
  markNeedsReauth(organizationId: string, connectionId: string, reason: string): Promise<boolean>
  /** The end of a connection: its secrets are deleted with it, and the provider is asked to forget its tokens. */
  revoke(organizationId: string, connectionId: string, by: Actor): Promise<StateOutcome>
  /** Begins a sign-in at the provider for a new connection. */
  authorize(request: AuthorizeRequest): Promise<AuthorizeOutcome>
  /** The same for a connection that is there. */
  reauthorize(request: ReauthorizeRequest): Promise<AuthorizeOutcome>
  /** The browser comes back from the provider. A state works once. */
  signedIn(back: SignInReturn): Promise<SignInOutcome>
}

export interface ServicePorts {
  readonly store: ConnectionAdministration
  readonly credentials: CredentialStore
  readonly signIns: SignInStore
  readonly providers: ReadonlyMap<string, ConnectionProvider>
  readonly clientOf: (provider: string) => OAuthClient | null
  /** Null in a process without a vault key. */
  readonly vault: Vault | null
  readonly newId: () => string
  readonly now: () => Date
  readonly logger: Logger
}

/** Longer ones are cut; a reason may come from a provider. */
const MAX_REASON = 300

export function connectionService(ports: ServicePorts): ConnectionService {
  const { store, providers } = ports
  return {
    providers: () => [...providers.values()].map(viewOf),
    list: (organizationId, filter) => store.listAll(organizationId, filter),
    get: (organizationId, connectionId) => store.get(organizationId, connectionId),
    connect: (request) => connect(ports, request),
    reconnect: (request) => reconnect(ports, request),
    async markNeedsReauth(organizationId, connectionId, reason) {
      const change = {
        organizationId,
        connectionId,
        state: 'needs_reauth' as const,
        reason: reason.slice(0, MAX_REASON),
      }
      return (await store.setState(change)).kind === 'changed'
    },
    revoke: (organizationId, connectionId, by) => revoke(ports, { organizationId, connectionId, by }),
    authorize: (request) => authorize(ports, request),
    reauthorize: (request) => reauthorize(ports, request),
    signedIn: (back) => returnFromSignIn(ports, back),
  }
}

/** For the resolver: what a handler says about an account. */
export function refusedBy(service: ConnectionService): (account: RefusedAccount) => Promise<void> {
  return async ({ organizationId, connectionId, reason }) => {
    await service.markNeedsReauth(organizationId, connectionId, reason)
  }
}

function viewOf({ name, title, auth, settings }: ConnectionProvider): ProviderView {
  const fields = auth.kind === 'secret' ? auth.fields : []
  return {
    name,
    title,
    auth: auth.kind,
    fields: fields.map(({ optional = false, ...field }) => ({ ...field, optional })),
    settings: settings ?? null,
  }
}

async function connect(ports: ServicePorts, request: ConnectRequest): Promise<ConnectOutcome> {
  const { organizationId, by } = request
  const { vault } = ports
  if (vault === null) return { kind: 'no_vault' }
  const provider = ports.providers.get(request.provider)
  if (provider === undefined) return unknownProvider(ports)
  const { auth } = provider
  if (auth.kind !== 'secret') return { kind: 'other_auth', auth: auth.kind }
  const label = checkLabel(request.label)
  const settings = await checkSettings(provider, request.settings)
  const secrets = checkSecrets(auth.fields, request.secrets)
  if (label.kind === 'invalid' || settings.kind === 'invalid' || secrets.kind === 'invalid')
    return invalid(label, settings, secrets)
  const id = ports.newId()
  const created = await ports.store.create({
    id,
    organizationId,
    provider: provider.name,
    label: label.value,
    settings: settings.value,
    credentials: await typedIn(vault, {
      owner: { organizationId, connectionId: id },
      secrets: secrets.value,
      account: accountOf(provider, settings.value),
    }),
    by,
  })
  return created.kind === 'created' ? { kind: 'connected', connection: created.connection } : created
}

async function reconnect(ports: ServicePorts, request: ReconnectRequest): Promise<ConnectOutcome> {
  const { organizationId, connectionId, by } = request
  const { vault, store } = ports
  if (vault === null) return { kind: 'no_vault' }
  const found = await store.get(organizationId, connectionId)
  if (found === null) return { kind: 'not_found' }
  if (found.state === 'revoked') return { kind: 'refused', state: found.state }
  const provider = ports.providers.get(found.provider)
  if (provider === undefined) return unknownProvider(ports)
  const { auth } = provider
  if (auth.kind !== 'secret') return { kind: 'other_auth', auth: auth.kind }
  const settings = await checkSettings(provider, request.settings ?? found.settings)
  const secrets = checkSecrets(auth.fields, request.secrets)
  if (settings.kind === 'invalid' || secrets.kind === 'invalid') return invalid(settings, secrets)
  const outcome = await store.reconnect({
    organizationId,
    connectionId,
    settings: settings.value,
    credentials: await typedIn(vault, {
      owner: { organizationId, connectionId },
      secrets: secrets.value,
      account: accountOf(provider, settings.value),
    }),
    by,
  })
  return outcome.kind === 'changed' ? { kind: 'connected', connection: outcome.connection } : outcome
}

async function authorize(ports: ServicePorts, request: AuthorizeRequest): Promise<AuthorizeOutcome> {
  const { organizationId } = request
  const provider = ports.providers.get(request.provider)
  if (provider === undefined) return unknownProvider(ports)
  const label = checkLabel(request.label)
  const settings = await checkSettings(provider, request.settings)
  if (label.kind === 'invalid' || settings.kind === 'invalid') return invalid(label, settings)
  const taken = (await ports.store.list(organizationId, provider.name)).find(
    (other) => other.label === label.value && other.state !== 'revoked',
  )
  if (taken !== undefined) return { kind: 'label_taken', connection: taken }
  return begin(ports, {
    ...request,
    provider,
    target: { kind: 'new', label: label.value, settings: settings.value },
  })
}

async function reauthorize(ports: ServicePorts, request: ReauthorizeRequest): Promise<AuthorizeOutcome> {
  const { organizationId, connectionId } = request
  const found = await ports.store.get(organizationId, connectionId)
  if (found === null) return { kind: 'not_found' }
  if (found.state === 'revoked') return { kind: 'refused', state: found.state }
  const provider = ports.providers.get(found.provider)
  if (provider === undefined) return unknownProvider(ports)
  return begin(ports, { ...request, provider, target: { kind: 'again', connectionId } })
}

type Begin = Pick<AuthorizeRequest, 'organizationId' | 'redirectUri' | 'browser' | 'by'> & {
  readonly provider: ConnectionProvider
  readonly target: SignInTarget
}

async function begin(ports: ServicePorts, { provider, ...request }: Begin): Promise<AuthorizeOutcome> {
  const { vault, signIns: store, logger } = ports
  if (vault === null) return { kind: 'no_vault' }
  const client = ports.clientOf(provider.name)
  if (client === null) return { kind: 'other_auth', auth: provider.auth.kind }
  try {
    const begun = await beginSignIn({ store, vault }, { ...request, provider: provider.name, client })
    return { kind: 'begun', ...begun }
  } catch (error) {
    // Of the library and of `fetch`; ours and the database's are faults of their own.
    if (!(error instanceof TypeError) && !(error instanceof Error && error.name === 'ClientError')) throw error
    logger.warn('the metadata of an authorization server cannot be read', { provider: provider.name })
    return { kind: 'unreachable' }
  }
}

interface Revoking {
  readonly organizationId: string
  readonly connectionId: string
  readonly by: Actor
}

async function revoke(ports: ServicePorts, { organizationId, connectionId, by }: Revoking): Promise<StateOutcome> {
  const found = await ports.store.get(organizationId, connectionId)
  if (found === null) return { kind: 'not_found' }
  const token = found.auth === 'oauth2' ? await refreshTokenOf(ports, { organizationId, connectionId }) : null
  const outcome = await ports.store.setState({ organizationId, connectionId, state: 'revoked', by })
  // After the fact: whatever the provider answers, the connection is gone here.
  if (token !== null && outcome.kind === 'changed') {
    const forgotten = (await ports.clientOf(found.provider)?.revoke(token)) ?? false
    if (!forgotten) ports.logger.warn('a provider was not told to forget a token', { provider: found.provider })
  }
  return outcome
}

/** Null when there is none, or none that opens: uninstalling must work without the key. */
async function refreshTokenOf(
  { vault, credentials }: ServicePorts,
  owner: { readonly organizationId: string; readonly connectionId: string },
): Promise<string | null> {
  const stored = vault === null ? null : await credentials.read(owner)
  const sealed = stored?.secrets.find(({ field }) => field === REFRESH_TOKEN)
  if (vault === null || sealed === undefined) return null
  return vault.open({ ...owner, field: REFRESH_TOKEN }, sealed).catch(() => null)
}

interface TypedIn {
  readonly owner: { readonly organizationId: string; readonly connectionId: string }
  readonly secrets: Texts
  readonly account: string | null
}

async function typedIn(vault: Vault, { owner, secrets, account }: TypedIn): Promise<Credentials> {
  return { auth: 'secret', secrets: await vault.sealAll(owner, secrets), account, scope: null, expiresAt: null }
}

function accountOf({ account }: ConnectionProvider, settings: Texts): string | null {
  return account !== undefined && Object.hasOwn(settings, account) ? (settings[account] ?? null) : null
}

function unknownProvider({ providers }: ServicePorts): Refusal {
  return { kind: 'unknown_provider', known: [...providers.keys()] }
}

function invalid(
  ...checked: readonly { readonly kind: string; readonly problems?: readonly InputProblem[] }[]
): Refusal {
  return { kind: 'invalid', problems: checked.flatMap(({ problems = [] }) => problems) }
}
