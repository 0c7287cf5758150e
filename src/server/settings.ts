import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { z } from 'zod'
import { envKeyProvider, VaultKeyError } from '../connections/vault/env-keys.ts'
import { allowancesOf } from '../connections/outgoing-address.ts'
import { didYouMean } from '../policy/suggest.ts'
import { INNGEST_VARIABLES, inngestSettings, inngestWarnings, type InngestSettings } from './inngest-settings.ts'
import { isLoopback } from './loopback.ts'
import { LOG_LEVELS, type LogLevel } from './log-level.ts'

/** Everything the platform takes from its environment, checked once. */
export interface Settings {
  readonly port: number
  readonly host: string
  /** Absolute. */
  readonly dataDir: string
  /** Null keeps the data in the data folder. */
  readonly databaseUrl: string | null
  /**
   * The same database, past a pooler that shares connections between transactions: for migrations, the queue and whatever
   * else needs a connection of its own. Null where `databaseUrl` is direct.
   */
  readonly databaseUrlDirect: string | null
  /** `provider/model`, or null for the model of the config file. */
  readonly model: string | null
  readonly modelBaseUrl: string | null
  readonly keys: ModelKeys
  readonly engine: 'embedded' | 'inngest'
  /** Null unless `engine` is Inngest. */
  readonly inngest: InngestSettings | null
  /** Believe `X-Forwarded-For`, `-Proto` and `-Host`, and leave checking the host name to the proxy. */
  readonly trustProxy: boolean
  /** Where people and providers reach the server, without a path; null where it is the address it listens on. */
  readonly publicUrl: string | null
  /** Keys of the vault, the current one first; null where nothing needs them. */
  readonly vaultKey: string | null
  /** Keys of data vendors. */
  readonly vendorKeys: VendorKeys
  /** Destinations that are let out although they are not public. */
  readonly outgoingAllow: readonly string[]
  /** Null reports faults to the log alone. */
  readonly sentryDsn: string | null
  readonly metrics: MetricsSettings
  /** Null takes what the command says. */
  readonly logLevel: LogLevel | null
  /** Milliseconds a stopping server goes on answering after it has said that it is not ready. */
  readonly drainMs: number
  /** Milliseconds effects in flight may take to settle at a stop. */
  readonly graceMs: number
  /** Spans are exported: OTEL_EXPORTER_OTLP_ENDPOINT is set, which the exporter itself reads. */
  readonly traces: boolean
  /** For a person: variables that look like settings and are none. */
  readonly warnings: readonly string[]
}

export interface ModelKeys {
  readonly openai: string | null
  readonly anthropic: string | null
  readonly google: string | null
  /** For the model that BAILIFF_MODEL names, whichever provider it is of. */
  readonly model: string | null
}

export interface VendorKeys {
  readonly exa: string | null
  readonly parallel: string | null
  readonly firecrawl: string | null
  readonly hunter: string | null
  readonly nylas: string | null
  readonly fullenrich: string | null
  /** The secret that Parallel signs callbacks with, which is not its key. */
  readonly parallelWebhook: string | null
}

export interface MetricsSettings {
  readonly on: boolean
  /** Lets whoever scrapes in, beside keys of administrators. */
  readonly token: string | null
}

export interface SettingProblem {
  readonly variable: string
  /** What is wrong and what to write instead. Never repeats a value that may be a secret. */
  readonly message: string
}

/** Names every wrong variable at once. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError'
  readonly problems: readonly SettingProblem[]
  constructor(problems: readonly SettingProblem[]) {
    super(problems.map(({ variable, message }) => `${variable}: ${message}`).join('\n'))
    this.problems = problems
  }
}

const port = z
  .string()
  .regex(/^\d{1,5}$/)
  .transform(Number)
  .refine((value) => value <= 65_535)

const yesNo = z
  .enum(['true', 'false', '1', '0', 'yes', 'no'])
  .transform((value) => ['true', '1', 'yes'].includes(value))

const webUrl = z.string().refine((text) => {
  const url = URL.parse(text)
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:')
})

const origin = webUrl.transform((text) => new URL(text)).refine((url) => url.href === `${url.origin}/`)

const vaultKey = z.string().refine((text) => {
  try {
    envKeyProvider(text)
    return true
  } catch (error) {
    if (error instanceof VaultKeyError) return false
    throw error
  }
})

const allowances = z
  .string()
  .transform((text) => text.split(',').map((entry) => entry.trim()))
  .refine((entries) => {
    try {
      allowancesOf(entries)
      return true
    } catch {
      return false
    }
  })

const vendorKey = { schema: z.string().regex(/^[\x21-\x7e]{1,512}$/), remedy: 'write the key of the vendor' }

const databaseUrl = z.string().regex(/^postgres(ql)?:\/\//)

const wholeSeconds = (most: number) => z.coerce.number().int().min(0).max(most)

/** What each variable takes; the text is the remedy a person reads when it holds something else. */
const VARIABLES = {
  BAILIFF_PORT: { schema: port, remedy: 'write a port from 0 to 65535 (0 takes a free one); without it, 4400' },
  BAILIFF_HOST: {
    schema: z.string().regex(/^[A-Za-z0-9.:-]{1,253}$/),
    remedy: 'write a host name or address to listen on; without it, 127.0.0.1',
  },
  BAILIFF_DATA_DIR: { schema: z.string(), remedy: 'write a folder; without it, ./.bailiff' },
  DATABASE_URL: {
    schema: databaseUrl,
    remedy: 'write postgres://user:password@host:5432/database, or leave it out for the embedded database',
  },
  DATABASE_URL_DIRECT: {
    schema: databaseUrl,
    remedy: 'write the address of the same database without its pooler, or leave it out where there is none',
  },
  BAILIFF_MODEL: {
    schema: z.string().regex(/^[a-z][a-z0-9-]*\/\S+$/),
    remedy:
      'write provider/model, such as openai/<model>, anthropic/<model>, google/<model> or openai-compatible/<model>',
  },
  BAILIFF_MODEL_BASE_URL: {
    schema: webUrl,
    remedy: 'write the http(s) address of the API, version path included, such as http://127.0.0.1:11434/v1',
  },
  BAILIFF_MODEL_API_KEY: { schema: z.string(), remedy: 'write the key of the model’s provider' },
  OPENAI_API_KEY: { schema: z.string(), remedy: 'write the key of the provider' },
  ANTHROPIC_API_KEY: { schema: z.string(), remedy: 'write the key of the provider' },
  GOOGLE_GENERATIVE_AI_API_KEY: { schema: z.string(), remedy: 'write the key of the provider' },
  BAILIFF_ENGINE: { schema: z.enum(['embedded', 'inngest']), remedy: 'write embedded or inngest' },
  ...INNGEST_VARIABLES,
  BAILIFF_TRUST_PROXY: { schema: yesNo, remedy: 'write true or false' },
  BAILIFF_PUBLIC_URL: {
    schema: origin.transform((url) => url.origin),
    remedy: 'write the http(s) address under which browsers reach this server, without a path',
  },
  BAILIFF_VAULT_KEY: {
    schema: vaultKey,
    remedy:
      'write 32 random bytes in base64, made with: openssl rand -base64 32; to rotate, write the new key first and the old ones behind it, separated by commas',
  },
  EXA_API_KEY: vendorKey,
  PARALLEL_API_KEY: vendorKey,
  FIRECRAWL_API_KEY: vendorKey,
  HUNTER_API_KEY: vendorKey,
  NYLAS_API_KEY: vendorKey,
  FULLENRICH_API_KEY: vendorKey,
  PARALLEL_WEBHOOK_SECRET: { ...vendorKey, remedy: 'write the webhook secret of the Parallel account' },
  BAILIFF_OUTGOING_ALLOW: {
    schema: allowances,
    remedy: 'write hosts, host:port or ranges such as 10.1.0.0/16, separated by commas',
  },
  BAILIFF_METRICS: {
    schema: z.enum(['on', 'off']),
    remedy: 'write on or off; without it, on where a token is set or only this machine is listened to',
  },
  BAILIFF_METRICS_TOKEN: {
    schema: z.string().regex(/^[\x21-\x7e]{16,512}$/),
    remedy: 'write at least 16 characters without spaces, made with: openssl rand -hex 32',
  },
  BAILIFF_LOG_LEVEL: {
    schema: z.enum(LOG_LEVELS),
    remedy: `write ${LOG_LEVELS.join(', ')}; without it, warn`,
  },
  BAILIFF_DRAIN_S: { schema: wholeSeconds(300), remedy: 'write whole seconds from 0 to 300; without it, 0' },
  BAILIFF_GRACE_S: { schema: wholeSeconds(3600), remedy: 'write whole seconds from 0 to 3600; without it, 10' },
  OTEL_EXPORTER_OTLP_ENDPOINT: { schema: webUrl, remedy: 'write the http(s) address of the collector' },
  SENTRY_DSN: { schema: webUrl, remedy: 'write the DSN of the Sentry project, https://…@…/…' },
} as const satisfies Record<string, { readonly schema: z.ZodType; readonly remedy: string }>

type Variable = keyof typeof VARIABLES

const FILE = '_FILE'

/** Values that are not repeated, and that a file may hold: the variable is then called `…_FILE` and names it. */
function isSecret(variable: string): boolean {
  return /_KEY$|^DATABASE_URL|^SENTRY_DSN$|_TOKEN$/.test(variable)
}

/** Secrets of container platforms are files. Answers nothing for a variable that is not set. */
function textOf(environment: Environment, variable: Variable, problems: SettingProblem[]): string {
  const text = environment[variable]?.trim() ?? ''
  const file = isSecret(variable) ? (environment[variable + FILE]?.trim() ?? '') : ''
  if (file === '') return text
  if (text !== '') {
    problems.push({ variable, message: `is set beside ${variable + FILE}; keep one of them` })
    return ''
  }
  try {
    return readFileSync(file, 'utf8').trim()
  } catch {
    problems.push({ variable: variable + FILE, message: 'names a file that cannot be read' })
    return ''
  }
}

/** Read elsewhere: by the command line and by deployments. */
const OTHERS: readonly string[] = ['BAILIFF_API_KEY']

export type Environment = Readonly<Record<string, string | undefined>>

/** @throws SettingsError */
export function readSettings(environment: Environment): Settings {
  const problems: SettingProblem[] = []
  const read = <Name extends Variable>(variable: Name): z.output<(typeof VARIABLES)[Name]['schema']> | null => {
    // An empty variable is how most shells and compose files say that there is none.
    const text = textOf(environment, variable, problems)
    if (text === '') return null
    const parsed = VARIABLES[variable].schema.safeParse(text)
    if (parsed.success) return parsed.data as z.output<(typeof VARIABLES)[Name]['schema']>
    problems.push({ variable, message: remedyFor(variable, text) })
    return null
  }
  const host = read('BAILIFF_HOST') ?? '127.0.0.1'
  const metrics = metricsSettings(host, { said: read('BAILIFF_METRICS'), token: read('BAILIFF_METRICS_TOKEN') })
  const engine = read('BAILIFF_ENGINE') ?? 'embedded'
  const inngest = inngestSettings(engine, read, (problem) => problems.push(problem))
  const settings: Settings = {
    port: read('BAILIFF_PORT') ?? 4400,
    host,
    dataDir: resolve(read('BAILIFF_DATA_DIR') ?? './.bailiff'),
    databaseUrl: read('DATABASE_URL'),
    databaseUrlDirect: read('DATABASE_URL_DIRECT'),
    model: read('BAILIFF_MODEL'),
    modelBaseUrl: read('BAILIFF_MODEL_BASE_URL'),
    keys: {
      openai: read('OPENAI_API_KEY'),
      anthropic: read('ANTHROPIC_API_KEY'),
      google: read('GOOGLE_GENERATIVE_AI_API_KEY'),
      model: read('BAILIFF_MODEL_API_KEY'),
    },
    engine,
    inngest,
    trustProxy: read('BAILIFF_TRUST_PROXY') ?? false,
    publicUrl: read('BAILIFF_PUBLIC_URL'),
    vaultKey: read('BAILIFF_VAULT_KEY'),
    vendorKeys: {
      exa: read('EXA_API_KEY'),
      parallel: read('PARALLEL_API_KEY'),
      firecrawl: read('FIRECRAWL_API_KEY'),
      hunter: read('HUNTER_API_KEY'),
      nylas: read('NYLAS_API_KEY'),
      fullenrich: read('FULLENRICH_API_KEY'),
      parallelWebhook: read('PARALLEL_WEBHOOK_SECRET'),
    },
    outgoingAllow: read('BAILIFF_OUTGOING_ALLOW') ?? [],
    sentryDsn: read('SENTRY_DSN'),
    metrics,
    logLevel: read('BAILIFF_LOG_LEVEL'),
    ...millisecondsOf({ drain: read('BAILIFF_DRAIN_S'), grace: read('BAILIFF_GRACE_S') }),
    traces: read('OTEL_EXPORTER_OTLP_ENDPOINT') !== null,
    warnings: [...unknownVariables(environment), ...inngestWarnings(inngest, host)],
  }
  if (problems.length > 0) throw new SettingsError(problems)
  return Object.freeze(settings)
}

interface MetricsAsked {
  readonly said: 'on' | 'off' | null
  readonly token: string | null
}

/** Where others can reach the server, figures are served to whoever has a token, or because somebody said so. */
function metricsSettings(host: string, { said, token }: MetricsAsked): MetricsSettings {
  return { on: said === null ? token !== null || isLoopback(host) : said === 'on', token }
}

const GRACE_S = 10

function millisecondsOf(seconds: { readonly drain: number | null; readonly grace: number | null }) {
  return { drainMs: (seconds.drain ?? 0) * 1000, graceMs: (seconds.grace ?? GRACE_S) * 1000 }
}

function remedyFor(variable: Variable, text: string): string {
  const { remedy } = VARIABLES[variable]
  // A database URL and a key hold secrets, and this text goes to a terminal and a log.
  const shown = isSecret(variable) ? '' : `${JSON.stringify(text.slice(0, 80))} is not usable: `
  return `${shown}${remedy}`
}

/** A deployment may have variables of its own with our prefix; only a name that is nearly one of ours is a slip. */
function unknownVariables(environment: Environment): string[] {
  const variables = Object.keys(VARIABLES)
  const known = [...variables, ...variables.filter(isSecret).map((name) => name + FILE), ...OTHERS]
  return Object.keys(environment)
    .filter((name) => name.startsWith('BAILIFF_') && !known.includes(name))
    .map((name) => ({ name, suggestion: didYouMean(name, known) }))
    .filter(({ suggestion }) => suggestion !== '')
    .map(({ name, suggestion }) => `${name} is not a setting and changes nothing${suggestion}`)
}
