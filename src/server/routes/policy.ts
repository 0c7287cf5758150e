import { createRoute, z } from '@hono/zod-openapi'
import { type RuleProblem, validateRule } from '../../policy/rule.ts'
import type { Grant } from '../../storage/grant-store.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import { HttpProblem, unknownId } from '../problems.ts'
import { GrantBody, GrantSchema, listOf, RuleBody, RuleSchema, RuleTestBody, RuleTestSchema } from '../schemas.ts'
import { unknownTool } from './catalogue.ts'
import { answers, jsonBody, router } from './shapes.ts'

const rules = createRoute({
  method: 'get',
  path: '/rules',
  summary: 'The rules of the organization, by name',
  middleware: requires('administration.read'),
  responses: answers(200, 'All rules', listOf(RuleSchema)),
})

const saveRule = createRoute({
  method: 'post',
  path: '/rules',
  summary: 'Add a rule, or replace the one of that name; calls decided from now on see it',
  middleware: requires('administration.change'),
  request: { body: jsonBody(RuleBody) },
  responses: answers(201, 'The rule as saved', RuleSchema),
})

const testRule = createRoute({
  method: 'post',
  path: '/rules/test',
  summary: 'Replay a draft over past calls before it is saved: what was decided then, and what would be now',
  middleware: requires('administration.read'),
  request: { body: jsonBody(RuleTestBody) },
  responses: answers(200, 'The calls the draft is about, newest first, and what would change', RuleTestSchema),
})

const deleteRule = createRoute({
  method: 'delete',
  path: '/rules/{name}',
  summary: 'Remove a rule',
  middleware: requires('administration.change'),
  request: { params: z.object({ name: z.string().max(200) }) },
  responses: answers(200, 'The name of the rule that is gone', z.object({ name: z.string() })),
})

const grants = createRoute({
  method: 'get',
  path: '/grants',
  summary: 'Which agent may call which tool; withdrawn grants stay listed',
  middleware: requires('administration.read'),
  request: { query: z.object({ definition: z.string().max(80).optional() }) },
  responses: answers(200, 'All grants', listOf(GrantSchema)),
})

const grant = createRoute({
  method: 'post',
  path: '/grants',
  summary: 'Give an agent the right to call a tool, again if it was withdrawn',
  middleware: requires('administration.change'),
  request: { body: jsonBody(GrantBody) },
  responses: answers(201, 'The grant', GrantSchema),
})

const revoke = createRoute({
  method: 'delete',
  path: '/grants',
  summary: 'Withdraw a right, live for the very next call',
  middleware: requires('administration.change'),
  request: { query: GrantBody },
  responses: answers(
    200,
    'How many calls of the tool were in flight',
    z.object({ revoked: z.literal(true), inFlight: z.int() }),
  ),
})

export function policyRoutes({ core }: RouteDependencies): App {
  const routes = router()
  routes.openapi(rules, async (c) => {
    const stored = await core.stores.rules.list(c.get('identity').organizationId)
    const items = stored.map((rule) => ({ ...rule, tools: [...rule.tools], approvers: [...rule.approvers] }))
    return c.json({ items, nextCursor: null }, 200)
  })
  routes.openapi(saveRule, async (c) => {
    const verdict = validateRule(c.req.valid('json'), core.catalogue)
    if (verdict.kind === 'invalid') throw faultyRule(verdict.problems)
    const { organizationId, actor } = c.get('identity')
    const rule = { id: core.newId(), ...verdict.rule }
    await core.stores.rules.save({ organizationId, by: actor, id: rule.id, rule: verdict.rule })
    return c.json({ ...rule, tools: [...rule.tools], approvers: [...rule.approvers] }, 201)
  })
  routes.openapi(testRule, async (c) => {
    const { rule, since, limit } = c.req.valid('json')
    const replay = await core.replayRule({
      organizationId: c.get('identity').organizationId,
      draft: rule,
      ...(since === undefined ? {} : { since: new Date(since) }),
      ...(limit === undefined ? {} : { limit }),
    })
    if (replay.kind === 'invalid') throw faultyRule(replay.problems)
    const calls = replay.calls.map((call) => ({ ...call, decidedAt: call.decidedAt.toISOString() }))
    return c.json({ calls, summary: { ...replay.summary, changed: [...replay.summary.changed] } }, 200)
  })
  routes.openapi(deleteRule, async (c) => {
    const { organizationId, actor } = c.get('identity')
    const { name } = c.req.valid('param')
    if (!(await core.stores.rules.remove({ organizationId, by: actor, name })))
      throw unknownId('rule', 'take the name from GET /api/v1/rules')
    return c.json({ name }, 200)
  })
  routes.openapi(grants, async (c) => {
    const held = await core.stores.grants.list(c.get('identity').organizationId, c.req.valid('query').definition)
    return c.json({ items: held.map(grantJson), nextCursor: null }, 200)
  })
  routes.openapi(grant, async (c) => {
    const { organizationId, actor } = c.get('identity')
    const { definition, tool } = c.req.valid('json')
    if (core.registry.get(tool) === undefined) throw unknownTool()
    if ((await core.stores.definitions.latest(organizationId, definition)) === null)
      throw unknownId('definition', 'take the slug from GET /api/v1/definitions')
    await core.stores.grants.grant({ id: core.newId(), organizationId, definition, tool, by: actor })
    const stored = (await core.stores.grants.list(organizationId, definition)).find((held) => held.tool === tool)
    if (stored === undefined) throw new Error('the grant is gone right after it was given')
    return c.json(grantJson(stored), 201)
  })
  routes.openapi(revoke, async (c) => {
    const { organizationId, actor } = c.get('identity')
    const outcome = await core.stores.grants.revoke({ organizationId, by: actor, ...c.req.valid('query') })
    if (!outcome.revoked) throw unknownId('grant', 'take definition and tool from GET /api/v1/grants')
    return c.json({ revoked: true as const, inFlight: outcome.inFlight }, 200)
  })
  return routes
}

function faultyRule(faults: readonly RuleProblem[]): HttpProblem {
  const problems = faults.map(({ field, message, position }) => ({
    field,
    message,
    ...(position === undefined ? {} : { position: { ...position } }),
  }))
  return new HttpProblem({
    code: 'invalid_input',
    detail: problems.map(({ field, message }) => `${field}: ${message}`).join('; '),
    remedy: 'correct the rule; nothing was saved',
    extra: { problems },
  })
}

function grantJson({ definition, tool, grantedAt, revokedAt }: Grant): z.input<typeof GrantSchema> {
  return { definition, tool, grantedAt: grantedAt.toISOString(), revokedAt: revokedAt?.toISOString() ?? null }
}
