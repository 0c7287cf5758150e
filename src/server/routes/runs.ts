import { createRoute, z } from '@hono/zod-openapi'
import { OPEN_STATUSES } from '../../runs/definition.ts'
import type { RunRow } from '../../runs/run-store.ts'
import type { RunCeilings } from '../../tools/invocation.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { may, requires } from '../auth.ts'
import { runSummaryJson } from '../json.ts'
import { HttpProblem, unknownId } from '../problems.ts'
import { readRun, readTree } from '../run-view.ts'
import {
  IdParam,
  listOf,
  PageQuery,
  RunSchema,
  RunStatusSchema,
  RunSummarySchema,
  SpanSchema,
  StartRunBody,
} from '../schemas.ts'
import { answers, jsonBody, router } from './shapes.ts'

const start = createRoute({
  method: 'post',
  path: '/runs',
  summary: 'Start a run of a published definition',
  middleware: requires('runs.start'),
  request: { body: jsonBody(StartRunBody) },
  responses: answers(201, 'The run, queued', RunSchema),
})

const list = createRoute({
  method: 'get',
  path: '/runs',
  summary: 'Runs, newest first',
  middleware: requires('runs.read'),
  request: {
    query: PageQuery.extend({ status: RunStatusSchema.optional(), definition: z.string().max(80).optional() }),
  },
  responses: answers(200, 'A page of runs', listOf(RunSummarySchema)),
})

const get = createRoute({
  method: 'get',
  path: '/runs/{id}',
  summary: 'One run',
  middleware: requires('runs.read'),
  request: { params: IdParam },
  responses: answers(200, 'The run', RunSchema),
})

const tree = createRoute({
  method: 'get',
  path: '/runs/{id}/tree',
  summary: 'The run with every span, oldest first; parentId makes the tree',
  middleware: requires('runs.read'),
  request: { params: IdParam },
  responses: answers(200, 'The run and its spans', z.object({ run: RunSchema, spans: z.array(SpanSchema) })),
})

const cancel = createRoute({
  method: 'post',
  path: '/runs/{id}/cancel',
  summary: 'Stop a run at its next boundary; a call in flight is not broken off',
  middleware: requires('runs.cancel_own', 'runs.cancel_any'),
  request: {
    params: IdParam,
    body: {
      required: false,
      content: {
        'application/json': { schema: z.strictObject({ reason: z.string().max(500).nullable().default(null) }) },
      },
    },
  },
  responses: answers(200, 'How many calls were in flight', z.object({ accepted: z.literal(true), inFlight: z.int() })),
})

export function runRoutes({ core, runs }: RouteDependencies): App {
  const routes = router()
  routes.openapi(start, async (c) => {
    const { definition, input, ceilings, lane } = c.req.valid('json')
    const { organizationId, actor, roles } = c.get('identity')
    const run = await runs.start({
      organizationId,
      definition,
      input: input as JsonValue,
      startedBy: actor,
      roles,
      source: c.get('viaCookie') ? 'console' : c.req.header('x-bailiff-client') === 'cli' ? 'cli' : 'api',
      ...(lane === undefined ? {} : { lane }),
      ...(ceilings === undefined ? {} : { ceilings: withoutUndefined(ceilings) }),
    })
    c.header('location', `/api/v1/runs/${run.id}`)
    return c.json(await readRun(core, run), 201)
  })
  routes.openapi(list, async (c) => {
    const { status, definition, limit, cursor } = c.req.valid('query')
    const filter = {
      limit,
      cursor: cursor ?? null,
      ...(status === undefined ? {} : { status }),
      ...(definition === undefined ? {} : { definition }),
    }
    const page = await runs.list(c.get('identity').organizationId, filter)
    return c.json({ items: page.items.map(runSummaryJson), nextCursor: page.nextCursor }, 200)
  })
  routes.openapi(get, async (c) => {
    const run = await known(runs, c.get('identity').organizationId, c.req.valid('param').id)
    return c.json(await readRun(core, run), 200)
  })
  routes.openapi(tree, async (c) => {
    const run = await known(runs, c.get('identity').organizationId, c.req.valid('param').id)
    return c.json(await readTree(core, run, c.get('identity')), 200)
  })
  routes.openapi(cancel, async (c) => {
    const identity = c.get('identity')
    const run = await known(runs, identity.organizationId, c.req.valid('param').id)
    if (!may(identity, 'runs.cancel_any') && run.snapshot.principal.startedBy.id !== identity.actor.id) {
      throw new HttpProblem({
        code: 'forbidden',
        detail: 'this key may cancel only runs that it started',
        remedy: 'use the key that started the run, or one of kind admin',
      })
    }
    const reason = c.req.valid('json').reason ?? null
    const outcome = await runs.cancel({ organizationId: run.organizationId, runId: run.id, reason, by: identity.actor })
    if (outcome === null) throw unknownRun()
    if (!outcome.accepted) throw ended(await known(runs, run.organizationId, run.id))
    return c.json({ accepted: true as const, inFlight: outcome.inFlight }, 200)
  })
  return routes
}

async function known(runs: RouteDependencies['runs'], organizationId: string, id: string): Promise<RunRow> {
  const run = await runs.get(organizationId, id)
  if (run === null) throw unknownRun()
  return run
}

export function unknownRun(): HttpProblem {
  return unknownId('run', 'take the id from GET /api/v1/runs')
}

function ended(run: RunRow): HttpProblem {
  const state = OPEN_STATUSES.includes(run.status) ? 'ending' : run.status
  const when = run.endedAt === null ? '' : ` at ${run.endedAt.toISOString()}`
  return new HttpProblem({
    code: 'conflict',
    detail: `the run was ${state} already${when}`,
    remedy: 'nothing is left to stop',
    extra: { reason: 'run_ended', runStatus: run.status, endedAt: run.endedAt?.toISOString() ?? null },
  })
}

function withoutUndefined(ceilings: {
  readonly [Key in keyof RunCeilings]?: RunCeilings[Key] | undefined
}): Partial<RunCeilings> {
  return Object.fromEntries(Object.entries(ceilings).filter(([, value]) => value !== undefined))
}
