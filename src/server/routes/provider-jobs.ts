import { createRoute, z } from '@hono/zod-openapi'
import { DROP_REASONS } from '../../provider-jobs/drops.ts'
import { JOB_STATES, type JobRecord } from '../../provider-jobs/job.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import { unknownId } from '../problems.ts'
import { IdParam, listOf, PageQuery } from '../schemas.ts'
import { answers, router } from './shapes.ts'

/** Without what a vendor answered: addresses of people are for whoever collects them. */
export const ProviderJobSchema = z
  .object({
    id: z.uuid(),
    provider: z.string(),
    /** Null while it is not known that the vendor took the job. */
    providerJobId: z.string().nullable(),
    state: z.enum(JOB_STATES),
    runId: z.uuid(),
    rootRunId: z.uuid(),
    /** Of the call that submitted. */
    spanId: z.uuid(),
    /** Items of the request. */
    items: z.int(),
    /** As the vendor reported it. */
    cost: z.record(z.string(), z.unknown()).nullable(),
    /** Null until the cost is written down. */
    usageId: z.uuid().nullable(),
    submittedAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
    terminalAt: z.iso.datetime().nullable(),
  })
  .openapi('ProviderJob')

export const DropSchema = z
  .object({
    provider: z.string(),
    reason: z.enum(DROP_REASONS),
    count: z.int(),
    lastAt: z.iso.datetime(),
  })
  .openapi('WebhookDrop')

const list = createRoute({
  method: 'get',
  path: '/provider-jobs',
  summary: 'Work at vendors, newest first; with unsettled=true, what ended and is not charged to anybody yet',
  middleware: requires('runs.read'),
  request: {
    query: PageQuery.extend({
      state: z.enum(JOB_STATES).optional(),
      provider: z.string().max(48).optional(),
      runId: z.uuid().optional(),
      unsettled: z.enum(['true', 'false']).optional(),
    }),
  },
  responses: answers(200, 'A page of jobs', listOf(ProviderJobSchema)),
})

const show = createRoute({
  method: 'get',
  path: '/provider-jobs/{id}',
  summary: 'One job, without its result',
  middleware: requires('runs.read'),
  request: { params: IdParam },
  responses: answers(200, 'The job', ProviderJobSchema),
})

const settle = createRoute({
  method: 'post',
  path: '/provider-jobs/{id}/settle',
  summary: 'Write down now what an ended job cost; doing it again changes nothing',
  middleware: requires('administration.change'),
  request: { params: IdParam },
  responses: answers(
    200,
    'What became of it',
    z.object({ id: z.uuid(), outcome: z.enum(['settled', 'already', 'gone', 'not_ended']) }),
  ),
})

const drops = createRoute({
  method: 'get',
  path: '/webhooks/drops',
  summary: 'Callbacks that this process answered and did not use, by reason, since it started',
  middleware: requires('administration.read'),
  responses: answers(
    200,
    'Counts',
    z.object({ since: z.iso.datetime(), items: z.array(DropSchema), nextCursor: z.null() }),
  ),
})

export function providerJobRoutes({ core }: RouteDependencies): App {
  const { listing, drops: counters } = core.providerJobs
  const routes = router()
  routes.openapi(list, async (c) => {
    const { cursor, limit, state, provider, runId, unsettled } = c.req.valid('query')
    const page = await listing.list(c.get('identity').organizationId, {
      limit,
      cursor: cursor ?? null,
      ...(state === undefined ? {} : { state }),
      ...(provider === undefined ? {} : { provider }),
      ...(runId === undefined ? {} : { runId }),
      unsettled: unsettled === 'true',
    })
    return c.json({ items: page.items.map(jobJson), nextCursor: page.nextCursor }, 200)
  })
  routes.openapi(show, async (c) => {
    const job = await listing.get(c.get('identity').organizationId, c.req.valid('param').id)
    if (job === null) throw unknownJob()
    return c.json(jobJson(job), 200)
  })
  routes.openapi(settle, async (c) => {
    const { id } = c.req.valid('param')
    const job = await listing.get(c.get('identity').organizationId, id)
    if (job === null) throw unknownJob()
    const outcome = await core.providerJobs.settle({ provider: job.provider, jobId: id })
    return c.json({ id, outcome }, 200)
  })
  routes.openapi(drops, (c) => {
    const items = counters.list().map((count) => ({ ...count, lastAt: count.lastAt.toISOString() }))
    return c.json({ since: counters.since.toISOString(), items, nextCursor: null }, 200)
  })
  return routes
}

function unknownJob() {
  return unknownId('provider job', 'take the id from GET /api/v1/provider-jobs')
}

export type ProviderJobJson = z.input<typeof ProviderJobSchema>

function jobJson(job: JobRecord): ProviderJobJson {
  return {
    id: job.id,
    provider: job.provider,
    providerJobId: job.providerJobId,
    state: job.state,
    runId: job.runId,
    rootRunId: job.rootRunId,
    spanId: job.toolCallId,
    items: job.contactRefs.length,
    cost: job.cost,
    usageId: job.usageId,
    submittedAt: job.submittedAt.toISOString(),
    updatedAt: job.updatedAt.toISOString(),
    terminalAt: job.terminalAt?.toISOString() ?? null,
  }
}
