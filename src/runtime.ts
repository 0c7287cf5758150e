import type { Core } from './core.ts'
import { advanceDue, type AdvanceBudget, type Advanced } from './runs/advance.ts'
import type { Cron, DurableEngine, DurableJob, EngineWork } from './runs/engine.ts'
import { AgentExecutor } from './runs/executor.ts'
import { laneLimits, type BeginRules, type LaneLimits, type LaneOf } from './runs/lane.ts'
import { laneControl, type LaneControl } from './runs/lane-control.ts'
import { runManager, type Catalogue, type ManagerDependencies, type RunManager } from './runs/manager.ts'
import { NO_ENGINE } from './runs/no-engine.ts'
import type { AgentFramework } from './runs/session.ts'
import { startChild } from './runs/start.ts'
import type { Upkeep } from './runs/upkeep.ts'
import { WorkflowExecutor } from './runs/workflow/executor.ts'
import { dayCost } from './storage/day-cost.ts'
import { lookAtRun } from './storage/run-look.ts'

export interface RuntimeOptions {
  readonly frameworks: readonly AgentFramework[]
  /** Without one, nothing happens by itself: `advance` does what is due. */
  readonly engine?: DurableEngine
  /** `provider/model` for definitions that name none. */
  readonly defaultModel: string
  /** Seconds of silence after which a segment counts as dead. */
  readonly staleS?: number
  readonly beatS?: number
  readonly maxFailures?: number
  /** Runs of one organization that may be active at the same time, over all processes, unless it sets limits of its own. */
  readonly lanes?: Partial<LaneLimits>
  /** Named work that is tried until it succeeds or its retries are spent; `engine.enqueue` starts it. */
  readonly jobs?: Readonly<Record<string, DurableJob>>
  /** Work of the clock, once a tick over all processes. */
  readonly crons?: readonly Cron[]
  /** Retention and daily sums; without it, nothing old is removed. Looked after behind every sweep, never waited for by one. */
  readonly upkeep?: Upkeep
}

/** Managed runs: start, park, resume, cancel. */
export interface Runtime {
  readonly runs: RunManager
  readonly lanes: LaneControl
  start(): Promise<void>
  /** Does here and now what an engine would, for one organization. Safe to call at any time, from any number of processes. */
  advance(organizationId: string, budget?: AdvanceBudget): Promise<Advanced>
  readonly health: () => RuntimeHealth
  /** Takes no more work and hangs up on model providers, so that others go on with the runs; `stop` has to follow. */
  readonly leave: () => void
  /**
   * Stops taking work, hangs up on model providers, and lets effects in flight settle for at most `graceMs`. What has not
   * ended by then is given back, so that another process goes on with it at once.
   */
  stop(graceMs?: number): Promise<void>
}

export interface RuntimeHealth {
  readonly state: 'idle' | 'taking' | 'stopping'
  /** When due work was last looked for with success, by this process. */
  readonly lastSweepAt: Date | null
}

const STALE_S = 30
const BEAT_S = 5
const MAX_FAILURES = 5
const GRACE_MS = 10_000
const DUE_RUNS = 100

export function createRuntime(core: Core, options: RuntimeOptions): Runtime {
  const engine = options.engine ?? NO_ENGINE
  const rules: BeginRules = { staleS: options.staleS ?? STALE_S, lanes: laneLimits(options.lanes) }
  // What there is to do is written on the run before anyone is told, so a wake-up that fails costs the time to the next
  // sweep and must not fail the answer it follows.
  const wake = (runId: string): Promise<void> =>
    engine
      .wake(runId)
      .catch((error: unknown) =>
        core.logger.warn('a run could not be woken; the next sweep finds it', { runId, error }),
      )
  core.onWake(wake)
  if (options.engine !== undefined)
    core.providerJobs.attach({ enqueue: (name, payload, how) => engine.enqueue(name, payload, how), wake })
  const lanes = laneControl({ store: core.stores.lanes, limits: rules.lanes, wake, logger: core.logger })
  const managing = managingOf(core, options, wake)
  const runs = runManager(managing)
  const executor = executorOf(core, options, { managing, rules, freed: (lane) => lanes.freed(lane), wake })
  let state: RuntimeHealth['state'] = 'idle'
  let lastSweepAt: Date | null = null
  const leave = (): void => {
    state = 'stopping'
    executor.shutDown()
  }
  return {
    runs,
    lanes,
    health: () => ({ state, lastSweepAt }),
    advance: (organizationId, budget) =>
      advanceDue(
        {
          due: (limit) => core.stores.runs.due(rules, limit, organizationId),
          expireDue: () => core.approvals.expireDue(),
          executor,
        },
        budget,
      ),
    async start() {
      await engine.start(workOf(core, options, { executor, rules, swept: (at) => (lastSweepAt = at) }))
      state = 'taking'
    },
    leave,
    async stop(graceMs = GRACE_MS) {
      leave()
      await engine.stop(graceMs)
      await executor.handOver()
      await options.upkeep?.stop()
      await core.ledger.flush()
    },
  }
}

function managingOf(core: Core, options: RuntimeOptions, wake: (runId: string) => Promise<void>): ManagerDependencies {
  return {
    store: core.stores.runs,
    children: core.stores.children,
    signals: core.stores.signals,
    catalogue: catalogueOf(core),
    registry: core.registry,
    prices: core.prices,
    defaultModel: options.defaultModel,
    framework: options.frameworks[0]?.name ?? 'none',
    wake,
    now: core.now,
    newId: core.newId,
  }
}

interface ExecutorParts {
  readonly managing: ManagerDependencies
  readonly rules: BeginRules
  readonly freed: (lane: LaneOf) => Promise<void>
  readonly wake: (runId: string) => Promise<void>
}

function executorOf(
  core: Core,
  options: RuntimeOptions,
  { managing, rules, freed, wake }: ExecutorParts,
): AgentExecutor {
  return new AgentExecutor({
    store: core.stores.runs,
    invoker: core.invoker,
    ledger: core.ledger,
    policy: core.policy,
    ambient: core.ambient,
    frameworks: new Map(options.frameworks.map((framework) => [framework.name, framework])),
    workflows: new WorkflowExecutor({
      steps: core.stores.steps,
      signals: core.stores.signals,
      children: core.stores.children,
      jobs: core.providerJobs.listing,
      startChild: (child) => startChild(managing, child),
      invoker: core.invoker,
      ambient: core.ambient,
      now: core.now,
      onChange: core.live.changed,
    }),
    dayCost: dayCost(core.database),
    wake,
    prices: core.prices,
    reporter: core.reporter,
    logger: core.logger,
    now: core.now,
    newId: core.newId,
    onChange: core.live.changed,
    onText: core.live.text,
    onTurn: core.onTurn,
    rules,
    beatS: options.beatS ?? BEAT_S,
    freed,
    maxFailures: options.maxFailures ?? MAX_FAILURES,
  })
}

interface WorkParts {
  readonly executor: AgentExecutor
  readonly rules: BeginRules
  readonly swept: (at: Date) => void
}

function workOf(core: Core, options: RuntimeOptions, { executor, rules, swept }: WorkParts): EngineWork {
  return {
    advance: (runId) => executor.advance(runId),
    async sweep() {
      await core.approvals.expireDue()
      const due = await core.stores.runs.due(rules, DUE_RUNS)
      swept(core.now())
      options.upkeep?.tick()
      return due
    },
    look: (runId) => lookAtRun(core.database, runId),
    async gaveUp(runId, fault) {
      core.reporter.report(fault, { runId, part: 'engine' })
    },
    jobs: { ...core.providerJobs.work, ...options.jobs },
    crons: options.crons ?? [],
  }
}

/** Definitions and grants as the run manager sees them. */
function catalogueOf(core: Core): Catalogue {
  const { definitions, grants } = core.stores
  return {
    publish: (definition) => definitions.publish({ id: core.newId(), ...definition }),
    latest: (organizationId, slug) => definitions.latest(organizationId, slug),
    async slugs(organizationId) {
      return (await definitions.list(organizationId)).map((definition) => definition.slug)
    },
    async grantInitially({ organizationId, definition, tools, by }) {
      for (const tool of tools) await grants.initial({ id: core.newId(), organizationId, definition, tool, by })
    },
    async granted(organizationId, definition) {
      const held = await grants.list(organizationId, definition)
      return new Set(held.filter((grant) => grant.revokedAt === null).map((grant) => grant.tool))
    },
  }
}
