import type { Core } from './core.ts'
import type { DurableEngine } from './runs/engine.ts'
import { AgentExecutor } from './runs/executor.ts'
import { runManager, type Catalogue, type RunManager } from './runs/manager.ts'
import type { AgentFramework } from './runs/session.ts'

export interface RuntimeOptions {
  readonly frameworks: readonly AgentFramework[]
  readonly engine: DurableEngine
  /** `provider/model` for definitions that name none. */
  readonly defaultModel: string
  /** Seconds of silence after which a segment counts as dead. */
  readonly staleS?: number
  readonly beatS?: number
  readonly maxFailures?: number
}

/** Managed runs: start, park, resume, cancel. */
export interface Runtime {
  readonly runs: RunManager
  start(): Promise<void>
  /** Stops taking work, hangs up on model providers, and lets effects in flight settle for at most `graceMs`. */
  stop(graceMs?: number): Promise<void>
}

const STALE_S = 30
const BEAT_S = 5
const MAX_FAILURES = 5
const GRACE_MS = 10_000
const DUE_RUNS = 100

export function createRuntime(core: Core, options: RuntimeOptions): Runtime {
  const { engine } = options
  const staleS = options.staleS ?? STALE_S
  const executor = new AgentExecutor({
    store: core.stores.runs,
    invoker: core.invoker,
    ledger: core.ledger,
    policy: core.policy,
    ambient: core.ambient,
    frameworks: new Map(options.frameworks.map((framework) => [framework.name, framework])),
    prices: core.prices,
    reporter: core.reporter,
    logger: core.logger,
    now: core.now,
    newId: core.newId,
    onChange: core.live.changed,
    onText: core.live.text,
    staleS,
    beatS: options.beatS ?? BEAT_S,
    maxFailures: options.maxFailures ?? MAX_FAILURES,
  })
  // What there is to do is written on the run before anyone is told, so a wake-up that fails costs the time to the next
  // sweep and must not fail the answer it follows.
  const wake = (runId: string): Promise<void> =>
    engine
      .wake(runId)
      .catch((error: unknown) =>
        core.logger.warn('a run could not be woken; the next sweep finds it', { runId, error }),
      )
  core.onWake(wake)
  const runs = runManager({
    store: core.stores.runs,
    catalogue: catalogueOf(core),
    registry: core.registry,
    prices: core.prices,
    defaultModel: options.defaultModel,
    framework: options.frameworks[0]?.name ?? 'none',
    wake,
    now: core.now,
    newId: core.newId,
  })
  return {
    runs,
    async start() {
      await engine.start({
        advance: (runId) => executor.advance(runId),
        async sweep() {
          await core.approvals.expireDue()
          return core.stores.runs.due(staleS, DUE_RUNS)
        },
      })
    },
    async stop(graceMs = GRACE_MS) {
      executor.shutDown()
      await engine.stop(graceMs)
      await core.ledger.flush()
    },
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
