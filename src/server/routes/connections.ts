import { randomBytes } from 'node:crypto'
import { createRoute, type z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { getCookie, setCookie } from 'hono/cookie'
import type { ConnectionRecord } from '../../connections/connection.ts'
import type { AuthorizeOutcome, ConnectOutcome } from '../../connections/service.ts'
import type { App, AppEnv, RouteDependencies } from '../app-env.ts'
import { isSecure, requires } from '../auth.ts'
import { connectionProblem, unknownConnection } from '../connection-problems.ts'
import {
  AuthorizationSchema,
  AuthorizeBody,
  ConnectBody,
  connectionJson,
  ConnectionQuery,
  ConnectionSchema,
  providerJson,
  ProviderSchema,
  ReconnectBody,
  ReconnectionSchema,
} from '../connection-schemas.ts'
import { IdParam, listOf } from '../schemas.ts'
import { answers, jsonBody, router } from './shapes.ts'

const list = createRoute({
  method: 'get',
  path: '/connections',
  summary: 'Connections of the organization, without their secrets; revoked ones stay listed',
  middleware: requires('administration.read'),
  request: { query: ConnectionQuery },
  responses: answers(200, 'All connections', listOf(ConnectionSchema)),
})

const providers = createRoute({
  method: 'get',
  path: '/connections/providers',
  summary: 'What can be connected, and what each takes',
  middleware: requires('administration.read'),
  responses: answers(200, 'All providers', listOf(ProviderSchema)),
})

const show = createRoute({
  method: 'get',
  path: '/connections/{id}',
  summary: 'One connection, without its secrets',
  middleware: requires('administration.read'),
  request: { params: IdParam },
  responses: answers(200, 'The connection', ConnectionSchema),
})

const create = createRoute({
  method: 'post',
  path: '/connections',
  summary: 'Connect an account with an API key, or with user and password. No answer holds them again.',
  middleware: requires('administration.change'),
  request: { body: jsonBody(ConnectBody) },
  responses: answers(201, 'The connection', ConnectionSchema),
})

const authorize = createRoute({
  method: 'post',
  path: '/connections/authorize',
  summary: 'Begin a sign-in at a provider; a person opens the address within ten minutes',
  middleware: requires('administration.change'),
  request: { body: jsonBody(AuthorizeBody) },
  responses: answers(201, 'Where the person signs in', AuthorizationSchema),
})

const reconnect = createRoute({
  method: 'post',
  path: '/connections/{id}/reconnect',
  summary: 'Connect an account again: with new secrets, or by a sign-in at the provider',
  middleware: requires('administration.change'),
  request: { params: IdParam, body: jsonBody(ReconnectBody) },
  responses: answers(200, 'The connection, or where the person signs in', ReconnectionSchema),
})

const revoke = createRoute({
  method: 'post',
  path: '/connections/{id}/revoke',
  summary: 'Uninstall a connection: its secrets are deleted, and calls with it are refused from now on',
  middleware: requires('administration.change'),
  request: { params: IdParam },
  responses: answers(200, 'The connection', ConnectionSchema),
})

/** Where providers send browsers back to. Registered with each of them, so it never changes. */
export const CALLBACK_PATH = '/api/v1/connections/oauth/callback'

/** Connecting and uninstalling accounts. Secrets come in here and go out nowhere. */
export function connectionRoutes(deps: RouteDependencies): App {
  const { connections } = deps.core
  const routes = router()
  routes.openapi(list, async (c) => {
    const found = await connections.list(c.get('identity').organizationId, c.req.valid('query'))
    return c.json({ items: found.map(connectionJson), nextCursor: null }, 200)
  })
  routes.openapi(providers, (c) => c.json({ items: connections.providers().map(providerJson), nextCursor: null }, 200))
  routes.openapi(show, async (c) => {
    const found = await connections.get(c.get('identity').organizationId, c.req.valid('param').id)
    if (found === null) throw unknownConnection()
    return c.json(connectionJson(found), 200)
  })
  routes.openapi(create, async (c) => {
    const { organizationId, actor: by } = c.get('identity')
    return c.json(
      connectionJson(connected(await connections.connect({ ...c.req.valid('json'), organizationId, by }))),
      201,
    )
  })
  routes.openapi(authorize, async (c) =>
    c.json(begun(await connections.authorize({ ...c.req.valid('json'), ...signInOf(c, deps) })), 201),
  )
  routes.openapi(reconnect, async (c) => {
    const { organizationId, actor: by } = c.get('identity')
    const { id: connectionId } = c.req.valid('param')
    const { secrets, settings } = c.req.valid('json')
    if (secrets !== undefined) {
      const request = { organizationId, connectionId, secrets, by, ...(settings === undefined ? {} : { settings }) }
      const connection = connected(await connections.reconnect(request))
      return c.json({ connection: connectionJson(connection), authorization: null }, 200)
    }
    const authorization = begun(await connections.reauthorize({ connectionId, ...signInOf(c, deps) }))
    const found = await connections.get(organizationId, connectionId)
    if (found === null) throw unknownConnection()
    return c.json({ connection: connectionJson(found), authorization }, 200)
  })
  routes.openapi(revoke, async (c) => {
    const { organizationId, actor } = c.get('identity')
    const outcome = await connections.revoke(organizationId, c.req.valid('param').id, actor)
    if (outcome.kind !== 'changed') throw connectionProblem(outcome)
    return c.json(connectionJson(outcome.connection), 200)
  })
  return routes
}

function connected(outcome: ConnectOutcome): ConnectionRecord {
  if (outcome.kind !== 'connected') throw connectionProblem(outcome)
  return outcome.connection
}

function begun(outcome: AuthorizeOutcome): z.input<typeof AuthorizationSchema> {
  if (outcome.kind !== 'begun') throw connectionProblem(outcome)
  return { authorizationUrl: outcome.authorizationUrl, expiresAt: outcome.expiresAt.toISOString() }
}

/** What every sign-in carries. One that a browser begins has to come back to the same browser. */
function signInOf(c: Context<AppEnv>, deps: RouteDependencies) {
  const { organizationId, actor: by } = c.get('identity')
  const redirectUri = `${deps.hosting.publicUrl}${CALLBACK_PATH}`
  return { organizationId, by, redirectUri, browser: c.get('viaCookie') ? browserOf(c, deps) : null }
}

const SIGN_IN_S = 600

/**
 * A cookie of its own: the session's is strict, so that the browser does not send it when the provider sends it back.
 * Several sign-ins of one browser share it.
 */
function browserOf(c: Context<AppEnv>, { hosting }: RouteDependencies): string {
  const name = signInCookie(hosting.cookieName)
  const secret = getCookie(c, name) ?? randomBytes(32).toString('base64url')
  setCookie(c, name, secret, {
    httpOnly: true,
    sameSite: 'Lax',
    path: '/api/v1/connections',
    secure: isSecure(c, hosting),
    maxAge: SIGN_IN_S,
  })
  return secret
}

export function signInCookie(cookieName: string): string {
  return `${cookieName}_connect`
}
