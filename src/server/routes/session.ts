import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import type { Identity } from '../../storage/identity-store.ts'
import type { App, AppEnv, RouteDependencies } from '../app-env.ts'
import { addressOf, authenticate, isSecure, requireSameOrigin, tooMany } from '../auth.ts'
import { HttpProblem } from '../problems.ts'
import { SessionBody, SessionSchema } from '../schemas.ts'
import { answers, jsonBody, router } from './shapes.ts'

const signIn = createRoute({
  method: 'post',
  path: '/session',
  summary: 'Exchange a one-time token or an API key for a browser session',
  security: [],
  request: { body: jsonBody(SessionBody) },
  responses: answers(200, 'Who is signed in; the session is in the cookie', SessionSchema),
})

const who = createRoute({
  method: 'get',
  path: '/session',
  summary: 'Who asks, and of which organization',
  responses: answers(200, 'The caller', SessionSchema),
})

const signOut = createRoute({
  method: 'delete',
  path: '/session',
  summary: 'End the browser session',
  responses: answers(200, 'Nothing is signed in any more', z.object({ signedOut: z.literal(true) })),
})

/** A week, so that a phone stays signed in from one approval to the next. */
const SESSION_TTL_S = 7 * 24 * 3600

/** Signing in must work without an identity, so these routes bring their own checks. */
export function sessionRoutes(deps: RouteDependencies): App {
  const { identities, hosting, limiter } = deps
  const routes = router()
  routes.openapi(signIn, async (c) => {
    const address = addressOf(c, hosting)
    const wait = limiter.blockedFor(address)
    if (wait !== null) throw tooMany(wait)
    // Else a foreign page could sign its visitor in as somebody else.
    if (c.req.header('origin') !== undefined || c.req.header('sec-fetch-site') !== undefined)
      requireSameOrigin(c, hosting)
    const body = c.req.valid('json')
    const session =
      'token' in body
        ? await identities.useSignInToken(body.token, SESSION_TTL_S)
        : await identities.openKeySession(body.apiKey, SESSION_TTL_S)
    const identity = session === null ? null : await identities.authenticateSession(session.token)
    if (session === null || identity === null) {
      limiter.failed(address)
      throw notSignedIn('token' in body)
    }
    setCookie(c, hosting.cookieName, session.token, {
      httpOnly: true,
      sameSite: 'Strict',
      path: '/',
      secure: isSecure(c, hosting),
      expires: session.expiresAt,
    })
    return c.json(await sessionJson(deps, identity), 200)
  })
  routes.use('/session', onlyFor(['GET', 'HEAD', 'DELETE'], authenticate(deps)))
  routes.openapi(who, async (c) => c.json(await sessionJson(deps, c.get('identity')), 200))
  routes.openapi(signOut, async (c) => {
    const token = getCookie(c, hosting.cookieName)
    if (token !== undefined) await identities.endSession(token)
    deleteCookie(c, hosting.cookieName, { path: '/' })
    return c.json({ signedOut: true as const }, 200)
  })
  return routes
}

type Middleware = ReturnType<typeof authenticate>

function onlyFor(methods: readonly string[], middleware: Middleware): Middleware {
  return (c: Context<AppEnv>, next) => (methods.includes(c.req.method) ? middleware(c, next) : next())
}

function notSignedIn(withToken: boolean): HttpProblem {
  return withToken
    ? new HttpProblem({
        code: 'unauthenticated',
        detail: 'this link was used already, or its time is over',
        remedy: 'sign in with an API key, or restart the server for a new link',
      })
    : new HttpProblem({
        code: 'unauthenticated',
        detail: 'this key is not valid, or was revoked',
        remedy: 'check the key; a restart of the server prints a new sign-in link',
      })
}

async function sessionJson(
  { core, about }: RouteDependencies,
  identity: Identity,
): Promise<z.input<typeof SessionSchema>> {
  const organization = await core.stores.organizations.get(identity.organizationId)
  if (organization === null)
    throw new HttpProblem({ code: 'unauthenticated', detail: 'the organization is gone', remedy: 'sign in again' })
  return {
    actor: identity.actor,
    kind: identity.kind,
    roles: [...identity.roles],
    organization: {
      slug: organization.slug,
      name: organization.name,
      selfApproval: organization.settings.selfApproval,
    },
    server: about,
  }
}
