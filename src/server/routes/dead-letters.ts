import { createRoute, z } from '@hono/zod-openapi'
import { DEAD_LETTER_KINDS, type DeadLetter } from '../../runs/dead-letters.ts'
import { retryRun, type RetryOutcome } from '../../runs/retry.ts'
import type { RunRow } from '../../runs/run-store.ts'
import { deadLetterStore } from '../../storage/dead-letter-store.ts'
import type { RunCeilings } from '../../tools/invocation.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import { HttpProblem } from '../problems.ts'
import { readRun } from '../run-view.ts'
import { IdParam, listOf, PageQuery, RunSchema } from '../schemas.ts'
import { unknownRun } from './runs.ts'
import { answers, router } from './shapes.ts'

export const DeadLetterSchema = z
  .object({
    id: z.uuid(),
    kind: z.enum(DEAD_LETTER_KINDS),
    runId: z.uuid(),
    definition: z.string(),
    tool: z.string().nullable(),
    reason: z.string().nullable(),
    message: z.string().nullable(),
    at: z.iso.datetime(),
  })
  .openapi('DeadLetter')

const list = createRoute({
  method: 'get',
  path: '/dead-letters',
  summary: 'What stays as it is until a person looks: failed and held runs, questions nobody answered; newest first',
  middleware: requires('administration.read'),
  request: { query: PageQuery.extend({ kind: z.enum(DEAD_LETTER_KINDS).optional() }) },
  responses: answers(200, 'A page of dead letters', listOf(DeadLetterSchema)),
})

const RetryBody = z
  .strictObject({
    effectsMayRepeat: z.boolean().default(false).openapi({
      description: 'Needed where the failed run wrote or sent anything: another run may do it once more',
    }),
  })
  .openapi('RetryBody')

const retry = createRoute({
  method: 'post',
  path: '/runs/{id}/retry',
  summary: 'Start another run of a failed run’s definition and input, once; the failed one stays as it is',
  middleware: requires('runs.start'),
  request: {
    params: IdParam,
    body: { required: false, content: { 'application/json': { schema: RetryBody } } },
  },
  responses: answers(201, 'The new run, queued', RunSchema),
})

export function deadLetterRoutes({ core, runs }: RouteDependencies): App {
  const store = deadLetterStore(core.database)
  const routes = router()
  routes.openapi(list, async (c) => {
    const { kind, limit, cursor } = c.req.valid('query')
    const filter = { limit, cursor: cursor ?? null, ...(kind === undefined ? {} : { kind }) }
    const page = await store.list(c.get('identity').organizationId, filter)
    return c.json({ items: page.items.map(letterJson), nextCursor: page.nextCursor }, 200)
  })
  routes.openapi(retry, async (c) => {
    const { organizationId, actor, roles } = c.get('identity')
    const ceilings = async (organization: string, slug: string): Promise<Partial<RunCeilings> | null> => {
      const definition = await core.stores.definitions.latest(organization, slug)
      return definition === null ? null : ceilingsOf(definition.body)
    }
    const outcome = await retryRun(
      { runs, store, ceilings },
      {
        organizationId,
        runId: c.req.valid('param').id,
        by: actor,
        roles,
        source: c.get('viaCookie') ? 'console' : c.req.header('x-bailiff-client') === 'cli' ? 'cli' : 'api',
        effectsMayRepeat: c.req.valid('json').effectsMayRepeat ?? false,
      },
    )
    const run = startedBy(outcome)
    c.header('location', `/api/v1/runs/${run.id}`)
    return c.json(await readRun(core, run), 201)
  })
  return routes
}

function ceilingsOf(body: object): Partial<RunCeilings> {
  const ceilings: unknown = Reflect.get(body, 'ceilings')
  return typeof ceilings === 'object' && ceilings !== null ? ceilings : {}
}

/** @throws HttpProblem for everything that is no start */
function startedBy(outcome: RetryOutcome): RunRow {
  switch (outcome.kind) {
    case 'started':
      return outcome.run
    case 'missing':
      throw unknownRun()
    case 'not_failed':
      throw refused(`a run that is ${outcome.run.status} is not started again`, 'only failed runs are')
    case 'child':
      throw refused('a step of another run started this one', `look at run ${outcome.rootRunId}`)
    case 'library':
      throw refused('a program of your own drives this run', 'start it from there')
    case 'erased':
      throw refused('the input of this run has been erased', 'start a run with an input of its own')
    case 'retried':
      throw refused('this run was started again before', `look at run ${outcome.runId}`, { runId: outcome.runId })
    case 'effects':
      throw refused(
        `the failed run made ${outcome.effects} calls that took effect or may have; a new run may make them again`,
        'look at the run’s tree, then send { "effectsMayRepeat": true }',
        { effects: outcome.effects },
      )
  }
}

function refused(detail: string, remedy: string, extra: Readonly<Record<string, string | number>> = {}): HttpProblem {
  return new HttpProblem({ code: 'conflict', detail, remedy, extra })
}

function letterJson({ id, kind, runId, definition, tool, reason, message, at }: DeadLetter) {
  return { id, kind, runId, definition, tool, reason, message, at: at.toISOString() }
}
