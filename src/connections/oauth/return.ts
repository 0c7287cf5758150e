import type { ConnectionRecord } from '../connection.ts'
import type { ConnectionAdministration } from '../repository.ts'
import type { Vault } from '../vault/vault.ts'
import { credentialsOf } from './grant.ts'
import type { OAuthClient, Tokens } from './oauth-client.ts'
import { finishSignIn, type PendingSignIn, type SignInReturn, type SignInStore, takeSignIn } from './sign-in.ts'

export type SignInOutcome =
  | { readonly kind: 'connected'; readonly connection: ConnectionRecord }
  /** The state is unknown, used or expired. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'other_browser' }
  /** The person or the provider said no. */
  | { readonly kind: 'declined'; readonly code: string }
  | { readonly kind: 'unreachable' }
  /** The client of this deployment is not set up rightly, or the provider is gone from it. */
  | { readonly kind: 'misconfigured'; readonly code: string }
  /** The label was given away while the person signed in. */
  | { readonly kind: 'label_taken' }
  /** It was uninstalled while the person signed in. */
  | { readonly kind: 'gone' }
  /** Somebody else signed in than the connection belongs to: calls would go out in another name. */
  | { readonly kind: 'other_account' }

interface ReturnPorts {
  readonly store: ConnectionAdministration
  readonly signIns: SignInStore
  readonly vault: Vault | null
  readonly clientOf: (provider: string) => OAuthClient | null
  readonly newId: () => string
  readonly now: () => Date
}

export async function returnFromSignIn(ports: ReturnPorts, back: SignInReturn): Promise<SignInOutcome> {
  const { vault, signIns: store } = ports
  if (vault === null) return { kind: 'misconfigured', code: 'no_vault' }
  const taken = await takeSignIn({ store, vault }, back)
  if (taken.kind !== 'taken') return taken
  const { pending, state } = taken
  const client = ports.clientOf(pending.provider)
  if (client === null) return { kind: 'misconfigured', code: 'unknown_provider' }
  const answer = await finishSignIn({ vault }, { pending, state, query: back.query }, client)
  switch (answer.kind) {
    case 'tokens': {
      const outcome = await keep({ ...ports, vault }, pending, answer.tokens)
      // Nobody will use what was granted.
      if (outcome.kind !== 'connected') await client.revoke(answer.tokens.refreshToken ?? answer.tokens.accessToken)
      return outcome
    }
    case 'refused':
      return { kind: 'declined', code: answer.code }
    case 'later':
      return { kind: 'unreachable' }
    case 'misconfigured':
      return { kind: 'misconfigured', code: answer.code }
    default:
      return answer satisfies never
  }
}

type Keeping = ReturnPorts & { readonly vault: Vault }

async function keep(ports: Keeping, pending: PendingSignIn, tokens: Tokens): Promise<SignInOutcome> {
  const { target } = pending
  return target.kind === 'new'
    ? keepNew(ports, { ...pending, target }, tokens)
    : keepAgain(ports, { ...pending, target }, tokens)
}

type PendingFor<Kind> = PendingSignIn & { readonly target: { readonly kind: Kind } }

async function keepNew(ports: Keeping, pending: PendingFor<'new'>, tokens: Tokens): Promise<SignInOutcome> {
  const { organizationId, provider, target, begunBy: by } = pending
  const id = ports.newId()
  const owner = { organizationId, connectionId: id }
  const credentials = await credentialsOf(ports.vault, { owner, tokens, now: ports.now() })
  const { label, settings } = target
  const created = await ports.store.create({ id, organizationId, provider, label, settings, credentials, by })
  return created.kind === 'created' ? { kind: 'connected', connection: created.connection } : { kind: 'label_taken' }
}

async function keepAgain(ports: Keeping, pending: PendingFor<'again'>, tokens: Tokens): Promise<SignInOutcome> {
  const { organizationId, target, begunBy: by } = pending
  const { connectionId } = target
  const found = await ports.store.get(organizationId, connectionId)
  if (found === null) return { kind: 'gone' }
  if (found.account !== null && tokens.account !== null && found.account !== tokens.account)
    return { kind: 'other_account' }
  const owner = { organizationId, connectionId }
  const granted = await credentialsOf(ports.vault, { owner, tokens, now: ports.now() })
  const credentials = { ...granted, account: granted.account ?? found.account }
  const outcome = await ports.store.reconnect({ organizationId, connectionId, credentials, by })
  return outcome.kind === 'changed' ? { kind: 'connected', connection: outcome.connection } : { kind: 'gone' }
}
