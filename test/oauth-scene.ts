import { randomBytes } from 'node:crypto'
import type { ConnectionRecord } from '../src/connections/connection.ts'
import type { SignInOutcome } from '../src/connections/oauth/return.ts'
import { createCore, type Core, type Instrument } from '../src/core.ts'
import type { Database } from '../src/storage/database.ts'
import type { Actor } from '../src/tools/invocation.ts'
import type { ConnectionResolver } from '../src/tools/invoker.ts'
import { type AuthorizationServer, REDIRECT_URI, startAuthorizationServer } from './setup/authorization-server.ts'

export const ADA: Actor = { kind: 'user', id: 'u1', name: 'Ada' }

/** One process as a test sees it. */
export interface OAuthProcess {
  readonly core: Core
  /** What a handler would be given. */
  tokenFor(connectionId: string): Promise<string>
}

/** An organization whose people sign in at a real authorization server. */
export interface OAuthScene extends OAuthProcess {
  readonly server: AuthorizationServer
  readonly organizationId: string
  /** Puts the clock of every process so far ahead of the provider's. */
  ahead(seconds: number): void
  /** Address at the provider. */
  begin(part?: { readonly label?: string; readonly browser?: string }): Promise<string>
  signedIn(url: URL, browser?: string): Promise<SignInOutcome>
  connect(label?: string): Promise<ConnectionRecord>
  /** Another process, on a pool of its own. */
  another(database: Database): Promise<OAuthProcess>
}

export async function oauthScene(database: Database): Promise<OAuthScene> {
  const server = await startAuthorizationServer()
  const vault = { key: randomBytes(32).toString('base64') }
  let aheadMs = 0
  const processOn = async (handle: Database): Promise<OAuthProcess> => {
    const resolvers: ConnectionResolver[] = []
    const instrument: Instrument = (port, implementation) => {
      if (port === 'connections') resolvers.push(implementation as unknown as ConnectionResolver)
      return implementation
    }
    const now = () => new Date(Date.now() + aheadMs)
    const core = await createCore({ database: handle, tools: [], providers: [server.provider], vault, now, instrument })
    return {
      core,
      async tokenFor(connectionId) {
        const credential = await resolvers[0]?.resolve({ organizationId, provider: 'mailbox', connectionId })
        if (Object.keys(credential?.secrets ?? {}).join() !== 'accessToken')
          throw new Error('a handler gets an access token and nothing else')
        return credential?.secrets['accessToken'] ?? ''
      },
    }
  }
  let organizationId = ''
  const here = await processOn(database)
  const { core } = here
  organizationId = (await core.stores.organizations.ensure({ id: core.newId(), slug: 'acme', name: 'Acme' })).id
  const scene: OAuthScene = {
    ...here,
    server,
    organizationId,
    ahead: (seconds) => void (aheadMs = seconds * 1000),
    async begin({ label = 'sales', browser } = {}) {
      const outcome = await core.connections.authorize({
        organizationId,
        provider: 'mailbox',
        label,
        settings: {},
        redirectUri: REDIRECT_URI,
        browser: browser ?? null,
        by: ADA,
      })
      if (outcome.kind !== 'begun') throw new Error(`the sign-in was ${outcome.kind}`)
      return outcome.authorizationUrl
    },
    signedIn: (url, browser) => core.connections.signedIn({ query: url.searchParams, browser: browser ?? null }),
    async connect(label = 'sales') {
      const outcome = await scene.signedIn(await server.browse(await scene.begin({ label })))
      if (outcome.kind !== 'connected') throw new Error(`the sign-in was ${outcome.kind}`)
      return outcome.connection
    },
    another: processOn,
  }
  return scene
}
