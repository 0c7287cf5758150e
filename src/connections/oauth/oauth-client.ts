import type * as openid from 'openid-client'
import { isLoopbackUrl, type OAuth2Auth } from '../provider.ts'

/** What a token endpoint granted. */
export interface Tokens {
  readonly accessToken: string
  /** Null when none was sent: at a refresh, the one in use stays. */
  readonly refreshToken: string | null
  readonly expiresInS: number | null
  readonly scope: string | null
  /** Who signed in, where an ID token says so. */
  readonly account: string | null
}

/**
 * `refused`: the provider said no, and asking again will not help. `later`: it could not be asked, or could not answer.
 * `misconfigured`: the deployment has to mend its client, whatever the person does.
 */
export type TokenAnswer =
  | { readonly kind: 'tokens'; readonly tokens: Tokens }
  | { readonly kind: 'refused' | 'later' | 'misconfigured'; readonly code: string }

export interface AuthorizationRequest {
  readonly redirectUri: string
  readonly state: string
  readonly verifier: string
}

export interface AuthorizationResponse extends AuthorizationRequest {
  /** As the provider sent the browser back. */
  readonly query: URLSearchParams
}

/** One client at one authorization server. Answers and errors hold no text of the server's but short codes. */
export interface OAuthClient {
  /** Rejects when the provider's metadata cannot be read. */
  authorizationUrl(request: AuthorizationRequest): Promise<URL>
  exchange(response: AuthorizationResponse): Promise<TokenAnswer>
  refresh(refreshToken: string): Promise<TokenAnswer>
  /** Asks the provider to forget a token; false when it offers no way or did not take it. */
  revoke(token: string): Promise<boolean>
}

const TIMEOUT_S = 10

/** Metadata is read at the first use and kept; a failure is not. */
export function oauthClient(auth: OAuth2Auth): OAuthClient {
  let configured: Promise<openid.Configuration> | undefined
  const configuration = (library: typeof openid): Promise<openid.Configuration> => {
    configured ??= configure(library, auth).catch((error: unknown) => {
      configured = undefined
      throw error
    })
    return configured
  }
  const answered = async (
    work: (library: typeof openid, config: openid.Configuration) => Promise<GrantAnswer>,
  ): Promise<TokenAnswer> => {
    const library = await import('openid-client')
    try {
      return { kind: 'tokens', tokens: tokensOf(await work(library, await configuration(library))) }
    } catch (error) {
      return troubleOf(library, error)
    }
  }
  return {
    async authorizationUrl({ redirectUri, state, verifier }) {
      const library = await import('openid-client')
      return library.buildAuthorizationUrl(await configuration(library), {
        ...auth.parameters,
        redirect_uri: redirectUri,
        scope: auth.scopes.join(' '),
        state,
        code_challenge: await library.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      })
    },
    exchange: ({ redirectUri, state, verifier, query }) =>
      answered((library, config) => {
        // Our own address, whatever the request was addressed to: the provider compares it with the one it was given.
        const url = new URL(redirectUri)
        url.search = query.toString()
        return library.authorizationCodeGrant(config, url, { expectedState: state, pkceCodeVerifier: verifier })
      }),
    refresh: (refreshToken) => answered((library, config) => library.refreshTokenGrant(config, refreshToken)),
    async revoke(token) {
      const library = await import('openid-client')
      try {
        const config = await configuration(library)
        if (config.serverMetadata().revocation_endpoint === undefined) return false
        await library.tokenRevocation(config, token)
        return true
      } catch {
        return false
      }
    },
  }
}

async function configure(library: typeof openid, auth: OAuth2Auth): Promise<openid.Configuration> {
  const { issuer, endpoints, clientId, clientSecret } = auth
  const authentication = authenticationOf(library, auth)
  const metadata = clientSecret === undefined ? {} : { client_secret: clientSecret }
  const execute = isLoopbackUrl(new URL(issuer)) ? [library.allowInsecureRequests] : []
  if (endpoints === undefined)
    return library.discovery(new URL(issuer), clientId, metadata, authentication, { execute, timeout: TIMEOUT_S })
  const { authorization, token, revocation } = endpoints
  const server = {
    issuer,
    authorization_endpoint: authorization,
    token_endpoint: token,
    ...(revocation === undefined ? {} : { revocation_endpoint: revocation }),
  }
  const config = new library.Configuration(server, clientId, metadata, authentication)
  config.timeout = TIMEOUT_S
  for (const extension of execute) extension(config)
  return config
}

function authenticationOf(library: typeof openid, auth: OAuth2Auth): openid.ClientAuth {
  if (auth.clientSecret === undefined) return library.None()
  return auth.clientAuthentication === 'basic'
    ? library.ClientSecretBasic(auth.clientSecret)
    : library.ClientSecretPost(auth.clientSecret)
}

type GrantAnswer = openid.TokenEndpointResponse & openid.TokenEndpointResponseHelpers

function tokensOf(answer: GrantAnswer): Tokens {
  const claims = answer.claims()
  const account = claims?.['email'] ?? claims?.['preferred_username'] ?? claims?.sub
  return {
    accessToken: answer.access_token,
    refreshToken: answer.refresh_token ?? null,
    expiresInS: answer.expiresIn() ?? null,
    scope: answer.scope?.slice(0, 2_000) ?? null,
    account: typeof account === 'string' ? account.slice(0, 320) : null,
  }
}

/** Codes of RFC 6749 that a person's next sign-in can mend. */
const REFUSALS = ['invalid_grant', 'access_denied', 'consent_required', 'login_required', 'interaction_required']
const BUSY = ['temporarily_unavailable', 'server_error', 'slow_down']
/** Of the library: no answer, or an answer of something else than the provider, such as the page of a proxy. */
const UNREACHED = ['OAUTH_TIMEOUT', 'OAUTH_ABORT', 'OAUTH_RESPONSE_IS_NOT_CONFORM', 'OAUTH_RESPONSE_IS_NOT_JSON']

function troubleOf(library: typeof openid, error: unknown): Exclude<TokenAnswer, { kind: 'tokens' }> {
  if (error instanceof library.AuthorizationResponseError) return refusalOf(error.error, 400)
  if (error instanceof library.ResponseBodyError) return refusalOf(error.error, error.status)
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  // `fetch` rejects with a TypeError of no code when there is no connection.
  if (error instanceof TypeError && code === undefined) return { kind: 'later', code: 'unreachable' }
  const known = typeof code === 'string' ? codeOf(code) : 'failed'
  if (UNREACHED.includes(known)) return { kind: 'later', code: known }
  return { kind: 'misconfigured', code: known }
}

function refusalOf(code: string, status: number): Exclude<TokenAnswer, { kind: 'tokens' }> {
  if (status >= 500 || status === 429 || BUSY.includes(code)) return { kind: 'later', code: codeOf(code) }
  return { kind: REFUSALS.includes(code) ? 'refused' : 'misconfigured', code: codeOf(code) }
}

/** The server chose it, and it goes into messages and logs. */
function codeOf(code: string): string {
  return /^[A-Za-z_]{1,60}$/.test(code) ? code : 'unknown'
}
