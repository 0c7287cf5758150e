import { hostname } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { createCore, type Core } from '../core.ts'
import { aiSdkFramework } from '../frameworks/ai-sdk/index.ts'
import type { Observer } from '../observing/observer.ts'
import { createRuntime, type Runtime } from '../runtime.ts'
import { identityStore, type IdentityStore } from '../storage/identity-store.ts'
import type { Organization } from '../storage/organization-store.ts'
import type { Database } from '../storage/database.ts'
import { databaseUpkeep } from '../storage/database-upkeep.ts'
import { sha256Hex } from '../tools/canonical.ts'
import { sentryReporter } from '../reporters/sentry.ts'
import { loggedToo } from './logged-reports.ts'
import type { ErrorReporter, Logger } from '../tools/invoker.ts'
import { announcement, closingLines } from './announcement.ts'
import { createApp, type App } from './app.ts'
import type { MetricsPage } from './app-env.ts'
import { appServices } from './app-services.ts'
import type { AppParts, BailiffConfig } from './config.ts'
import { deployOrganization, deployParts } from './deployment.ts'
import { settled, startFirstRun, welcome, type Welcome } from './first-start.ts'
import { type Door, openDoor } from './door.ts'
import { chooseEngine, type ChosenEngine } from './engine-choice.ts'
import { isLoopback } from './loopback.ts'
import { loggedEvents } from './logged-events.ts'
import { serverLogger } from './logger.ts'
import { serverMetrics, type Metrics } from './metrics/metrics.ts'
import { isScripted, modelFinder } from './models.ts'
import { openDatabase, recover } from './open-database.ts'
import { watchForRestore, type RestoreWatch } from './restore-watch.ts'
import { readinessOf, type Readiness } from './readiness.ts'
import { removeServerFile, writeServerFile, type ServerFile } from './server-file.ts'
import type { Settings } from './settings.ts'
import { startTracing } from './tracing.ts'
import { vaultFor, type VaultKey } from './vault-key.ts'

export interface PlatformOptions {
  readonly settings: Settings
  readonly config: BailiffConfig
  /** Told what a person should read, line by line. */
  readonly announce: (line: string) => void
  readonly logger?: Logger
  /** Milliseconds effects in flight may take to settle at a stop; the settings' when absent. */
  readonly graceMs?: number
}

/** A running server with everything behind it. */
export interface Platform {
  readonly url: string
  /** Signs the owner in, once. */
  readonly consoleUrl: string
  /** An admin key, on the first start alone. */
  readonly apiKey: string | null
  readonly app: App
  readonly core: Core
  readonly runtime: Runtime
  readonly identities: IdentityStore
  readonly organization: Organization
  /** Ends what the start began, last first. Safe to call twice. */
  stop(): Promise<void>
}

/** The start could not be finished for a reason a person can mend. */
export class PlatformError extends Error {
  override readonly name = 'PlatformError'
}

/** Long enough for a scripted run to reach its first question; a real model's run is announced as running. */
const FIRST_RUN_MS = 10_000
const WAITING_SHOWN = 50

/** Milliseconds reports may take to leave at a stop. */
const REPORTS_MS = 2_000

type Ending = () => Promise<void>

/**
 * Takes the port, opens the database, deploys the config, and starts taking work. What was begun is ended again when a
 * later step fails.
 *
 * @throws ListenError, DataFolderInUse, DatabaseUnavailable, MigrationRefused, RegistryError, ValidationError, PlatformError
 */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const endings: Ending[] = []
  const logger = options.logger ?? serverLogger('warn')
  const stop = once(() => endAll(endings, logger))
  try {
    const parts = await begin({ ...options, logger, graceMs: options.graceMs ?? options.settings.graceMs }, endings)
    return { ...parts, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type Begin = PlatformOptions & { readonly logger: Logger; readonly graceMs: number }

async function begin(options: Begin, endings: Ending[]): Promise<Omit<Platform, 'stop'>> {
  const { settings, logger, graceMs } = options
  const door = await openDoor({ host: settings.host, port: settings.port, graceMs })
  endings.push(() => door.close())
  const { database, engine } = await openDatabase(settings, logger)
  endings.push(() => database.close())
  await recover(database, logger)
  const watch = await watchForRestore({ database, dataDir: settings.dataDir, logger })
  endings.push(() => watch.tick())
  const publicUrl = settings.publicUrl ?? door.url
  const parts = await setUp(options, database, publicUrl)
  endings.push(async () => parts.close?.())
  const vault = await vaultFor({ settings, demo: options.config.demo === true, parts, database })
  const reporter = await reporterOf(options, parts, endings)
  const metrics = settings.metrics.on ? serverMetrics() : null
  const observers = await observersOf(options, metrics, endings)
  const core = await coreOf({ parts, vault, reporter, observers }, database, logger)
  const organization = await deployOrganization(core, parts.organization)
  const model = await chooseModel(settings, parts)
  const chosen = await chooseEngine(settings, { database: engine, logger, publicUrl })
  const runtime = createRuntime(core, {
    frameworks: [aiSdkFramework({ resolveModel: model.find })],
    engine: chosen.engine,
    defaultModel: model.name,
    ...(parts.lanes === undefined ? {} : { lanes: parts.lanes }),
    upkeep: databaseUpkeep(database, {
      retention: parts.retention,
      everyMinute: () => watch.tick(),
      logger,
      reporter: core.reporter,
      now: core.now,
    }),
  })
  await deployParts(core, runtime, { organizationId: organization.id, parts })
  const identities = identityStore(database)
  const serving = { core, runtime, identities, model: model.name, url: door.url }
  const readiness = readinessOf({ database, engine: runtime.health, logger })
  const page = metrics === null ? null : metricsPage(metrics, { ...serving, organizationId: organization.id, settings })
  const app = appOf(serving, { settings, door, readiness, page, inngest: chosen.inngest })
  endings.push(() => runtime.stop(graceMs))
  await runtime.start()
  await leaveServerFile({ ...serving, settings, organizationId: organization.id }, endings)
  // The last ending is the first to run: no request may meet a runtime that has stopped.
  endings.push(() => door.close())
  // Before the door: whoever spreads requests has to notice while they are still answered.
  endings.push(() => takeLeave({ readiness, runtime, drainMs: settings.drainMs }))
  door.admit(app)
  const { token, apiKey } = await announce(options, { ...serving, organization, parts, vault, restore: watch })
  const consoleUrl = `${door.url}/?token=${token}`
  return { url: door.url, consoleUrl, apiKey, app, core, runtime, identities, organization }
}

function setUp({ config, settings, logger }: Begin, database: Database, url: string): Promise<AppParts> {
  return config.setup(appServices({ database, dataDir: settings.dataDir, logger, settings, url }))
}

interface Leaving {
  readonly readiness: Readiness
  readonly runtime: Runtime
  readonly drainMs: number
}

/** Not ready, and no new work, at once; requests are answered for `drainMs` more. */
async function takeLeave({ readiness, runtime, drainMs }: Leaving): Promise<void> {
  readiness.stopping()
  runtime.leave()
  if (drainMs > 0) await pause(drainMs)
}

/** Metrics, traces and log lines. What traces are left is sent at the end. */
async function observersOf(
  { settings, logger }: Begin,
  metrics: Metrics | null,
  endings: Ending[],
): Promise<readonly Observer[]> {
  const observers: Observer[] = [loggedEvents(logger)]
  if (metrics !== null) observers.push(metrics.observer)
  if (settings.traces) {
    const tracing = await startTracing()
    endings.push(() => tracing.shutdown())
    observers.push(tracing.observer)
  }
  return observers
}

function metricsPage(
  metrics: Metrics,
  {
    core,
    runtime,
    organizationId,
    settings,
  }: Serving & { readonly organizationId: string; readonly settings: Settings },
): MetricsPage {
  const { database, registry, now } = core
  const knows = (tool: string): boolean => registry.get(tool) !== undefined
  const { render } = metrics.attach({ database, engine: runtime.health, knows, now })
  return { render, token: settings.metrics.token, organizationId }
}

interface CoreParts {
  readonly observers: readonly Observer[]
  readonly parts: AppParts
  readonly vault: VaultKey | null
  readonly reporter: ErrorReporter | null
}

/** Null leaves faults to the log. What was reported is waited for at the end: capturing only queues it. */
async function reporterOf({ settings }: Begin, parts: AppParts, endings: Ending[]): Promise<ErrorReporter | null> {
  if (parts.reporter !== undefined) return parts.reporter
  if (settings.sentryDsn === null) return null
  const sentry = await sentryReporter({ dsn: settings.sentryDsn })
  endings.push(async () => void (await sentry.flush(REPORTS_MS)))
  return sentry
}

function coreOf({ parts, vault, reporter, observers }: CoreParts, database: Database, logger: Logger): Promise<Core> {
  return createCore({
    database,
    logger,
    observers,
    tools: parts.tools,
    ...(parts.facts === undefined ? {} : { facts: parts.facts }),
    ...(parts.secrets === undefined ? {} : { secrets: parts.secrets }),
    ...(parts.providers === undefined ? {} : { providers: parts.providers }),
    ...(vault === null ? {} : { vault: { keys: vault.keys } }),
    ...(parts.jobProviders === undefined ? {} : { jobProviders: parts.jobProviders }),
    ...(parts.prices === undefined ? {} : { prices: parts.prices }),
    ...(reporter === null ? {} : { reporter: loggedToo(reporter, logger) }),
  })
}

/** Names the default model, and finds out now rather than in the first run whether it can be reached at all. */
async function chooseModel(
  settings: Settings,
  parts: AppParts,
): Promise<{ readonly name: string; readonly find: ReturnType<typeof modelFinder> }> {
  const name = settings.model ?? parts.defaultModel
  if (name === undefined)
    throw new PlatformError('no model: set BAILIFF_MODEL=provider/model, or give the config a defaultModel')
  const find = modelFinder(settings, parts.models)
  try {
    await find(name)
  } catch (error) {
    throw new PlatformError(error instanceof Error ? error.message : String(error), { cause: error })
  }
  return { name, find }
}

interface Serving {
  readonly core: Core
  readonly runtime: Runtime
  readonly identities: IdentityStore
  readonly model: string
  readonly url: string
}

interface Facing {
  readonly settings: Settings
  readonly door: Door
  readonly readiness: Readiness
  readonly page: MetricsPage | null
  readonly inngest: ChosenEngine['inngest']
}

function appOf(
  { core, runtime, identities, model }: Serving,
  { settings, door, readiness, page, inngest }: Facing,
): App {
  return createApp({
    core,
    runs: runtime.runs,
    lanes: runtime.lanes,
    identities,
    closing: door.closing,
    readiness,
    ...(page === null ? {} : { metrics: page }),
    ...(inngest === null ? {} : { inngest }),
    about: { model, scripted: isScripted(model), database: core.database.dialect },
    hosting: {
      loopback: isLoopback(settings.host),
      trustProxy: settings.trustProxy,
      publicUrl: settings.publicUrl ?? door.url,
      cookieName: `bailiff_session_${door.port}`,
    },
  })
}

interface LeavingFile extends Serving {
  readonly settings: Settings
  readonly organizationId: string
}

/** The command line's way in: a secret that lives as long as this server, in a file only its owner reads. */
async function leaveServerFile(
  { settings, identities, organizationId, url }: LeavingFile,
  endings: Ending[],
): Promise<void> {
  const name = `command line ${sha256Hex(`${hostname()}:${settings.dataDir}`).slice(0, 6)}`
  const { secret } = await identities.rotateApiKey({ organizationId, kind: 'admin', name })
  const file: ServerFile = { url, pid: process.pid, apiKey: secret, startedAt: new Date().toISOString() }
  endings.push(async () => {
    await removeServerFile(settings.dataDir, file)
    await identities.retireSecret(secret)
  })
  await writeServerFile(settings.dataDir, file)
}

interface Announcing extends Serving {
  readonly organization: Organization
  readonly parts: AppParts
  readonly vault: VaultKey | null
  readonly restore: RestoreWatch
}

async function announce(
  options: Begin,
  { core, runtime, identities, organization, parts, vault, restore, model, url }: Announcing,
): Promise<Welcome> {
  const { settings } = options
  const say = (lines: readonly string[]): void => lines.forEach((line) => options.announce(line))
  const welcomed = await welcome(identities, organization.id)
  say(
    announcement({
      url,
      ...welcomed,
      model,
      modelChosen: settings.model !== null,
      database: core.database,
      selfApproval: organization.settings.selfApproval,
      notices: [...restore.notices, ...(parts.notices ?? []), ...(vault?.notices ?? [])],
      warnings: settings.warnings,
      openTo: isLoopback(settings.host) || settings.trustProxy ? null : settings.host,
    }),
  )
  const isFirst = welcomed.apiKey !== null
  const run =
    isFirst && parts.firstRun !== undefined ? await startFirstRun(runtime, organization.id, parts.firstRun) : null
  const firstRun = run === null ? null : await settled(core, run, FIRST_RUN_MS)
  const pending = await core.approvals.list(organization.id, { state: 'pending', limit: WAITING_SHOWN })
  say(closingLines({ url, firstRun, waiting: { count: pending.items.length, more: pending.nextCursor !== null } }))
  return welcomed
}

/** Each step is tried, whatever became of the one before: a stop must not leave half of the platform running. */
async function endAll(endings: Ending[], logger: Logger): Promise<void> {
  for (const end of endings.splice(0).toReversed()) {
    try {
      await end()
    } catch (error) {
      logger.error('a part could not be stopped cleanly', { error })
    }
  }
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined
  return () => (done ??= work())
}
