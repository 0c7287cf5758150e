import type { Context, MiddlewareHandler } from 'hono'
import { getCookie } from 'hono/cookie'
import type { Identity } from '../storage/identity-store.ts'
import type { AppEnv, Hosting, RouteDependencies } from './app-env.ts'
import { HttpProblem } from './problems.ts'

/** What an identity may be allowed to do. */
export type Ability =
  | 'runs.start'
  | 'runs.read'
  | 'runs.cancel_own'
  | 'runs.cancel_any'
  | 'runs.signal_own'
  | 'runs.signal_any'
  | 'approvals.read'
  | 'approvals.answer'
  | 'catalogue.read'
  | 'administration.read'
  | 'administration.change'

const ABILITIES: Readonly<Record<Identity['kind'], readonly Ability[]>> = {
  run: ['runs.start', 'runs.read', 'runs.cancel_own', 'runs.signal_own', 'catalogue.read'],
  approve: ['runs.read', 'approvals.read', 'approvals.answer', 'catalogue.read'],
  view: ['runs.read', 'approvals.read', 'catalogue.read', 'administration.read'],
  admin: [
    'runs.start',
    'runs.read',
    'runs.cancel_own',
    'runs.cancel_any',
    'runs.signal_own',
    'runs.signal_any',
    'approvals.read',
    'approvals.answer',
    'catalogue.read',
    'administration.read',
    'administration.change',
  ],
}

export function may(identity: Identity, ability: Ability): boolean {
  return ABILITIES[identity.kind].includes(ability)
}

/** Refuses before the request is looked at, so that a caller without the right learns nothing from its validation. */
export function requires(...anyOf: readonly Ability[]): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const identity = c.get('identity')
    if (!anyOf.some((ability) => may(identity, ability))) {
      throw new HttpProblem({
        code: 'forbidden',
        detail: `${identity.actor.kind === 'api_key' ? `a key of kind ${identity.kind}` : 'your role'} may not do this`,
        remedy:
          anyOf.includes('approvals.answer') || anyOf.includes('approvals.read')
            ? 'use a key of kind approve or admin'
            : anyOf.includes('runs.start')
              ? 'use a key of kind run or admin'
              : 'use a key of kind admin',
      })
    }
    await next()
  }
}

/** Finds out who asks: a bearer key, or the cookie of a browser session. */
export function authenticate(deps: RouteDependencies): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const header = c.req.header('authorization')
    const cookie = header === undefined ? getCookie(c, deps.hosting.cookieName) : undefined
    const identity =
      header !== undefined
        ? await byKey(deps, header)
        : cookie !== undefined
          ? await deps.identities.authenticateSession(cookie)
          : null
    if (identity === null)
      throw refused(c, deps, header !== undefined ? 'key' : cookie !== undefined ? 'session' : 'nothing')
    c.set('identity', identity)
    c.set('viaCookie', header === undefined)
    if (header === undefined && !isSafe(c.req.method)) requireSameOrigin(c, deps.hosting)
    await next()
  }
}

async function byKey(deps: RouteDependencies, header: string): Promise<Identity | null> {
  const secret = /^Bearer +(\S+)$/i.exec(header)?.[1]
  return secret === undefined ? null : deps.identities.authenticateKey(secret)
}

/** A session that ended is no guess: its browser sends it with everything it asks. */
function refused(c: Context<AppEnv>, deps: RouteDependencies, given: keyof typeof REFUSALS): HttpProblem {
  if (given === 'key') {
    const address = addressOf(c, deps.hosting)
    const wait = deps.limiter.blockedFor(address)
    if (wait !== null) return tooMany(wait)
    deps.limiter.failed(address)
  }
  return new HttpProblem({
    code: 'unauthenticated',
    detail: REFUSALS[given],
    remedy: 'send Authorization: Bearer bk_…, or sign in on the console page',
    headers: { 'www-authenticate': 'Bearer realm="bailiff"' },
  })
}

const REFUSALS = {
  key: 'the key is not valid, or no longer',
  session: 'the session has ended',
  nothing: 'this needs an API key or a console session',
} as const

export function tooMany(seconds: number): HttpProblem {
  return new HttpProblem({
    code: 'too_many_attempts',
    detail: 'too many failed attempts from this address',
    remedy: `wait ${seconds} seconds and use a valid key or link`,
    headers: { 'retry-after': String(seconds) },
  })
}

/**
 * A browser sends a cookie along with whatever asks for it, so that a change needs proof that our own page asked. Every
 * browser says at least one of the two headers; a request without them is none that a session is for.
 */
export function requireSameOrigin(c: Context<AppEnv>, hosting: Hosting): void {
  const site = c.req.header('sec-fetch-site')
  const origin = c.req.header('origin')
  const foreign =
    (site !== undefined && site !== 'same-origin') ||
    (origin !== undefined && URL.parse(origin)?.host !== hostOf(c, hosting))
  if (foreign || (site === undefined && origin === undefined)) {
    throw new HttpProblem({
      code: 'origin_refused',
      detail: 'this change did not come from the console itself',
      remedy: 'use the console page, or an API key in the Authorization header',
    })
  }
}

/** @throws HttpProblem for a name that is not this machine's own, while only this machine is meant to ask */
export function requireOwnHost(hosting: Hosting): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    if (hosting.loopback && !hosting.trustProxy && !isLocalName(hostOf(c, hosting))) {
      throw new HttpProblem({
        code: 'host_refused',
        detail: 'the server listens on this machine alone and was asked for under another name',
        remedy: 'use localhost or 127.0.0.1; behind a proxy, set BAILIFF_TRUST_PROXY=true',
      })
    }
    await next()
  }
}

function isLocalName(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i.test(host)
}

function isSafe(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

function hostOf(c: Context<AppEnv>, hosting: Hosting): string {
  const forwarded = hosting.trustProxy ? lastOf(c.req.header('x-forwarded-host')) : undefined
  return (forwarded ?? c.req.header('host') ?? new URL(c.req.url).host).toLowerCase()
}

export function isSecure(c: Context<AppEnv>, hosting: Hosting): boolean {
  return hosting.trustProxy
    ? lastOf(c.req.header('x-forwarded-proto')) === 'https'
    : new URL(c.req.url).protocol === 'https:'
}

/** Behind a proxy, the last entry is the one the proxy itself wrote; the ones before it are whatever the client claims. */
export function addressOf(c: Context<AppEnv>, hosting: Hosting): string {
  const forwarded = hosting.trustProxy ? lastOf(c.req.header('x-forwarded-for')) : undefined
  return forwarded ?? c.env?.incoming?.socket.remoteAddress ?? 'unknown'
}

function lastOf(list: string | undefined): string | undefined {
  const last = list?.split(',').at(-1)?.trim()
  return last === '' ? undefined : last
}
