import { v7 as uuidv7 } from 'uuid'
import { approvalsService, type ApprovalsService } from './approvals/service.ts'
import type { SecretSource } from './connections/connection.ts'
import type { ConnectionProvider } from './connections/provider.ts'
import type { ConnectionAdministration } from './connections/repository.ts'
import type { ConnectionService } from './connections/service.ts'
import { envKeyProvider } from './connections/vault/env-keys.ts'
import type { VaultOptions } from './connections/vault/key-provider.ts'
import { connectionParts } from './connections/wiring.ts'
import { checkAccrual } from './decision/accrual.ts'
import { policyCatalogue, type PolicyCatalogue } from './policy/catalogue.ts'
import { policyEngine } from './policy/engine.ts'
import { cachedPolicy } from './policy/policy.ts'
import { replayRule, type ReplayRequest, type RuleReplay } from './policy/replay.ts'
import { observedApprovals } from './observing/observed-approvals.ts'
import { observedAmbient, observedLedger, observedUsage } from './observing/observed-calls.ts'
import { observedRuns, runOf } from './observing/observed-runs.ts'
import type { Observer } from './observing/observer.ts'
import { telling, type Tell } from './observing/telling.ts'
import type { JobProvider } from './provider-jobs/adapter.ts'
import type { JobEvents } from './provider-jobs/events.ts'
import { providerJobs, type ProviderJobs } from './provider-jobs/service.ts'
import type { LaneStore } from './runs/lane.ts'
import type { ChildStore } from './runs/workflow/child-store.ts'
import type { SignalStore } from './runs/workflow/signal-store.ts'
import type { StepStore } from './runs/workflow/step-store.ts'
import type { RunRow, RunStore } from './runs/run-store.ts'
import { currentScope, withScope } from './spans/ambient.ts'
import { liveEvents, type LiveEvents } from './spans/live-events.ts'
import type { SpanStore } from './spans/span-store.ts'
import { approvalStore } from './storage/approval-store.ts'
import { callLedger } from './storage/call-ledger.ts'
import { exclusiveRenewal } from './storage/connection-renewal.ts'
import { signInStore } from './storage/connection-sign-ins.ts'
import { connectionStore } from './storage/connection-store.ts'
import type { Database } from './storage/database.ts'
import { definitionStore, type DefinitionStore } from './storage/definition-store.ts'
import { grantStore, type GrantStore } from './storage/grant-store.ts'
import { laneStore } from './storage/lane-store.ts'
import { migrate } from './storage/migrate.ts'
import { organizationStore, type OrganizationStore } from './storage/organization-store.ts'
import { pastCalls } from './storage/past-calls.ts'
import { policySource } from './storage/policy-source.ts'
import { providerJobStore } from './storage/provider-job-store.ts'
import { ruleStore, type RuleStore } from './storage/rule-store.ts'
import { childStore } from './storage/child-run-store.ts'
import { signalStore } from './storage/run-signal-store.ts'
import { stepStore } from './storage/run-step-store.ts'
import { runStore } from './storage/run-store.ts'
import { spanStore } from './storage/span-store.ts'
import { usageWriter } from './storage/usage-writer.ts'
import { credentialStore } from './storage/vault-store.ts'
import { toolStore, type ToolStore } from './storage/tool-store.ts'
import { DefaultToolInvoker } from './tools/default-invoker.ts'
import type { ToolDeclaration } from './tools/declarations.ts'
import type { FactResolver } from './tools/handler.ts'
import type {
  AmbientSpans,
  CallLedger,
  ConnectionResolver,
  ErrorReporter,
  Logger,
  PolicyEngine,
  ToolInvoker,
} from './tools/invoker.ts'
import { buildRegistry, type ToolRegistry } from './tools/registry.ts'
import { priceBook, type PriceBook, type PriceTable } from './usage/prices.ts'

export interface CoreOptions {
  readonly database: Database
  readonly tools: readonly ToolDeclaration[]
  readonly facts?: readonly FactResolver[]
  /** Where credentials come from. Without one, a tool that declares a connection answers `connection_required`. */
  readonly secrets?: SecretSource
  /** Accounts that people of the organization can connect. */
  readonly providers?: readonly ConnectionProvider[]
  /** Seals the secrets of connections. Without one, no connection can be made with a secret. */
  readonly vault?: VaultOptions
  /** Vendors that finish work later, whose callbacks this deployment takes. */
  readonly jobProviders?: readonly JobProvider[]
  readonly prices?: PriceTable
  readonly logger?: Logger
  readonly reporter?: ErrorReporter
  readonly now?: () => Date
  /** Wraps each port of the decision path as it is wired: to trace, to count, to crash on purpose. */
  readonly instrument?: Instrument
  /** Told of calls, decisions, questions, turns and runs: for metrics, traces and logs. */
  readonly observers?: readonly Observer[]
}

export type Instrument = <T extends object>(
  port:
    | 'ledger'
    | 'policy'
    | 'connections'
    | 'usage'
    | 'runs'
    | 'steps'
    | 'children'
    | 'provider_jobs'
    | 'provider_events',
  implementation: T,
) => T

/** Every part of the decision path, wired to one database. Organization-neutral: each verb takes the organization. */
export interface Core {
  readonly database: Database
  readonly registry: ToolRegistry
  readonly invoker: ToolInvoker
  readonly ledger: CallLedger
  readonly policy: PolicyEngine
  readonly approvals: ApprovalsService
  readonly connections: ConnectionService
  readonly providerJobs: ProviderJobs
  readonly ambient: AmbientSpans
  readonly live: LiveEvents
  readonly prices: PriceBook
  readonly catalogue: PolicyCatalogue
  readonly stores: Stores
  /** What a draft of a rule would have decided about past calls. Writes nothing. */
  replayRule(request: ReplayRequest): Promise<RuleReplay>
  readonly logger: Logger
  readonly reporter: ErrorReporter
  readonly now: () => Date
  readonly newId: () => string
  /** Told when the model is asked for a turn, which writes nothing yet. */
  readonly onTurn: (turn: StartedTurn) => void
  /** Who is told when a run has a reason to go on. The runtime sets it; without one, nobody is waiting. */
  onWake(listener: (runId: string) => Promise<void>): void
}

export interface StartedTurn {
  readonly run: RunRow
  readonly spanId: string
  readonly startedAt: Date
}

export interface Stores {
  readonly organizations: OrganizationStore
  readonly definitions: DefinitionStore
  readonly grants: GrantStore
  readonly rules: RuleStore
  readonly tools: ToolStore
  readonly runs: RunStore
  readonly lanes: LaneStore
  readonly steps: StepStore
  readonly signals: SignalStore
  readonly children: ChildStore
  readonly spans: SpanStore
  readonly connections: ConnectionAdministration
}

/** Span identity, from the one ambient scope. */
const AMBIENT: AmbientSpans = { current: currentScope, enter: (span, work) => withScope(span, work) }

const SILENT: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

/**
 * Applies pending migrations and wires the parts.
 * @throws RegistryError names every fault of every tool
 * @throws ValidationError names every fault of every connection provider
 * @throws VaultKeyError for a vault key that is not usable
 */
export async function createCore(options: CoreOptions): Promise<Core> {
  const { database } = options
  await migrate(database)
  const shared = sharedOf(options)
  const facts = options.facts ?? []
  const instrument: Instrument = options.instrument ?? ((_port, implementation) => implementation)
  const observers = options.observers ?? []
  const tell = telling(observers, shared.logger)
  const ambient = observedAmbient(AMBIENT, observers)
  const stores = storesOf(database, instrument, tell)
  const registry = await buildRegistry(options.tools, { facts, versions: stores.tools })
  const catalogue = policyCatalogue(
    registry.names().flatMap((name) => registry.get(name) ?? []),
    facts,
  )
  const live = liveEvents()
  const written = instrument('ledger', callLedger(database, { newId: shared.newId, onSpan: live.changed }))
  const ledger = observedLedger(written, tell)
  const accounts = accountsOf(options, { store: stores.connections, ...shared })
  const connections: ConnectionResolver = instrument('connections', accounts.resolver)
  const source = policySource(database)
  const rules = { policy: cachedPolicy(source, catalogue), resolvers: registry.facts, logger: shared.logger }
  const policy = instrument('policy', policyEngine(rules))
  const invoker = new DefaultToolInvoker({
    registry,
    ledger,
    policy,
    connections,
    usage: observedUsage(instrument('usage', usageWriter(database)), tell),
    ambient,
    accrual: checkAccrual,
    ...shared,
  })
  let wake: (runId: string) => Promise<void> = () => Promise.resolve()
  const answered = approvalsService({ store: approvalStore(database), registry, wake: (runId) => wake(runId) })
  return {
    database,
    registry,
    invoker,
    ledger,
    policy,
    approvals: observedApprovals(answered, tell),
    connections: accounts.service,
    providerJobs: jobsOf(options, instrument, shared),
    ambient,
    live,
    prices: priceBook(options.prices),
    catalogue,
    stores,
    replayRule: (request) => replayRule({ past: pastCalls(database), source, registry, catalogue }, request),
    ...shared,
    onTurn: ({ run, spanId, startedAt }) =>
      tell({ kind: 'turn_started', ...runOf(run), spanId, model: run.snapshot.model, at: startedAt }),
    onWake: (listener) => {
      wake = listener
    },
  }
}

function jobsOf({ database, jobProviders }: CoreOptions, instrument: Instrument, shared: Shared): ProviderJobs {
  return providerJobs({
    providers: jobProviders ?? [],
    store: instrument('provider_jobs', providerJobStore(database)),
    instrument: (events: JobEvents) => instrument('provider_events', events),
    ...shared,
  })
}

type Shared = Pick<Core, 'logger' | 'reporter' | 'now' | 'newId'>

/** What every part is handed. */
function sharedOf(options: CoreOptions): Shared {
  const logger = options.logger ?? SILENT
  const reporter = options.reporter ?? {
    report: (error, context) => logger.error('a fault needs an operator', { error, ...context }),
  }
  return { logger, reporter, now: options.now ?? (() => new Date()), newId: () => uuidv7() }
}

interface AccountParts extends Pick<Core, 'logger' | 'now' | 'newId'> {
  readonly store: ConnectionAdministration
}

function accountsOf({ database, providers, secrets, vault }: CoreOptions, parts: AccountParts) {
  return connectionParts({
    ...parts,
    credentials: credentialStore(database),
    signIns: signInStore(database),
    exclusively: exclusiveRenewal(database),
    providers: providers ?? [],
    secrets: secrets ?? NO_SECRETS,
    keys: vault === undefined ? null : 'keys' in vault ? vault.keys : envKeyProvider(vault.key),
  })
}

const NO_SECRETS: SecretSource = { read: () => Promise.resolve({}) }

function storesOf(database: Database, instrument: Instrument, tell: Tell): Stores {
  return {
    organizations: organizationStore(database),
    definitions: definitionStore(database),
    grants: grantStore(database),
    rules: ruleStore(database),
    tools: toolStore(database),
    runs: observedRuns(instrument('runs', runStore(database)), tell),
    lanes: laneStore(database),
    steps: instrument('steps', stepStore(database)),
    signals: signalStore(database),
    children: instrument('children', childStore(database)),
    spans: spanStore(database),
    connections: connectionStore(database),
  }
}
