import { createRoute, z } from '@hono/zod-openapi'
import { LANES } from '../../runs/lane.ts'
import { DEFAULT_CEILINGS } from '../../runs/definition.ts'
import { SIGNAL_NAME, type WorkflowDefinition } from '../../runs/workflow/definition.ts'
import type { RunRow } from '../../runs/run-store.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { may, requires } from '../auth.ts'
import { HttpProblem } from '../problems.ts'
import { Ceilings, IdParam } from '../schemas.ts'
import { unknownRun } from './runs.ts'
import { answers, jsonBody, router } from './shapes.ts'

/** Nodes have a checker of their own, which says everything that is wrong at once; this is only the outline. */
const WorkflowBody = z
  .strictObject({
    slug: z.string().max(80),
    lane: z.enum(LANES).optional(),
    inputSchema: z.record(z.string(), z.unknown()).optional(),
    ceilings: Ceilings.partial().default({}),
    root: z.unknown().openapi({ description: 'A node: tool, agent, wait, sequence, parallel, branch, map or end' }),
    output: z.unknown().optional(),
  })
  .refine((body) => body.root !== undefined, { path: ['root'], message: 'root is missing' })
  .openapi('WorkflowBody')

const publish = createRoute({
  method: 'post',
  path: '/workflows',
  summary: 'Publish a workflow; a body that has not changed gets no new version',
  middleware: requires('administration.change'),
  request: { body: jsonBody(WorkflowBody) },
  responses: answers(201, 'The version', z.object({ slug: z.string(), version: z.int() })),
})

const signal = createRoute({
  method: 'post',
  path: '/runs/{id}/signals/{name}',
  summary: 'Send a signal to a run of a workflow; one that comes before the wait is kept',
  middleware: requires('runs.signal_own', 'runs.signal_any'),
  request: {
    params: IdParam.extend({ name: z.string().regex(SIGNAL_NAME) }),
    body: {
      required: false,
      content: {
        'application/json': {
          schema: z.strictObject({
            payload: z.unknown().openapi({ description: 'Any JSON, at most 64 kB' }).optional(),
          }),
        },
      },
    },
  },
  responses: answers(200, 'The signal is kept', z.object({ accepted: z.literal(true) })),
})

export function workflowRoutes({ runs }: RouteDependencies): App {
  const routes = router()
  routes.openapi(publish, async (c) => {
    const { ceilings, ...body } = c.req.valid('json')
    const { organizationId, actor } = c.get('identity')
    const given = Object.fromEntries(Object.entries(ceilings).filter(([, value]) => value !== undefined))
    const written = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined))
    const definition = { kind: 'workflow', ...written, ceilings: { ...DEFAULT_CEILINGS, ...given } }
    // `publish` looks at every field before it relies on one.
    const { version } = await runs.publish(organizationId, definition as unknown as WorkflowDefinition, actor)
    return c.json({ slug: body.slug, version }, 201)
  })
  routes.openapi(signal, async (c) => {
    const identity = c.get('identity')
    const { id, name } = c.req.valid('param')
    const run = await find(identity.organizationId, id)
    if (!may(identity, 'runs.signal_any') && run.snapshot.principal.startedBy.id !== identity.actor.id) {
      throw new HttpProblem({
        code: 'forbidden',
        detail: 'this key may send signals only to runs that it started',
        remedy: 'use the key that started the run, or one of kind admin',
      })
    }
    const payload = (c.req.valid('json').payload ?? null) as JsonValue
    const { organizationId, actor: by } = { organizationId: run.organizationId, actor: identity.actor }
    const outcome = await runs.signal({ organizationId, runId: run.id, name, payload, by })
    if (outcome === null) throw unknownRun()
    if (!outcome.accepted)
      throw new HttpProblem({
        code: 'conflict',
        detail: 'the run has ended',
        remedy: 'nothing waits for a signal any more',
        extra: { reason: 'run_ended' },
      })
    return c.json({ accepted: true as const }, 200)
  })

  async function find(organizationId: string, id: string): Promise<RunRow> {
    const run = await runs.get(organizationId, id)
    if (run === null) throw unknownRun()
    return run
  }
  return routes
}
