import { getCookie } from 'hono/cookie'
import { html } from 'hono/html'
import type { App, RouteDependencies } from '../app-env.ts'
import { signInPage } from '../connection-problems.ts'
import { signInCookie } from './connections.ts'
import { router } from './shapes.ts'

/**
 * Where a provider sends the browser back to. Nobody is signed in here: the state, which works once, says what was begun
 * and by whom. The provider's own words are not shown.
 */
export function connectionCallbackRoutes({ core, hosting }: RouteDependencies): App {
  const routes = router()
  routes.openAPIRegistry.registerPath({
    method: 'get',
    path: '/connections/oauth/callback',
    summary: 'Where a provider sends the browser back to after a sign-in',
    security: [],
    responses: {
      200: { description: 'A page for the person' },
      default: { description: 'A page that says what failed' },
    },
  })
  routes.get('/connections/oauth/callback', async (c) => {
    const outcome = await core.connections.signedIn({
      query: new URL(c.req.url).searchParams,
      browser: getCookie(c, signInCookie(hosting.cookieName)) ?? null,
    })
    const { status, title, text } = signInPage(outcome)
    const page = html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width" />
          <title>${title}</title>
        </head>
        <body>
          <h1>${title}</h1>
          <p>${text}</p>
          <p><a href="/">Go to the console</a></p>
        </body>
      </html>`
    return c.html(page, status)
  })
  return routes
}
