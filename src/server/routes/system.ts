import { createRoute, z } from '@hono/zod-openapi'
import { ping } from '../../storage/health.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { HttpProblem } from '../problems.ts'
import { answers, router } from './shapes.ts'

const State = z.object({ status: z.literal('ok') })

const healthz = createRoute({
  method: 'get',
  path: '/healthz',
  summary: 'Whether the process answers',
  security: [],
  responses: answers(200, 'It does', State),
})

const readyz = createRoute({
  method: 'get',
  path: '/readyz',
  summary: 'Whether the database answers too',
  security: [],
  responses: answers(200, 'It does', State),
})

export function systemRoutes({ core }: RouteDependencies): App {
  const routes = router()
  routes.openapi(healthz, (c) => c.json({ status: 'ok' as const }, 200))
  routes.openapi(readyz, async (c) => {
    try {
      await ping(core.database)
    } catch (error) {
      core.logger.warn('the database does not answer', { error })
      throw new HttpProblem(
        { code: 'unavailable', detail: 'the database does not answer', remedy: 'see the log of the server' },
        { cause: error },
      )
    }
    return c.json({ status: 'ok' as const }, 200)
  })
  return routes
}
