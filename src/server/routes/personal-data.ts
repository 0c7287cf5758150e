import { createRoute, z } from '@hono/zod-openapi'
import type { ErasureOutcome } from '../../runs/erasure.ts'
import { erasureStore } from '../../storage/erasure-store.ts'
import { exportOrganization } from '../../storage/organization-export.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import { HttpProblem } from '../problems.ts'
import { ActorSchema, listOf } from '../schemas.ts'
import { answers, jsonBody, router } from './shapes.ts'

const Counts = z.record(z.string(), z.int()).openapi({ description: 'Rows removed or changed, by table' })

const ErasureSchema = z
  .object({ id: z.uuid(), erasedAt: z.iso.datetime(), erasedBy: ActorSchema, counts: Counts })
  .openapi('Erasure')

const erase = createRoute({
  method: 'post',
  path: '/erasures',
  summary: 'Remove what is held about a person, by their address, from everything but the fact that it was there',
  middleware: requires('administration.change'),
  request: {
    body: jsonBody(
      z
        .strictObject({
          email: z.string().max(512),
          cancelRuns: z.boolean().default(false).openapi({
            description:
              'Cancel the runs that stand in the way; they end at their next boundary, and then it can be asked again',
          }),
        })
        .openapi('ErasureBody'),
    ),
  },
  responses: answers(
    201,
    'What was done, and where the address still stands because a person wrote it there',
    ErasureSchema.omit({ erasedBy: true }).extend({
      remains: z.object({
        definitions: z.array(z.string()),
        rules: z.array(z.string()),
        connections: z.array(z.string()),
        member: z.boolean(),
      }),
    }),
  ),
})

const list = createRoute({
  method: 'get',
  path: '/erasures',
  summary: 'Erasures, newest first; not of whom',
  middleware: requires('administration.read'),
  responses: answers(200, 'All of them', listOf(ErasureSchema)),
})

const exported = createRoute({
  method: 'get',
  path: '/export',
  summary:
    'Everything of the organization but secrets, one JSON text a line: { table, row }; the last is { complete, rows }',
  middleware: requires('administration.change'),
  responses: { 200: { description: 'The lines', content: { 'application/x-ndjson': { schema: z.string() } } } },
})

export function personalDataRoutes({ core, runs, closing }: RouteDependencies): App {
  const store = erasureStore(core.database)
  const routes = router()
  routes.openapi(erase, async (c) => {
    const { organizationId, actor } = c.get('identity')
    const { email, cancelRuns } = c.req.valid('json')
    await core.ledger.flush()
    const outcome = await store.erase({ organizationId, email, by: actor })
    if (outcome.kind === 'open_runs' && cancelRuns)
      for (const runId of outcome.runIds)
        await runs.cancel({ organizationId, runId, reason: 'a person is erased', by: actor })
    const { id, erasedAt, counts, remains } = erasureOf(outcome, cancelRuns)
    const remaining = {
      definitions: [...remains.definitions],
      rules: [...remains.rules],
      connections: [...remains.connections],
      member: remains.member,
    }
    return c.json({ id, erasedAt: erasedAt.toISOString(), counts, remains: remaining }, 201)
  })
  routes.openapi(list, async (c) => {
    const items = await store.list(c.get('identity').organizationId)
    return c.json(
      { items: items.map((item) => ({ ...item, erasedAt: item.erasedAt.toISOString() })), nextCursor: null },
      200,
    )
  })
  routes.openapi(exported, async (c) => {
    const { organizationId } = c.get('identity')
    await core.ledger.flush()
    const { readable, writable } = new TransformStream<string, string>()
    const writer = writable.getWriter()
    const end = (): void => void writer.abort().catch(() => undefined)
    closing.addEventListener('abort', end)
    const write = (line: object): Promise<void> => writer.write(`${JSON.stringify(line)}\n`)
    // What is not complete must not look so: the last line says that it is, and a fault tears the stream.
    exportOrganization(core.database, { organizationId, write })
      .then(async (report) => {
        await write({ complete: true, rows: { ...report?.rows } })
        await writer.close()
      })
      .catch(async (error: unknown) => {
        core.logger.warn('an export ended early', { error })
        await writer.abort(error).catch(() => undefined)
      })
      .finally(() => closing.removeEventListener('abort', end))
    const headers = {
      'content-type': 'application/x-ndjson',
      'content-disposition': 'attachment; filename="bailiff-export.ndjson"',
    }
    // The types of the router take every content type with json in its name for one JSON text.
    return new Response(readable.pipeThrough(new TextEncoderStream()), { headers }) as never
  })
  return routes
}

/** @throws HttpProblem unless it was done */
function erasureOf(outcome: ErasureOutcome, cancelled: boolean) {
  switch (outcome.kind) {
    case 'erased':
      return outcome.erasure
    case 'no_address':
      throw new HttpProblem({
        code: 'invalid_input',
        detail: 'email: this is no email address',
        remedy: 'write the address alone, as in ann@acme.test',
      })
    case 'open_runs':
      throw new HttpProblem({
        code: 'conflict',
        detail: `${outcome.runIds.length} runs that have not ended hold this address`,
        remedy: cancelled
          ? 'they were cancelled; ask again when they have ended'
          : 'wait until they have ended, or send { "cancelRuns": true }',
        extra: { runIds: outcome.runIds.slice(0, 1_000), cancelled },
      })
  }
}
