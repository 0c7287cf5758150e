import { createRoute, z } from '@hono/zod-openapi'
import { usageStore } from '../../storage/usage-store.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import { UsageSchema } from '../schemas.ts'
import { answers, router } from './shapes.ts'

const usage = createRoute({
  method: 'get',
  path: '/usage',
  summary: 'What models and metered tools used, by day (UTC), provider and item; of one run tree with runId',
  middleware: requires('administration.read'),
  request: {
    query: z.object({ days: z.coerce.number().int().min(1).max(400).default(30), runId: z.uuid().optional() }),
  },
  responses: answers(
    200,
    'Totals, newest day first',
    z.object({ items: z.array(UsageSchema), nextCursor: z.null(), totalCostCents: z.number() }),
  ),
})

export function usageRoutes({ core }: RouteDependencies): App {
  const store = usageStore(core.database)
  const routes = router()
  routes.openapi(usage, async (c) => {
    const { days, runId } = c.req.valid('query')
    const totals = await store.totals({
      organizationId: c.get('identity').organizationId,
      days,
      rootRunId: runId ?? null,
    })
    const totalCostCents = totals.reduce((sum, { costCents }) => sum + costCents, 0)
    return c.json({ items: [...totals], nextCursor: null, totalCostCents }, 200)
  })
  return routes
}
