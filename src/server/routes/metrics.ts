import { createHash, timingSafeEqual } from 'node:crypto'
import type { MiddlewareHandler } from 'hono'
import type { App, AppEnv, MetricsPage, RouteDependencies } from '../app-env.ts'
import { authenticate, may } from '../auth.ts'
import { HttpProblem } from '../problems.ts'
import { router } from './shapes.ts'

/** No part of the described API: what answers is text for a scraper. */
export function metricsRoutes(deps: RouteDependencies, page: MetricsPage): App {
  const routes = router()
  routes.get('/metrics', onlyScrapers(deps, page), async (c) => {
    const { contentType, text } = await page.render()
    return c.body(text, 200, { 'content-type': contentType })
  })
  return routes
}

/** The figures are of every organization, so that only the deployment's own administrators see them. */
function onlyScrapers(deps: RouteDependencies, { token, organizationId }: MetricsPage): MiddlewareHandler<AppEnv> {
  const byIdentity = authenticate(deps)
  return async (c, next) => {
    const given = /^Bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1]
    if (token !== null && given !== undefined && isSame(given, token)) return next()
    return byIdentity(c, async () => {
      const identity = c.get('identity')
      if (identity.organizationId !== organizationId || !may(identity, 'administration.read'))
        throw new HttpProblem({
          code: 'forbidden',
          detail: 'metrics are for administrators of this deployment',
          remedy: 'use a key of kind admin, or the token of BAILIFF_METRICS_TOKEN',
        })
      await next()
    })
  }
}

/** In the same time wherever they differ. */
function isSame(given: string, token: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(token))
}
