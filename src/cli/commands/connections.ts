import type { z } from 'zod'
import type {
  AuthorizationSchema,
  ConnectionSchema,
  ProviderSchema,
  ReconnectionSchema,
} from '../../server/connection-schemas.ts'
import { type ApiClient, connect as connectTo, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { readSecrets, type SecretStreams } from '../secret-input.ts'
import { fromNow, oneLine, table } from '../text.ts'

export type ConnectionJson = z.output<typeof ConnectionSchema>
type ProviderJson = z.output<typeof ProviderSchema>
type AuthorizationJson = z.output<typeof AuthorizationSchema>
type ReconnectionJson = z.output<typeof ReconnectionSchema>

export interface ConnectOptions {
  readonly label: string
  readonly setting: readonly string[]
}

export interface ConnectionListOptions {
  readonly provider?: string
  readonly state?: string
}

const PATH = '/api/v1/connections'

/** Where secrets are typed in. Never an argument. */
const TERMINAL: SecretStreams = { input: process.stdin, prompts: process.stderr }

export async function connect(context: Context, name: string, options: ConnectOptions): Promise<void> {
  const client = await connectTo(context)
  const provider = await providerOf(client, name)
  const wanted = { provider: provider.name, label: options.label, settings: settingsOf(options.setting) }
  if (provider.auth === 'oauth2')
    return showSignIn(context, await client.post<AuthorizationJson>(`${PATH}/authorize`, wanted))
  const secrets = await readSecrets(provider.fields, TERMINAL)
  const made = await client.post<ConnectionJson>(PATH, { ...wanted, secrets })
  context.answer(made, () => `${made.id} is connected: ${oneLine(made.provider)} ${oneLine(made.label)}`)
}

export async function listConnections(context: Context, options: ConnectionListOptions): Promise<void> {
  const client = await connectTo(context)
  const query = new URLSearchParams()
  if (options.provider !== undefined) query.set('provider', options.provider)
  if (options.state !== undefined) query.set('state', options.state)
  const page = await client.get<ListAnswer<ConnectionJson>>(`${PATH}?${query.toString()}`)
  context.answer(page, () =>
    table([
      ['id', 'provider', 'label', 'state', 'account', 'reason'],
      ...page.items.map(({ id, provider, label, state, account, reauthReason }) => [
        id,
        oneLine(provider),
        oneLine(label),
        state === 'connected' ? state : state.toUpperCase(),
        oneLine(account ?? ''),
        oneLine(reauthReason ?? ''),
      ]),
    ]),
  )
}

export async function revokeConnection(context: Context, id: string): Promise<void> {
  const client = await connectTo(context)
  const revoked = await client.post<ConnectionJson>(`${PATH}/${encodeURIComponent(id)}/revoke`)
  context.answer(revoked, () => `${revoked.id} is revoked; its secrets are deleted`)
}

export async function reconnectConnection(
  context: Context,
  id: string,
  options: { readonly setting: readonly string[] },
): Promise<void> {
  const client = await connectTo(context)
  const path = `${PATH}/${encodeURIComponent(id)}`
  const provider = await providerOf(client, (await client.get<ConnectionJson>(path)).provider)
  const settings = options.setting.length === 0 ? {} : { settings: settingsOf(options.setting) }
  const secrets = provider.auth === 'secret' ? { secrets: await readSecrets(provider.fields, TERMINAL) } : {}
  const answer = await client.post<ReconnectionJson>(`${path}/reconnect`, { ...secrets, ...settings })
  if (answer.authorization !== null) return showSignIn(context, answer.authorization)
  context.answer(answer, () => `${answer.connection.id} is connected again`)
}

function showSignIn(context: Context, begun: AuthorizationJson): void {
  context.answer(
    begun,
    () =>
      `open this address in a browser and sign in (it is good for one sign-in, ${fromNow(begun.expiresAt, Date.now())} at most):\n${oneLine(begun.authorizationUrl)}`,
  )
}

async function providerOf(client: ApiClient, name: string): Promise<ProviderJson> {
  const { items } = await client.get<ListAnswer<ProviderJson>>(`${PATH}/providers`)
  const found = items.find((provider) => provider.name === name)
  if (found !== undefined) return found
  throw new CommandFailed(
    EXIT.notFound,
    `the server offers no provider ${JSON.stringify(oneLine(name))}`,
    items.length === 0
      ? 'its config file names none'
      : `it offers ${items.map((provider) => oneLine(provider.name)).join(', ')}`,
  )
}

function settingsOf(given: readonly string[]): Record<string, string> {
  const entries = given.map((text) => {
    const at = text.indexOf('=')
    if (at < 1)
      throw new CommandFailed(
        EXIT.usage,
        'a --setting has no name',
        'write it as name=value, such as host=mail.acme.test',
      )
    return [text.slice(0, at), text.slice(at + 1)] as const
  })
  return Object.fromEntries(entries)
}
