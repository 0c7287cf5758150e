import { ValidationError } from '../tools/errors.ts'
import type { Actor, Principal, RunCeilings, ToolSnapshot } from '../tools/invocation.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import type { PriceBook } from '../usage/prices.ts'
import { DEFAULT_CEILINGS, type AgentDefinition, type RunSnapshot } from './definition.ts'
import { isWorkflow, WORKFLOW_FRAMEWORK, type WorkflowDefinition } from './workflow/definition.ts'
import { nodesIn } from './workflow/tree.ts'

/** A workflow as it is stored: with the tools it may call, its own and those of the agents it starts. */
export type StoredWorkflow = Omit<WorkflowDefinition, 'slug'> & { readonly tools: readonly string[] }
export type StoredBody = Omit<AgentDefinition, 'slug'> | StoredWorkflow

export interface Freezer {
  readonly registry: ToolRegistry
  readonly prices: PriceBook
  readonly defaultModel: string
  readonly framework: string
  readonly catalogue: { granted(organizationId: string, definition: string): Promise<ReadonlySet<string>> }
}

/** Whom and what a run is frozen for. */
export interface Freezing {
  readonly organizationId: string
  readonly definition: string
  readonly startedBy: Actor
  readonly userId: string | null
  readonly roles: readonly string[]
  /** What the run that starts this one may call; null for a root. */
  readonly within: readonly string[] | null
  /** Given the definition's, answers the run's. @throws ValidationError */
  readonly ceilings: (defined: RunCeilings) => RunCeilings
}

/** Freezes what the run is shown: contracts as they are now, and an authority that is the grant of this moment. */
export async function freeze(freezer: Freezer, freezing: Freezing, body: StoredBody): Promise<RunSnapshot> {
  const { organizationId, definition, within } = freezing
  const granted = await freezer.catalogue.granted(organizationId, definition)
  const scopes = body.tools.filter((tool) => granted.has(tool) && (within === null || within.includes(tool)))
  const { startedBy, userId, roles } = freezing
  const principal: Principal = { agent: definition, userId, roles, scopes, startedBy }
  const ceilings = freezing.ceilings({ ...DEFAULT_CEILINGS, ...body.ceilings })
  if (isWorkflow(body)) return { ...workflowParts(freezer, body), principal, ceilings }
  return { ...agentParts(freezer, body, ceilings), principal, ceilings }
}

type Parts = Omit<RunSnapshot, 'principal' | 'ceilings'>

function agentParts(freezer: Freezer, body: Omit<AgentDefinition, 'slug'>, ceilings: RunCeilings): Parts {
  const model = body.model ?? freezer.defaultModel
  if (ceilings.maxCostCents !== null && !freezer.prices.knows(model)) {
    throw new ValidationError(
      `a cost ceiling needs a price for ${model}; add it to the price table or drop maxCostCents`,
    )
  }
  const contracts = contractsOf(freezer, body.tools)
  return { contracts, instructions: body.instructions, model, framework: freezer.framework }
}

/** No model speaks in a workflow itself, and what its agents may call is frozen when they start. */
function workflowParts(freezer: Freezer, { root, output }: StoredWorkflow): Parts {
  const called = nodesIn(root).flatMap((node) => (node.kind === 'tool' ? [node.tool] : []))
  const workflow = { root, ...(output === undefined ? {} : { output }) }
  const contracts = contractsOf(freezer, [...new Set(called)])
  return { contracts, instructions: '', model: WORKFLOW_FRAMEWORK, framework: WORKFLOW_FRAMEWORK, workflow }
}

function contractsOf({ registry }: Freezer, tools: readonly string[]): ToolSnapshot {
  return Object.fromEntries(registry.resolve(tools).map((contract) => [contract.name, contract]))
}

/** @throws ValidationError for a ceiling above the definition's */
export function lowered(base: RunCeilings, wanted: Partial<RunCeilings>): RunCeilings {
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
