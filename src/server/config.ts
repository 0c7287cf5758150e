import { stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { SecretSource } from '../connections/connection.ts'
import type { ConnectionProvider } from '../connections/provider.ts'
import type { OutgoingGuard } from '../connections/outgoing.ts'
import type { LanguageModel } from '../frameworks/ai-sdk/index.ts'
import type { IntelligenceStore } from '../handlers/intelligence/index.ts'
import type { JobProvider } from '../provider-jobs/adapter.ts'
import type { ToolJobs } from '../provider-jobs/store.ts'
import type { RuleDraft } from '../policy/rule.ts'
import type { AgentDefinition } from '../runs/definition.ts'
import type { WorkflowDefinition } from '../runs/workflow/definition.ts'
import type { LaneLimits } from '../runs/lane.ts'
import type { RetentionSettings } from '../runs/retention.ts'
import type { Database } from '../storage/database.ts'
import type { OrganizationSettings } from '../storage/organization-store.ts'
import type { scopedDb } from '../storage/scoped-db.ts'
import type { ToolDeclaration } from '../tools/declarations.ts'
import type { FactResolver } from '../tools/handler.ts'
import type { ErrorReporter, Logger } from '../tools/invoker.ts'
import type { JsonValue } from '../tools/json.ts'
import type { PriceTable } from '../usage/prices.ts'
import type { VendorAccount } from '../usage/vendor-arithmetic.ts'
import type { VendorKeys } from './settings.ts'

/** What a deployment's `bailiff.config.ts` exports as its default. */
export interface BailiffConfig {
  /** For trying things out: without BAILIFF_VAULT_KEY, a key of the vault is made in the data folder. */
  readonly demo?: boolean
  /** Called once at start, with the schema in place and before anything else of the platform runs. */
  setup(services: AppServices): Promise<AppParts>
}

/** What the platform lends to a deployment while it builds its parts. */
export interface AppServices {
  readonly database: Database
  /** Absolute. For files of the deployment's own; the platform keeps its own files here too. */
  readonly dataDir: string
  /** Queries that see and touch rows of one organization only: what a handler should be given. */
  readonly scopedDb: (organizationId: string) => ReturnType<typeof scopedDb>
  /** What is publicly known about companies, for all organizations of this database: for `bailiff/handlers/intelligence`. */
  readonly intelligence: IntelligenceStore
  /** Work that vendors finish later, for the tools that submit and collect it. */
  readonly providerJobs: ToolJobs
  /** Where a vendor calls back about a job: under BAILIFF_PUBLIC_URL, else where this server listens. */
  readonly webhookUrl: (provider: string, jobId: string) => string
  /** Keys of vendors, from the environment; null where there is none. */
  readonly vendorKeys: VendorKeys
  /** The check of addresses that users, models and vendors can influence, for tools that need it. */
  readonly outgoing: (allow?: readonly string[]) => OutgoingGuard
  readonly logger: Logger
}

/** Everything a deployment brings. */
export interface AppParts {
  readonly tools: readonly ToolDeclaration[]
  readonly facts?: readonly FactResolver[]
  /** The rules kept in code. At every start the stored ones that came from here become exactly these; a person's stay. */
  readonly rules?: readonly RuleDraft[]
  /** Agents and workflows, published at every start; one that has not changed gets no new version. */
  readonly definitions?: readonly (AgentDefinition | WorkflowDefinition)[]
  /** The organization this deployment serves; `default` when absent. Settings left out stay as they are stored. */
  readonly organization?: OrganizationSeed
  /** Ensured by provider and label; settings of one that is there become these. */
  readonly connections?: readonly ConnectionSeed[]
  readonly secrets?: SecretSource
  /** Accounts that people can connect. Their secrets are sealed in the database, so a vault key is needed. */
  readonly providers?: readonly ConnectionProvider[]
  /** Vendors that finish work later, whose callbacks are taken. */
  readonly jobProviders?: readonly JobProvider[]
  readonly prices?: PriceTable
  /** How long runs and their traces stay: 13 months and 90 days unless set. An organization's own settings win. */
  readonly retention?: RetentionSettings
  /** Runs of the organization that may be active at the same time, over all processes; 8 and 4 unless given, or set by a person. */
  readonly lanes?: Partial<LaneLimits>
  /** What the vendors take at the same time, for `bailiff vendors arithmetic`. */
  readonly vendorAccounts?: readonly VendorAccount[]
  /** Where faults go that need an operator; Sentry when SENTRY_DSN is set and this is absent. */
  readonly reporter?: ErrorReporter
  /** Own model objects by full name, such as `scripted/outreach`; looked at before any provider. */
  readonly models?: Readonly<Record<string, LanguageModel>>
  /** For definitions that name no model, unless BAILIFF_MODEL says otherwise. */
  readonly defaultModel?: string
  /** Started once, on the first start of a new database. */
  readonly firstRun?: { readonly definition: string; readonly input: JsonValue }
  /** Lines printed at start: where mail lands, what is simulated. */
  readonly notices?: readonly string[]
  /** Ends what `setup` started. Called last, after every run has settled. */
  close?(): Promise<void>
}

export interface OrganizationSeed {
  /** `^[a-z][a-z0-9-]{0,62}$`. */
  readonly slug: string
  readonly name: string
  readonly settings?: Partial<OrganizationSettings>
}

export interface ConnectionSeed {
  readonly provider: string
  readonly label: string
  /** Public settings only. */
  readonly settings: Readonly<Record<string, string>>
}

/** Gives a config file its types; answers what it was given. */
export function defineConfig(config: BailiffConfig): BailiffConfig {
  return config
}

export type ConfigFault = 'missing' | 'not_a_file' | 'throws' | 'no_default' | 'not_a_config'

/** The config file cannot be used. The message names the file and says what to do. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly fault: ConfigFault
  constructor(fault: ConfigFault, message: string, options?: ErrorOptions) {
    super(message, options)
    this.fault = fault
  }
}

/** Looked for in this order when no path is given. */
export const CONFIG_NAMES = ['bailiff.config.ts', 'bailiff.config.js', 'bailiff.config.mjs'] as const

/** @throws ConfigError `missing` when the folder holds none of {@link CONFIG_NAMES} */
export async function findConfig(folder: string): Promise<string> {
  for (const name of CONFIG_NAMES) {
    const path = resolve(folder, name)
    if ((await kindOf(path)) === 'file') return path
  }
  throw new ConfigError(
    'missing',
    `there is no ${CONFIG_NAMES.join(', ')} in ${folder}; write one (export default defineConfig({ … }) from bailiff/server), or name a file with --config`,
  )
}

/** @throws ConfigError */
export async function loadConfig(path: string): Promise<BailiffConfig> {
  const file = resolve(path)
  const kind = await kindOf(file)
  if (kind === 'missing')
    throw new ConfigError('missing', `there is no config file ${file}; check the path given with --config`)
  if (kind === 'other') throw new ConfigError('not_a_file', `${file} is not a file; name the config file itself`)
  const loaded = await importFrom(file)
  if (!Object.hasOwn(loaded, 'default')) {
    throw new ConfigError(
      'no_default',
      `${file} has no default export; end it with: export default defineConfig({ … })`,
    )
  }
  const config: unknown = loaded['default']
  if (!isConfig(config)) {
    throw new ConfigError(
      'not_a_config',
      `the default export of ${file} has no setup function; export defineConfig({ async setup(services) { return { tools: […] } } })`,
    )
  }
  return config
}

async function importFrom(file: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(file).href)) as Record<string, unknown>
  } catch (cause) {
    throw new ConfigError('throws', `${file} cannot be loaded: ${messageOf(cause)}`, { cause })
  }
}

function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause)
  const code: unknown = Reflect.get(cause, 'code')
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION') {
    return `${cause.message}; this Node cannot load TypeScript, use Node 22.18 or newer, or write the config as .mjs`
  }
  return cause.message
}

function isConfig(value: unknown): value is BailiffConfig {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'setup') === 'function'
}

async function kindOf(path: string): Promise<'file' | 'other' | 'missing'> {
  try {
    return (await stat(path)).isFile() ? 'file' : 'other'
  } catch {
    return 'missing'
  }
}
