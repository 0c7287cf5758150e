import type { Core } from './core.ts'
import type { AgentDefinition } from './runs/definition.ts'
import type { AdvanceBudget, Advanced } from './runs/advance.ts'
import type { Lane } from './runs/lane.ts'
import type { Page, RunListFilter, RunRow } from './runs/run-store.ts'
import type { AgentFramework } from './runs/session.ts'
import { createRuntime } from './runtime.ts'
import type { Actor, RunCeilings } from './tools/invocation.ts'
import type { JsonValue } from './tools/json.ts'

/** Agents whose model Bailiff asks itself, in a program that brings no engine. */
export interface ManagedAgents {
  readonly frameworks: readonly AgentFramework[]
  /** `provider/model` for definitions that name none. */
  readonly defaultModel: string
  /** Published when they changed. */
  readonly definitions?: readonly AgentDefinition[]
  /** Seconds of silence after which a run counts as abandoned; 30 when absent. Longer than the longest stop of the process. */
  readonly staleS?: number
}

export interface StartManaged {
  /** Slug of a definition. */
  readonly agent: string
  readonly input: JsonValue
  readonly by?: { readonly id: string; readonly name: string; readonly roles?: readonly string[] }
  readonly ceilings?: Partial<RunCeilings>
  readonly lane?: Lane
}

export interface ManagedRuns {
  /** Queues a run; `advance` does its work. @throws NotFoundError, ValidationError */
  start(run: StartManaged): Promise<RunRow>
  get(runId: string): Promise<RunRow | null>
  list(filter?: Partial<RunListFilter>): Promise<Page<RunRow>>
  /** Null when there is no such run; `accepted: false` when it had ended. */
  cancel(runId: string, reason?: string): Promise<{ readonly accepted: boolean; readonly inFlight: number } | null>
}

export interface Managed {
  readonly runs: ManagedRuns
  readonly advance: (budget?: AdvanceBudget) => Promise<Advanced>
  stop(): Promise<void>
}

const CODE: Actor = { kind: 'system', id: 'code', name: 'code' }

/** @throws ValidationError for a definition that cannot be published */
export async function manageAgents(core: Core, organizationId: string, agents: ManagedAgents): Promise<Managed> {
  const { frameworks, defaultModel, definitions = [], staleS } = agents
  const runtime = createRuntime(core, { frameworks, defaultModel, ...(staleS === undefined ? {} : { staleS }) })
  for (const definition of definitions) await runtime.runs.publish(organizationId, definition, CODE)
  await runtime.start()
  return {
    runs: {
      start: ({ agent, input, by, ceilings, lane }) =>
        runtime.runs.start({
          organizationId,
          definition: agent,
          input,
          startedBy: by === undefined ? CODE : { kind: 'user', id: by.id, name: by.name },
          source: 'api',
          ...(by?.roles === undefined ? {} : { roles: by.roles }),
          ...(ceilings === undefined ? {} : { ceilings }),
          ...(lane === undefined ? {} : { lane }),
        }),
      get: (runId) => runtime.runs.get(organizationId, runId),
      list: (filter) => runtime.runs.list(organizationId, filter),
      cancel: (runId, reason) => runtime.runs.cancel({ organizationId, runId, reason: reason ?? null, by: CODE }),
    },
    advance: (budget) => runtime.advance(organizationId, budget),
    stop: () => runtime.stop(),
  }
}

/** For a program that governs its own loop alone. */
export function noAgents(): Managed {
  const refuse = (): Promise<never> =>
    Promise.reject(new Error('createBailiff was given no agents, so there are no runs of its own to start or advance'))
  return {
    runs: { start: refuse, get: refuse, list: refuse, cancel: refuse },
    advance: refuse,
    stop: () => Promise.resolve(),
  }
}
