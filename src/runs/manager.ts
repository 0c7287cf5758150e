import { ValidationError } from '../tools/errors.ts'
import type { Actor, RunCeilings, RunSource } from '../tools/invocation.ts'
import type { JsonValue } from '../tools/json.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import type { PriceBook } from '../usage/prices.ts'
import { OPEN_STATUSES, type AgentDefinition } from './definition.ts'
import type { Lane } from './lane.ts'
import { publish } from './publish.ts'
import type { Page, RunListFilter, RunRow, RunStore } from './run-store.ts'
import { startRun } from './start.ts'
import type { ChildStore } from './workflow/child-store.ts'
import { SIGNAL_NAME, type WorkflowDefinition } from './workflow/definition.ts'
import type { SignalStore } from './workflow/signal-store.ts'

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
  /** `batch` for a run that nobody waits for, whatever its definition says; a lane above the definition's is refused. */
  readonly lane?: Lane
  /** A failed run in whose place it is started. */
  readonly retryOf?: string
}

export interface RunManager {
  /** @throws ValidationError names every tool that does not exist, and of a workflow every fault of every node */
  publish(
    organizationId: string,
    definition: AgentDefinition | WorkflowDefinition,
    by: Actor,
  ): Promise<{ readonly version: number }>
  /**
   * @throws NotFoundError unknown definition
   * @throws ValidationError an input over 256 kB, a ceiling or a lane above the definition's, a cost ceiling on a model without a price
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
  /**
   * Sends a signal to a workflow run, which keeps it until a wait of that name takes it. Null when there is no such run;
   * `accepted: false` when it had ended.
   * @throws ValidationError a name that is none, a payload over 64 kB, a run that is no workflow
   */
  signal(request: SendSignal): Promise<{ readonly accepted: boolean } | null>
}

export interface SendSignal {
  readonly organizationId: string
  readonly runId: string
  /** `^[a-z][a-z0-9_.-]{0,63}$` */
  readonly name: string
  readonly payload: JsonValue
  readonly by: Actor
}

export interface ManagerDependencies {
  readonly store: RunStore
  readonly children: ChildStore
  readonly signals: SignalStore
  readonly catalogue: Catalogue
  readonly registry: ToolRegistry
  readonly prices: PriceBook
  readonly defaultModel: string
  readonly framework: string
  readonly wake: (runId: string) => Promise<void>
  readonly now: () => Date
  readonly newId: () => string
}

const PAGE = 50
const MAX_SIGNAL_BYTES = 64 * 1024

export function runManager(deps: ManagerDependencies): RunManager {
  return {
    publish: (organizationId, definition, by) => publish(deps, { organizationId, definition, by }),
    start: (request) => startRun(deps, request),
    get: (organizationId, runId) => deps.store.get(organizationId, runId),
    list: (organizationId, filter = {}) => deps.store.list(organizationId, { limit: PAGE, cursor: null, ...filter }),
    async cancel(request) {
      if ((await deps.store.get(request.organizationId, request.runId)) === null) return null
      const outcome = await deps.store.requestCancel(request)
      if (outcome.accepted) for (const runId of [request.runId, ...outcome.below]) await deps.wake(runId)
      return { accepted: outcome.accepted, inFlight: outcome.inFlight }
    },
    signal: (request) => sendSignal(deps, request),
  }
}

async function sendSignal(deps: ManagerDependencies, request: SendSignal): Promise<{ accepted: boolean } | null> {
  const { organizationId, runId, name, payload, by } = request
  if (!SIGNAL_NAME.test(name))
    throw new ValidationError('a signal is named with lower case letters, digits, . _ and -, at most 64')
  if (Buffer.byteLength(JSON.stringify(payload)) > MAX_SIGNAL_BYTES)
    throw new ValidationError('the payload of a signal is at most 64 kB of JSON')
  const run = await deps.store.get(organizationId, runId)
  if (run === null) return null
  if (run.kind !== 'workflow') throw new ValidationError('only the runs of workflows take signals')
  if (!OPEN_STATUSES.includes(run.status)) return { accepted: false }
  const accepted = await deps.signals.send({ id: deps.newId(), organizationId, runId, name, payload, by })
  if (accepted) await deps.wake(runId)
  return { accepted }
}
