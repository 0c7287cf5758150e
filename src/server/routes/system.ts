import { createRoute, z } from '@hono/zod-openapi'
import type { App, RouteDependencies } from '../app-env.ts'
import { HttpProblem } from '../problems.ts'
import { readinessOf } from '../readiness.ts'
import { answers, router } from './shapes.ts'

const Alive = z.object({ status: z.literal('ok') })

const Ready = z.object({
  status: z.enum(['ok', 'degraded']),
  reasons: z.array(z.object({ check: z.string(), message: z.string() })),
})

const healthz = createRoute({
  method: 'get',
  path: '/healthz',
  summary: 'Whether the process answers',
  security: [],
  responses: answers(200, 'It does', Alive),
})

const readyz = createRoute({
  method: 'get',
  path: '/readyz',
  summary: 'Whether requests should be sent here',
  security: [],
  responses: answers(200, 'They should; `degraded` asks for somebody to look', Ready),
})

export function systemRoutes({ core, readiness: given }: RouteDependencies): App {
  const routes = router()
  const taking = { state: 'taking', lastSweepAt: null } as const
  const readiness = given ?? readinessOf({ database: core.database, engine: () => taking, logger: core.logger })
  routes.openapi(healthz, (c) => c.json({ status: 'ok' as const }, 200))
  routes.openapi(readyz, async (c) => {
    const { state, reasons } = await readiness.report()
    if (state !== 'unready') return c.json({ status: state, reasons: [...reasons] }, 200)
    throw new HttpProblem({
      code: 'unavailable',
      detail: reasons.map(({ message }) => message).join('; '),
      remedy: 'send requests to another process, or see the log of this one',
      extra: { reasons: reasons.map(({ check, message }) => ({ check, message })) },
      headers: { 'retry-after': '1' },
    })
  })
  return routes
}
