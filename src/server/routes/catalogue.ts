import { createRoute, z } from '@hono/zod-openapi'
import type { Core } from '../../core.ts'
import { laneOf } from '../../runs/lane.ts'
import type { StoredBody } from '../../runs/freeze.ts'
import { isWorkflow } from '../../runs/workflow/definition.ts'
import { DEFAULT_CEILINGS, type AgentDefinition } from '../../runs/definition.ts'
import type { StoredDefinition } from '../../storage/definition-store.ts'
import type { RunCeilings } from '../../tools/invocation.ts'
import { modelToolName, type ToolSpec } from '../../tools/models.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import { unknownId } from '../problems.ts'
import { DefinitionSchema, listOf, PublishBody, ToolSchema } from '../schemas.ts'
import { answers, jsonBody, router } from './shapes.ts'

const tools = createRoute({
  method: 'get',
  path: '/tools',
  summary: 'Every tool of this deployment with its contract, and whether it is enabled for the organization',
  middleware: requires('catalogue.read'),
  responses: answers(200, 'All tools', listOf(ToolSchema)),
})

const ToolParam = z.object({ name: z.string().max(130) })
const ToolStateSchema = z.object({ tool: z.string(), enabled: z.boolean() })

const enable = createRoute({
  method: 'post',
  path: '/tools/{name}/enable',
  summary: 'Let agents call the tool again',
  middleware: requires('administration.change'),
  request: { params: ToolParam },
  responses: answers(200, 'The state of the tool', ToolStateSchema),
})

const disable = createRoute({
  method: 'post',
  path: '/tools/{name}/disable',
  summary: 'Refuse every call of the tool from now on, in runs that have started too',
  middleware: requires('administration.change'),
  request: { params: ToolParam },
  responses: answers(200, 'The state of the tool', ToolStateSchema),
})

const definitions = createRoute({
  method: 'get',
  path: '/definitions',
  summary: 'The newest version of every published agent and workflow',
  middleware: requires('catalogue.read'),
  responses: answers(200, 'All definitions', listOf(DefinitionSchema)),
})

const publish = createRoute({
  method: 'post',
  path: '/definitions',
  summary: 'Publish an agent; a body that has not changed gets no new version',
  middleware: requires('administration.change'),
  request: { body: jsonBody(PublishBody) },
  responses: answers(201, 'The version', z.object({ slug: z.string(), version: z.int() })),
})

export function catalogueRoutes({ core, runs }: RouteDependencies): App {
  const routes = router()
  routes.openapi(tools, async (c) => {
    const disabled = await core.stores.tools.disabled(c.get('identity').organizationId)
    const specs = core.registry.names().flatMap((name) => core.registry.get(name) ?? [])
    return c.json({ items: specs.map((spec) => toolJson(spec, !disabled.has(spec.name))), nextCursor: null }, 200)
  })
  routes.openapi(enable, async (c) =>
    c.json(await setEnabled(core, c.get('identity'), { tool: c.req.valid('param').name, enabled: true }), 200),
  )
  routes.openapi(disable, async (c) =>
    c.json(await setEnabled(core, c.get('identity'), { tool: c.req.valid('param').name, enabled: false }), 200),
  )
  routes.openapi(definitions, async (c) => {
    const stored = await core.stores.definitions.list(c.get('identity').organizationId)
    return c.json({ items: stored.map(definitionJson), nextCursor: null }, 200)
  })
  routes.openapi(publish, async (c) => {
    const { ceilings, lane, ...body } = c.req.valid('json')
    const { organizationId, actor } = c.get('identity')
    const inLane = lane === undefined ? {} : { lane }
    const definition: AgentDefinition = { ...body, ...inLane, ceilings: withDefaults(ceilings) }
    const { version } = await runs.publish(organizationId, definition, actor)
    return c.json({ slug: body.slug, version }, 201)
  })
  return routes
}

async function setEnabled(
  core: Core,
  {
    organizationId,
    actor,
  }: { readonly organizationId: string; readonly actor: Parameters<Core['stores']['tools']['setEnabled']>[0]['by'] },
  state: { readonly tool: string; readonly enabled: boolean },
) {
  if (core.registry.get(state.tool) === undefined) throw unknownTool()
  await core.stores.tools.setEnabled({ organizationId, by: actor, ...state })
  return state
}

export function unknownTool() {
  return unknownId('tool', 'take the name from GET /api/v1/tools')
}

function toolJson(spec: ToolSpec, enabled: boolean): z.input<typeof ToolSchema> {
  return {
    name: spec.name,
    modelName: modelToolName(spec.name),
    version: spec.version,
    schemaHash: spec.schemaHash,
    description: spec.description,
    kind: spec.kind,
    sideEffects: spec.sideEffects,
    enabled,
    connection: spec.connection,
    timeoutS: spec.timeoutS,
    metered: spec.metered,
    policyFacts: [...spec.policyFacts],
    maxBatchSize: spec.maxBatchSize,
    onUnknown: spec.onUnknown,
    inputSchema: spec.inputSchema,
    outputSchema: spec.outputSchema,
  }
}

function definitionJson({ slug, version, body }: StoredDefinition): z.input<typeof DefinitionSchema> {
  const stored = body as StoredBody
  const shared = {
    slug,
    version,
    tools: [...stored.tools],
    ceilings: { ...DEFAULT_CEILINGS, ...stored.ceilings },
    lane: laneOf(stored.lane, undefined),
  }
  if (isWorkflow(stored)) return { ...shared, kind: 'workflow', instructions: '', model: null, root: stored.root }
  const { instructions, model } = stored
  return { ...shared, kind: 'agent', instructions, model, root: null }
}

function withDefaults(ceilings: { readonly [Key in keyof RunCeilings]?: RunCeilings[Key] | undefined }): RunCeilings {
  const given = Object.entries(ceilings).filter(([, value]) => value !== undefined)
  return { ...DEFAULT_CEILINGS, ...Object.fromEntries(given) }
}
