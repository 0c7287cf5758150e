import { NotFoundError, ValidationError } from '../tools/errors.ts'
import type { RunCeilings } from '../tools/invocation.ts'
import type { JsonValue } from '../tools/json.ts'
import { compileSchema } from '../tools/schema.ts'
import { freeze, lowered, type StoredBody } from './freeze.ts'
import { laneOf } from './lane.ts'
import type { ManagerDependencies, StartRun } from './manager.ts'
import type { RunRow } from './run-store.ts'
import { isWorkflow } from './workflow/definition.ts'

const MAX_INPUT_BYTES = 256 * 1024

export async function startRun(deps: ManagerDependencies, request: StartRun): Promise<RunRow> {
  const { organizationId, definition, input, startedBy, source } = request
  const { id: definitionId, body } = await definitionFor(deps, request)
  const snapshot = await freeze(
    deps,
    {
      organizationId,
      definition,
      startedBy,
      userId: startedBy.kind === 'user' ? startedBy.id : null,
      roles: request.roles ?? [],
      within: null,
      ceilings: (defined) => lowered(defined, request.ceilings ?? {}),
    },
    body,
  )
  const run = await deps.store.create({
    id: deps.newId(),
    kind: isWorkflow(body) ? 'workflow' : 'agent',
    organizationId,
    definitionId,
    definition,
    source,
    lane: laneOf(body.lane, request.lane),
    input,
    snapshot,
    deadline: new Date(deps.now().getTime() + snapshot.ceilings.maxDurationS * 1000),
    ...(request.retryOf === undefined ? {} : { retryOf: request.retryOf }),
  })
  await deps.wake(run.id)
  return run
}

/** The step of a run that starts another one. */
export interface StartChild {
  readonly parent: RunRow
  /** Path and span of the step. */
  readonly step: string
  readonly spanId: string
  readonly definition: string
  readonly input: JsonValue
  /** Tool calls that are left to the parent. */
  readonly toolCalls: number
}

/** The run that wants a child has ended or was told to stop. Fails a workflow's node; no tool ever answers it. */
export class ParentCancelled extends Error {
  override readonly name = 'ParentCancelled'
}

/**
 * Starts the run of a step, once: a second call for the same step answers the first one's. On the authority of whoever
 * started the tree, within what the parent may call, for the rest of its time and calls, under the same cost ceiling.
 * @throws NotFoundError, ValidationError, ParentCancelled
 */
export async function startChild(deps: ManagerDependencies, request: StartChild): Promise<RunRow> {
  const { parent, step, spanId, definition, input } = request
  const { principal, ceilings } = parent.snapshot
  const { organizationId } = parent
  const { id: definitionId, body } = await definitionFor(deps, { organizationId, definition, input })
  const { startedBy, userId, roles, scopes: within } = principal
  const left = { maxToolCalls: request.toolCalls, maxCostCents: ceilings.maxCostCents }
  const freezing = { organizationId, definition, startedBy, userId, roles, within }
  const snapshot = await freeze(deps, { ...freezing, ceilings: (defined) => remaining(defined, left) }, body)
  const own = deps.now().getTime() + snapshot.ceilings.maxDurationS * 1000
  const started = await deps.children.start({
    id: deps.newId(),
    kind: isWorkflow(body) ? 'workflow' : 'agent',
    parent: { runId: parent.id, rootRunId: parent.rootRunId, step, spanId },
    organizationId,
    definitionId,
    definition,
    source: parent.source,
    lane: body.lane ?? parent.lane,
    input,
    snapshot,
    deadline: new Date(Math.min(own, parent.deadline.getTime())),
  })
  if (started.kind === 'parent_cancelled') throw new ParentCancelled(`run ${parent.id} was told to stop`)
  await deps.wake(started.run.id)
  return started.run
}

/** The cost ceiling is the tree's, so the parent's stands where it has one: totals are compared with totals. */
function remaining(defined: RunCeilings, left: Pick<RunCeilings, 'maxToolCalls' | 'maxCostCents'>): RunCeilings {
  return {
    ...defined,
    maxToolCalls: Math.min(defined.maxToolCalls, left.maxToolCalls),
    maxCostCents: left.maxCostCents ?? defined.maxCostCents,
  }
}

async function definitionFor(
  { catalogue }: Pick<ManagerDependencies, 'catalogue'>,
  { organizationId, definition, input }: Pick<StartRun, 'organizationId' | 'definition' | 'input'>,
): Promise<{ readonly id: string; readonly body: StoredBody }> {
  const stored = await catalogue.latest(organizationId, definition)
  if (stored === null) {
    const known = await catalogue.slugs(organizationId)
    const remedy = known.length === 0 ? 'publish one first' : `published are ${known.join(', ')}`
    throw new NotFoundError(`there is no definition ${JSON.stringify(definition.slice(0, 80))}; ${remedy}`)
  }
  if (Buffer.byteLength(JSON.stringify(input)) > MAX_INPUT_BYTES)
    throw new ValidationError('the input of a run is at most 256 kB of JSON')
  const body = stored.body as StoredBody
  if (body.inputSchema !== undefined) {
    const checked = compileSchema(body.inputSchema).validate(input)
    if (checked.kind === 'invalid')
      throw new ValidationError(`the input does not fit what ${definition} takes: ${checked.message}`)
  }
  return { id: stored.id, body }
}
