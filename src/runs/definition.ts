import type { Principal, RunCeilings, ToolSnapshot } from '../tools/invocation.ts'
import type { JsonObject } from '../tools/json.ts'
import type { Lane } from './lane.ts'
import type { WorkflowDefinition } from './workflow/definition.ts'

/** A published agent, before publication. */
export interface AgentDefinition {
  /** `^[a-z][a-z0-9-]{0,62}$`, unique in the organization. */
  readonly slug: string
  readonly instructions: string
  /** Platform names. The model sees these and nothing else. */
  readonly tools: readonly string[]
  /** `provider/model`, or null for the deployment's default (`BAILIFF_MODEL`). */
  readonly model: string | null
  readonly ceilings: RunCeilings
  /** `interactive` unless said otherwise. */
  readonly lane?: Lane
  /** JSON Schema of a run's input; absent takes any JSON. */
  readonly inputSchema?: JsonObject
}

/** What a run is frozen to when it starts. */
export interface RunSnapshot {
  readonly contracts: ToolSnapshot
  readonly principal: Principal
  readonly ceilings: RunCeilings
  readonly instructions: string
  readonly model: string
  readonly framework: string
  /** Of a workflow run: what there is to do. */
  readonly workflow?: Pick<WorkflowDefinition, 'root' | 'output'>
}

export const DEFAULT_CEILINGS: RunCeilings = {
  maxTurns: 20,
  maxToolCalls: 100,
  maxDurationS: 7 * 24 * 3600,
  maxCostCents: null,
}

export type RunStatus = 'queued' | 'running' | 'parked' | 'completed' | 'partial' | 'failed' | 'cancelled'

export const OPEN_STATUSES: readonly RunStatus[] = ['queued', 'running', 'parked']
