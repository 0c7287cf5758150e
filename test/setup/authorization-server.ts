import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Provider } from 'oidc-provider'
import type { ConnectionProvider, OAuth2Auth } from '../../src/connections/provider.ts'
import { authorizationRecords } from './authorization-records.ts'

export const REDIRECT_URI = 'http://127.0.0.1:4400/api/v1/connections/oauth/callback'

/** A real authorization server on loopback, whose one user agrees to everything. */
export interface AuthorizationServer {
  readonly issuer: string
  /** How a deployment names it. */
  readonly provider: ConnectionProvider & { readonly auth: OAuth2Auth }
  /** Requests that reached the token endpoint, by grant type. */
  readonly tokenRequests: readonly string[]
  /** Who signs in from now on. */
  user: string
  /** Runs before the token endpoint answers. */
  beforeToken: () => Promise<void>
  /** Answers of the token endpoint are thrown away and these sent instead, while set. */
  tokenFault: { readonly status: number; readonly body: string } | null
  /** What the browser does: opens the address, signs in, agrees, and is sent back. Answers where to. */
  browse(authorizationUrl: string): Promise<URL>
  /** Ends everything the server has granted. */
  revokeAll(): Promise<void>
  /** Whether an access token is still good. */
  accepts(accessToken: string): Promise<boolean>
  close(): Promise<void>
}

/** Seconds an access token lives. */
export const ACCESS_TTL_S = 300

const CLIENT = { id: 'bailiff', secret: 'client-secret-of-bailiff' } as const

export async function startAuthorizationServer(): Promise<AuthorizationServer> {
  const server = createServer()
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const issuer = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
  const provider = new Provider(issuer, configuration())
  const tokenRequests: string[] = []
  const granted = new Set<string>()
  const state: Pick<AuthorizationServer, 'user' | 'beforeToken' | 'tokenFault'> = {
    user: 'jo@acme.test',
    beforeToken: async () => undefined,
    tokenFault: null,
  }
  const answer = provider.callback()
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.url?.startsWith('/interaction/') === true)
      return agree(provider, { request, response, granted, user: state.user })
    if (request.url === '/token') {
      await state.beforeToken()
      if (state.tokenFault !== null) {
        tokenRequests.push('fault')
        request.resume()
        response.writeHead(state.tokenFault.status, { 'content-type': 'text/html' }).end(state.tokenFault.body)
        return
      }
    }
    await answer(request, response)
  }
  server.on('request', (request, response) => void handle(request, response).catch(() => response.destroy()))
  provider.on('grant.success', ({ oidc }) => void tokenRequests.push(grantTypeOf(oidc)))
  provider.on('grant.error', ({ oidc }) => void tokenRequests.push(`${grantTypeOf(oidc)} refused`))
  return Object.assign(state, {
    issuer,
    provider: {
      name: 'mailbox',
      title: 'Test mailbox',
      auth: {
        kind: 'oauth2',
        issuer,
        clientId: CLIENT.id,
        clientSecret: CLIENT.secret,
        scopes: ['openid', 'email', 'offline_access'],
        parameters: { prompt: 'consent' },
      },
    } as const,
    tokenRequests,
    browse: (url: string) => browse(url),
    async revokeAll() {
      for (const grantId of granted) await provider.Grant.find(grantId).then((grant) => grant?.destroy())
      granted.clear()
    },
    accepts: async (token: string) => (await provider.AccessToken.find(token)) !== undefined,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  })
}

const SIGNING_KEY = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' })

function configuration(): ConstructorParameters<typeof Provider>[1] {
  return {
    adapter: authorizationRecords(),
    jwks: { keys: [{ ...SIGNING_KEY, use: 'sig', alg: 'RS256', kid: 'test' }] },
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: [REDIRECT_URI],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    cookies: { keys: [randomBytes(16).toString('hex')] },
    claims: { openid: ['sub'], email: ['email'] },
    conformIdTokenClaims: false,
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id, email: id }) }),
    features: { devInteractions: { enabled: false }, revocation: { enabled: true, allowedPolicy: async () => true } },
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    ttl: {
      IdToken: 300,
      AccessToken: ACCESS_TTL_S,
      RefreshToken: 86_400,
      Grant: 86_400,
      Session: 600,
      Interaction: 600,
    },
  }
}

interface Agreeing {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly user: string
  /** Ids of what was agreed to. */
  readonly granted: Set<string>
}

async function agree(provider: Provider, { request, response, granted, user }: Agreeing): Promise<void> {
  const { prompt, params } = await provider.interactionDetails(request, response)
  if (prompt.name === 'login') return provider.interactionFinished(request, response, { login: { accountId: user } })
  const grant = new provider.Grant({ accountId: user, clientId: CLIENT.id })
  grant.addOIDCScope(typeof params['scope'] === 'string' ? params['scope'] : '')
  const grantId = await grant.save()
  granted.add(grantId)
  return provider.interactionFinished(request, response, { consent: { grantId } }, { mergeWithLastSubmission: true })
}

function grantTypeOf(oidc: { readonly params?: Record<string, unknown> | undefined }): string {
  return String(oidc.params?.['grant_type'])
}

/** Follows redirects with cookies until it leaves the server. */
async function browse(start: string): Promise<URL> {
  const jar = new Map<string, string>()
  let url = new URL(start)
  const { origin } = url
  for (let hops = 0; hops < 20; hops += 1) {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const set of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
      jar.set(name, value)
    }
    const location = response.headers.get('location')
    if (location === null) throw new Error(`the sign-in stopped with ${response.status}: ${await response.text()}`)
    url = new URL(location, url)
    if (url.origin !== origin) return url
  }
  throw new Error('the sign-in went in circles')
}
