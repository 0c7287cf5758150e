import { createRoute, z } from '@hono/zod-openapi'
import type { ApiKey } from '../../storage/identity-store.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import { unknownId } from '../problems.ts'
import { IdParam, KeyBody, KeySchema, listOf, NewKeySchema } from '../schemas.ts'
import { answers, jsonBody, router } from './shapes.ts'

const list = createRoute({
  method: 'get',
  path: '/keys',
  summary: 'API keys, without their secrets; revoked ones stay listed',
  middleware: requires('administration.change'),
  responses: answers(200, 'All keys', listOf(KeySchema)),
})

const create = createRoute({
  method: 'post',
  path: '/keys',
  summary: 'Make a key. Its secret is in this answer and nowhere else.',
  middleware: requires('administration.change'),
  request: { body: jsonBody(KeyBody) },
  responses: answers(201, 'The key with its secret', NewKeySchema),
})

const revoke = createRoute({
  method: 'delete',
  path: '/keys/{id}',
  summary: 'Revoke a key; the next request with it is refused',
  middleware: requires('administration.change'),
  request: { params: IdParam },
  responses: answers(200, 'The id of the key that is revoked', z.object({ id: z.string() })),
})

/** Keys by kind: `run` starts runs, `approve` answers for people, `admin` does both and administers. */
export function keyRoutes({ identities }: RouteDependencies): App {
  const routes = router()
  routes.openapi(list, async (c) => {
    const keys = await identities.listApiKeys(c.get('identity').organizationId)
    return c.json({ items: keys.map(keyJson), nextCursor: null }, 200)
  })
  routes.openapi(create, async (c) => {
    const { organizationId } = c.get('identity')
    const { id, secret } = await identities.createApiKey({ organizationId, ...c.req.valid('json') })
    const made = (await identities.listApiKeys(organizationId)).find((key) => key.id === id)
    if (made === undefined) throw new Error('the key is gone right after it was made')
    return c.json({ ...keyJson(made), secret }, 201)
  })
  routes.openapi(revoke, async (c) => {
    const { id } = c.req.valid('param')
    if (!(await identities.revokeApiKey(c.get('identity').organizationId, id)))
      throw unknownId('key', 'take the id from GET /api/v1/keys')
    return c.json({ id }, 200)
  })
  return routes
}

function keyJson({ id, kind, name, createdAt, revokedAt }: ApiKey): z.input<typeof KeySchema> {
  return { id, kind, name, createdAt: createdAt.toISOString(), revokedAt: revokedAt?.toISOString() ?? null }
}
