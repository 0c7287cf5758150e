import { createRoute, z } from '@hono/zod-openapi'
import type { Lane } from '../../runs/lane.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import { laneJson, LaneLimitBody, LaneParam, LaneSchema, type LaneJson } from '../lane-schemas.ts'
import { HttpProblem } from '../problems.ts'
import { IdParam, listOf } from '../schemas.ts'
import { unknownRun } from './runs.ts'
import { answers, jsonBody, router } from './shapes.ts'

const list = createRoute({
  method: 'get',
  path: '/lanes',
  summary: 'Both lanes: how many runs are active and wait, the limit, and whether somebody paused it',
  middleware: requires('administration.read'),
  responses: answers(200, 'The lanes', listOf(LaneSchema)),
})

const pause = createRoute({
  method: 'post',
  path: '/lanes/{lane}/pause',
  summary: 'Pause a lane: runs that work leave at their next boundary, and none begins until it is resumed',
  middleware: requires('administration.change'),
  request: { params: LaneParam },
  responses: answers(200, 'The lane, paused', LaneSchema),
})

const resume = createRoute({
  method: 'post',
  path: '/lanes/{lane}/resume',
  summary: 'Let a paused lane go on',
  middleware: requires('administration.change'),
  request: { params: LaneParam },
  responses: answers(200, 'The lane', LaneSchema),
})

const limit = createRoute({
  method: 'put',
  path: '/lanes/{lane}/limit',
  summary: 'Set how many runs of a lane may be active at the same time; a lower limit ends nothing that works',
  middleware: requires('administration.change'),
  request: { params: LaneParam, body: jsonBody(LaneLimitBody) },
  responses: answers(200, 'The lane', LaneSchema),
})

const releaseOne = createRoute({
  method: 'post',
  path: '/runs/{id}/release',
  summary: 'Let a held run go on',
  middleware: requires('administration.change'),
  request: { params: IdParam },
  responses: answers(200, 'The id of the run that is released', z.object({ id: z.string() })),
})

const releaseAll = createRoute({
  method: 'post',
  path: '/runs/release',
  summary: 'Let every held run of the organization go on',
  middleware: requires('administration.change'),
  responses: answers(200, 'How many were held', z.object({ released: z.int() })),
})

export function laneRoutes({ lanes, runs }: RouteDependencies): App {
  const routes = router()
  routes.openapi(list, async (c) => {
    const states = await lanes.list(c.get('identity').organizationId)
    return c.json({ items: states.map(laneJson), nextCursor: null }, 200)
  })
  routes.openapi(pause, async (c) => {
    const { organizationId, actor } = c.get('identity')
    const { lane } = c.req.valid('param')
    await lanes.pause({ organizationId, lane }, actor)
    return c.json(await stateOf(organizationId, lane), 200)
  })
  routes.openapi(resume, async (c) => {
    const { organizationId } = c.get('identity')
    const { lane } = c.req.valid('param')
    await lanes.resume({ organizationId, lane })
    return c.json(await stateOf(organizationId, lane), 200)
  })
  routes.openapi(limit, async (c) => {
    const { organizationId } = c.get('identity')
    const { lane } = c.req.valid('param')
    await lanes.setLimit({ organizationId, lane }, c.req.valid('json').limit)
    return c.json(await stateOf(organizationId, lane), 200)
  })
  routes.openapi(releaseOne, async (c) => {
    const { organizationId, actor } = c.get('identity')
    const runId = c.req.valid('param').id
    const [released] = await lanes.release({ organizationId, runId }, actor)
    if (released !== undefined) return c.json({ id: released }, 200)
    const run = await runs.get(organizationId, runId)
    if (run === null) throw unknownRun()
    throw new HttpProblem({
      code: 'conflict',
      detail: run.endedAt === null ? 'the run is not held' : `the run was ${run.status} already`,
      remedy: 'there is nothing to release; GET /api/v1/runs/{id} shows how it stands',
      extra: { reason: 'not_held', runStatus: run.status },
    })
  })
  routes.openapi(releaseAll, async (c) => {
    const { organizationId, actor } = c.get('identity')
    const released = await lanes.release({ organizationId }, actor)
    return c.json({ released: released.length }, 200)
  })

  async function stateOf(organizationId: string, lane: Lane): Promise<LaneJson> {
    const state = (await lanes.list(organizationId)).find((one) => one.lane === lane)
    if (state === undefined) throw new Error(`the lane ${lane} is missing`)
    return laneJson(state)
  }
  return routes
}
