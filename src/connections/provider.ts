import type { ZodType } from 'zod'
import { ValidationError } from '../tools/errors.ts'

/** A kind of account that an organization can connect. Tools name it in their `connection`. */
export interface ConnectionProvider {
  /** `^[a-z][a-z0-9_-]{0,62}$`; what tools and connections call it. */
  readonly name: string
  /** For people. */
  readonly title: string
  readonly auth: SecretAuth | OAuth2Auth
  /** Public settings of a connection: texts by name. Absent, there are none. */
  readonly settings?: ZodType<Readonly<Record<string, string>>>
  /** The setting that says which account it is, such as a sender address. */
  readonly account?: string
}

/** An API key, or user and password: a person types them in. */
export interface SecretAuth {
  readonly kind: 'secret'
  readonly fields: readonly SecretField[]
}

export interface SecretField {
  /** As handlers find it in `credential.secrets`. */
  readonly name: string
  readonly title: string
  /** May be left out. */
  readonly optional?: boolean
}

/**
 * OAuth 2.1 authorization code with PKCE. Handlers find a live `accessToken` in `credential.secrets`; the refresh token
 * stays in the vault.
 */
export interface OAuth2Auth {
  readonly kind: 'oauth2'
  /** Exactly as the provider writes it in `iss` and its metadata. */
  readonly issuer: string
  /** Absent, they are read from the metadata of the issuer. */
  readonly endpoints?: {
    readonly authorization: string
    readonly token: string
    readonly revocation?: string
  }
  readonly clientId: string
  /** Absent for a public client. */
  readonly clientSecret?: string
  /** How the client secret is sent; in the body unless it is given. */
  readonly clientAuthentication?: 'basic' | 'post'
  readonly scopes: readonly string[]
  /** Sent with the authorization request: `{ access_type: 'offline', prompt: 'consent' }` and the like. */
  readonly parameters?: Readonly<Record<string, string>>
}

const NAME = /^[a-z][a-z0-9_-]{0,62}$/
const FIELD = /^[A-Za-z][A-Za-z0-9_]{0,62}$/
/** Parameters that the flow itself decides. */
const RESERVED = [
  'client_id',
  'redirect_uri',
  'response_type',
  'response_mode',
  'scope',
  'state',
  'code_challenge',
  'code_challenge_method',
  'request',
  'request_uri',
]

/** @throws ValidationError names every fault of every provider */
export function checkProviders(providers: readonly ConnectionProvider[]): ReadonlyMap<string, ConnectionProvider> {
  const faults = providers.flatMap((provider, index) => [
    ...faultsOf(provider).map((fault) => `provider ${JSON.stringify(provider.name)}: ${fault}`),
    ...(providers.findIndex(({ name }) => name === provider.name) === index
      ? []
      : [`provider ${JSON.stringify(provider.name)}: two providers have this name`]),
  ])
  if (faults.length > 0) throw new ValidationError(faults.join('\n'))
  return new Map(providers.map((provider) => [provider.name, provider]))
}

function faultsOf({ name, auth }: ConnectionProvider): string[] {
  const named = NAME.test(name)
    ? []
    : ['its name is a lower case letter, then lower case letters, digits, hyphens and underscores']
  return [...named, ...(auth.kind === 'secret' ? fieldFaults(auth) : oauthFaults(auth))]
}

function fieldFaults({ fields }: SecretAuth): string[] {
  const names = fields.map(({ name }) => name)
  return [
    ...(fields.length === 0 ? ['it has no secret field'] : []),
    ...names.filter((name) => !FIELD.test(name)).map((name) => `the field name ${JSON.stringify(name)} is not usable`),
    ...(new Set(names).size === names.length ? [] : ['two of its fields have one name']),
  ]
}

function oauthFaults({ issuer, endpoints, clientId, parameters = {} }: OAuth2Auth): string[] {
  const { authorization, token, revocation } = endpoints ?? {}
  const urls = { issuer, authorization, token, revocation }
  return [
    ...Object.entries(urls).flatMap(([what, url]) =>
      url === undefined || isSafeUrl(url) ? [] : [`its ${what} address must be https (http on this machine alone)`],
    ),
    ...(clientId === '' ? ['it has no clientId'] : []),
    ...Object.keys(parameters).flatMap((key) => (RESERVED.includes(key) ? [`its parameter ${key} is not free`] : [])),
  ]
}

function isSafeUrl(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && (url.protocol === 'https:' || isLoopbackUrl(url))
}

/** Addresses of this very machine, which no network sees. */
export function isLoopbackUrl(url: URL): boolean {
  return url.protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname)
}
