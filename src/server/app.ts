import type { MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { HTTPException } from 'hono/http-exception'
import { DatabaseUnavailable, isUniqueViolation, isUnstorableText } from '../storage/errors.ts'
import { ConflictError, NotFoundError, ValidationError } from '../tools/errors.ts'
import type { Logger } from '../tools/invoker.ts'
import type { App, AppDependencies, AppEnv, RouteDependencies } from './app-env.ts'
import { attemptLimiter } from './attempts.ts'
import { authenticate, requireOwnHost } from './auth.ts'
import { HttpProblem, problemResponse, type ProblemParts } from './problems.ts'
import { approvalRoutes } from './routes/approvals.ts'
import { catalogueRoutes } from './routes/catalogue.ts'
import { connectionCallbackRoutes } from './routes/connection-callback.ts'
import { connectionRoutes } from './routes/connections.ts'
import { deadLetterRoutes } from './routes/dead-letters.ts'
import { keyRoutes } from './routes/keys.ts'
import { laneRoutes } from './routes/lanes.ts'
import { metricsRoutes } from './routes/metrics.ts'
import { pageRoutes } from './routes/pages.ts'
import { personalDataRoutes } from './routes/personal-data.ts'
import { policyRoutes } from './routes/policy.ts'
import { providerJobRoutes } from './routes/provider-jobs.ts'
import { runEventRoutes } from './routes/run-events.ts'
import { runRoutes } from './routes/runs.ts'
import { workflowRoutes } from './routes/workflows.ts'
import { sessionRoutes } from './routes/session.ts'
import { router } from './routes/shapes.ts'
import { systemRoutes } from './routes/system.ts'
import { usageRoutes } from './routes/usage.ts'
import { webhookRoutes } from './routes/webhooks.ts'

export type { About, App, AppDependencies, Hosting } from './app-env.ts'

const MAX_BODY_BYTES = 1024 * 1024
const API = '/api/v1'

/** The HTTP surface. Needs no socket: `app.request()` answers the same. */
export function createApp(dependencies: AppDependencies): App {
  const { core, hosting } = dependencies
  const deps: RouteDependencies = { ...dependencies, limiter: attemptLimiter(() => core.now().getTime()) }
  const app = router()
  app.onError((error) => problemResponse(partsOf(error, core.logger)))
  app.notFound(() =>
    problemResponse({
      code: 'not_found',
      detail: 'there is nothing at this address',
      remedy: `${API}/openapi.json lists every route`,
    }),
  )
  app.use(securityHeaders)
  app.use(requireOwnHost(hosting))
  // Before the common limit on bodies: a vendor's are larger, and are read only as far as their own rules go.
  app.route(API, webhookRoutes(deps))
  app.use(bodyLimit({ maxSize: MAX_BODY_BYTES, onError: tooLarge }))
  app.route('/', systemRoutes(deps))
  if (deps.metrics !== undefined) app.route('/', metricsRoutes(deps, deps.metrics))
  const { inngest } = deps
  if (inngest !== undefined) app.on(['GET', 'POST', 'PUT'], '/api/inngest', (c) => inngest(c.req.raw))
  app.route('/', pageRoutes())
  app.get(`${API}/openapi.json`, (c) => c.json(documentOf(app)))
  app.route(API, sessionRoutes(deps))
  app.route(API, connectionCallbackRoutes(deps))
  app.use(`${API}/*`, authenticate(deps))
  for (const routes of [
    runRoutes,
    runEventRoutes,
    workflowRoutes,
    laneRoutes,
    approvalRoutes,
    catalogueRoutes,
    policyRoutes,
    connectionRoutes,
    providerJobRoutes,
    keyRoutes,
    usageRoutes,
    deadLetterRoutes,
    personalDataRoutes,
  ])
    app.route(API, routes(deps))
  app.openAPIRegistry.registerComponent('securitySchemes', 'key', {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key (bk_…)',
  })
  app.openAPIRegistry.registerComponent('securitySchemes', 'session', {
    type: 'apiKey',
    in: 'cookie',
    name: hosting.cookieName,
  })
  return app
}

function documentOf(app: App): object {
  return app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Bailiff',
      version: '1',
      description:
        'Governed tool calls for AI agents. Errors are problem details (RFC 9457) with a stable `code` and a `remedy`.',
    },
    security: [{ key: [] }, { session: [] }],
  })
}

const securityHeaders: MiddlewareHandler<AppEnv> = async (c, next) => {
  await next()
  const { headers } = c.res
  const set = (name: string, value: string): void => {
    if (!headers.has(name)) headers.set(name, value)
  }
  set('content-security-policy', "default-src 'none'; frame-ancestors 'none'")
  set('cache-control', 'no-store')
  set('x-content-type-options', 'nosniff')
  set('x-frame-options', 'DENY')
  // The console's address can carry a sign-in token.
  set('referrer-policy', 'no-referrer')
  set('cross-origin-opener-policy', 'same-origin')
  set('cross-origin-resource-policy', 'same-origin')
}

function tooLarge(): Response {
  return problemResponse({
    code: 'payload_too_large',
    detail: 'the body is larger than 1 MB',
    remedy: 'send less; the input of a run is at most 256 kB',
  })
}

/** What leaves through the API about an error. Only texts of our own classes do; a fault says nothing but that it was one. */
function partsOf(error: Error, logger: Logger): ProblemParts {
  if (error instanceof HttpProblem) return error.parts
  if (error instanceof ValidationError)
    return { code: 'invalid_input', detail: error.message, remedy: 'correct the request and send it again' }
  if (error instanceof NotFoundError) return { code: 'not_found', detail: error.message, remedy: 'correct the name' }
  if (error instanceof ConflictError)
    return { code: 'conflict', detail: error.message, remedy: 'read the current state first' }
  if (error instanceof HTTPException) return partsOfHono(error)
  if (isUniqueViolation(error))
    return {
      code: 'conflict',
      detail: 'somebody changed the same thing in the same instant',
      remedy: 'look at the current state and try again',
    }
  if (isUnstorableText(error))
    return {
      code: 'invalid_input',
      detail: 'a text holds a character that cannot be stored',
      remedy: 'leave out NUL characters',
    }
  logger.error('a request failed', { error })
  if (error instanceof DatabaseUnavailable)
    return {
      code: 'unavailable',
      detail: 'the database does not answer',
      remedy: 'try again; the log of the server has the details',
    }
  return {
    code: 'internal_error',
    detail: 'a fault of the server',
    remedy: 'try again; the log of the server has the details',
  }
}

function partsOfHono(error: HTTPException): ProblemParts {
  const status: number = error.status
  switch (status) {
    case 413:
      return { code: 'payload_too_large', detail: 'the body is too large', remedy: 'send less' }
    case 415:
      return {
        code: 'unsupported_media_type',
        detail: 'the body is not JSON',
        remedy: 'send content-type: application/json',
      }
    default:
      return {
        code: 'malformed_request',
        detail: 'the body is not valid JSON',
        remedy: 'send a JSON body with content-type: application/json',
      }
  }
}
