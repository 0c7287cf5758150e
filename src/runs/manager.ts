import type { Actor, Principal, RunCeilings, RunSource } from '../tools/invocation.ts'
import type { JsonValue } from '../tools/json.ts'
import { ValidationError, NotFoundError } from '../tools/errors.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import { compileSchema } from '../tools/schema.ts'
import type { PriceBook } from '../usage/prices.ts'
import { DEFAULT_CEILINGS, type AgentDefinition, type RunSnapshot } from './definition.ts'
import type { Page, RunListFilter, RunRow, RunStore } from './run-store.ts'

/** What the manager needs of stored definitions and grants. */
export interface Catalogue {
  publish(definition: {
    readonly organizationId: string
    readonly slug: string
    readonly body: object
  }): Promise<{ readonly id: string; readonly version: number }>
  latest(organizationId: string, slug: string): Promise<{ readonly id: string; readonly body: object } | null>
  slugs(organizationId: string): Promise<readonly string[]>
  /** Grants each tool unless it was ever granted or withdrawn before. */
  grantInitially(grants: {
    readonly organizationId: string
    readonly definition: string
    readonly tools: readonly string[]
    readonly by: Actor
  }): Promise<void>
  /** Tools the definition may call now. */
  granted(organizationId: string, definition: string): Promise<ReadonlySet<string>>
}

export interface StartRun {
  readonly organizationId: string
  readonly definition: string
  readonly input: JsonValue
  readonly startedBy: Actor
  readonly roles?: readonly string[]
  readonly source: RunSource
  /** Lower ceilings than the definition's; a higher one is refused. */
  readonly ceilings?: Partial<RunCeilings>
}

export interface RunManager {
  /** @throws ValidationError names every tool that does not exist */
  publish(organizationId: string, definition: AgentDefinition, by: Actor): Promise<{ readonly version: number }>
  /**
   * @throws NotFoundError unknown definition
   * @throws ValidationError an input over 256 kB, a ceiling above the definition's, a cost ceiling on a model without a price
   */
  start(request: StartRun): Promise<RunRow>
  get(organizationId: string, runId: string): Promise<RunRow | null>
  list(organizationId: string, filter?: Partial<RunListFilter>): Promise<Page<RunRow>>
  /** Null when there is no such run; `accepted: false` when it had ended. */
  cancel(request: {
    readonly organizationId: string
    readonly runId: string
    readonly reason: string | null
    readonly by: Actor
  }): Promise<{ readonly accepted: boolean; readonly inFlight: number } | null>
}

export interface ManagerDependencies {
  readonly store: RunStore
  readonly catalogue: Catalogue
  readonly registry: ToolRegistry
  readonly prices: PriceBook
  readonly defaultModel: string
  readonly framework: string
  readonly wake: (runId: string) => Promise<void>
  readonly now: () => Date
  readonly newId: () => string
}

const SLUG = /^[a-z][a-z0-9-]{0,62}$/
const MAX_INPUT_BYTES = 256 * 1024
const PAGE = 50

export function runManager(deps: ManagerDependencies): RunManager {
  return {
    publish: (organizationId, definition, by) => publish(deps, { organizationId, definition, by }),
    start: (request) => start(deps, request),
    get: (organizationId, runId) => deps.store.get(organizationId, runId),
    list: (organizationId, filter = {}) => deps.store.list(organizationId, { limit: PAGE, cursor: null, ...filter }),
    async cancel(request) {
      if ((await deps.store.get(request.organizationId, request.runId)) === null) return null
      const outcome = await deps.store.requestCancel(request)
      if (outcome.accepted) await deps.wake(request.runId)
      return outcome
    },
  }
}

async function publish(
  deps: ManagerDependencies,
  request: { organizationId: string; definition: AgentDefinition; by: Actor },
): Promise<{ readonly version: number }> {
  const { organizationId, definition, by } = request
  if (!SLUG.test(definition.slug))
    throw new ValidationError(
      `a definition's slug is lower case letters, digits and hyphens; got ${JSON.stringify(definition.slug.slice(0, 80))}`,
    )
  const missing = definition.tools.filter((tool) => deps.registry.get(tool) === undefined)
  if (missing.length > 0)
    throw new ValidationError(
      `${definition.slug} names tools that do not exist: ${missing.join(', ')}; known are ${deps.registry.names().join(', ')}`,
    )
  const { slug, ...body } = definition
  const { version } = await deps.catalogue.publish({ organizationId, slug, body })
  await deps.catalogue.grantInitially({ organizationId, definition: slug, tools: definition.tools, by })
  return { version }
}

async function start(deps: ManagerDependencies, request: StartRun): Promise<RunRow> {
  const stored = await deps.catalogue.latest(request.organizationId, request.definition)
  if (stored === null) {
    const known = await deps.catalogue.slugs(request.organizationId)
    const remedy = known.length === 0 ? 'publish one first' : `published are ${known.join(', ')}`
    throw new NotFoundError(`there is no definition ${JSON.stringify(request.definition.slice(0, 80))}; ${remedy}`)
  }
  if (Buffer.byteLength(JSON.stringify(request.input)) > MAX_INPUT_BYTES)
    throw new ValidationError('the input of a run is at most 256 kB of JSON')
  const body = stored.body as Omit<AgentDefinition, 'slug'>
  checkInput(request, body)
  const snapshot = await freeze(deps, request, body)
  const run = await deps.store.create({
    id: deps.newId(),
    organizationId: request.organizationId,
    definitionId: stored.id,
    definition: request.definition,
    source: request.source,
    input: request.input,
    snapshot,
    deadline: new Date(deps.now().getTime() + snapshot.ceilings.maxDurationS * 1000),
  })
  await deps.wake(run.id)
  return run
}

function checkInput(request: StartRun, body: Omit<AgentDefinition, 'slug'>): void {
  if (body.inputSchema === undefined) return
  const checked = compileSchema(body.inputSchema).validate(request.input)
  if (checked.kind === 'invalid')
    throw new ValidationError(`the input does not fit what ${request.definition} takes: ${checked.message}`)
}

/** Freezes what the run is shown: contracts as they are now, and an authority that is the grant of this moment. */
async function freeze(
  deps: ManagerDependencies,
  request: StartRun,
  body: Omit<AgentDefinition, 'slug'>,
): Promise<RunSnapshot> {
  const contracts = deps.registry.resolve(body.tools)
  const granted = await deps.catalogue.granted(request.organizationId, request.definition)
  const principal: Principal = {
    agent: request.definition,
    userId: request.startedBy.kind === 'user' ? request.startedBy.id : null,
    roles: request.roles ?? [],
    scopes: body.tools.filter((tool) => granted.has(tool)),
    startedBy: request.startedBy,
  }
  const ceilings = lowered({ ...DEFAULT_CEILINGS, ...body.ceilings }, request.ceilings ?? {})
  const model = body.model ?? deps.defaultModel
  if (ceilings.maxCostCents !== null && !deps.prices.knows(model)) {
    throw new ValidationError(
      `a cost ceiling needs a price for ${model}; add it to the price table or drop maxCostCents`,
    )
  }
  return {
    contracts: Object.fromEntries(contracts.map((contract) => [contract.name, contract])),
    principal,
    ceilings,
    instructions: body.instructions,
    model,
    framework: deps.framework,
  }
}

function lowered(base: RunCeilings, wanted: Partial<RunCeilings>): RunCeilings {
  for (const key of ['maxTurns', 'maxToolCalls', 'maxDurationS', 'maxCostCents'] as const) {
    const limit = base[key]
    const value = wanted[key]
    if (value === undefined || value === null) continue
    if (!Number.isFinite(value) || value < 0) throw new ValidationError(`${key} is a number of at least 0`)
    if (limit !== null && value > limit)
      throw new ValidationError(`${key} of this run is at most ${limit}, as its definition says`)
  }
  const given = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined && value !== null))
  return { ...base, ...given }
}
