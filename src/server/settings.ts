import { resolve } from 'node:path'
import { z } from 'zod'
import { envKeyProvider, VaultKeyError } from '../connections/vault/env-keys.ts'
import { allowancesOf } from '../connections/outgoing-address.ts'
import { didYouMean } from '../policy/suggest.ts'

/** Everything the platform takes from its environment, checked once. */
export interface Settings {
  readonly port: number
  readonly host: string
  /** Absolute. */
  readonly dataDir: string
  /** Null keeps the data in the data folder. */
  readonly databaseUrl: string | null
  /** `provider/model`, or null for the model of the config file. */
  readonly model: string | null
  readonly modelBaseUrl: string | null
  readonly keys: ModelKeys
  readonly engine: 'embedded'
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
  BAILIFF_ENGINE: { schema: z.literal('embedded'), remedy: 'the engine of this build is embedded' },
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
  BAILIFF_OUTGOING_ALLOW: {
    schema: allowances,
    remedy: 'write hosts, host:port or ranges such as 10.1.0.0/16, separated by commas',
  },
  SENTRY_DSN: { schema: webUrl, remedy: 'write the DSN of the Sentry project, https://…@…/…' },
} as const satisfies Record<string, { readonly schema: z.ZodType; readonly remedy: string }>

type Variable = keyof typeof VARIABLES

/** Read elsewhere: by the command line and by deployments. */
const OTHERS: readonly string[] = ['BAILIFF_API_KEY']

export type Environment = Readonly<Record<string, string | undefined>>

/** @throws SettingsError */
export function readSettings(environment: Environment): Settings {
  const problems: SettingProblem[] = []
  const read = <Name extends Variable>(variable: Name): z.output<(typeof VARIABLES)[Name]['schema']> | null => {
    // An empty variable is how most shells and compose files say that there is none.
    const text = environment[variable]?.trim() ?? ''
    if (text === '') return null
    const parsed = VARIABLES[variable].schema.safeParse(text)
    if (parsed.success) return parsed.data as z.output<(typeof VARIABLES)[Name]['schema']>
    problems.push({ variable, message: remedyFor(variable, text) })
    return null
  }
  const settings: Settings = {
    port: read('BAILIFF_PORT') ?? 4400,
    host: read('BAILIFF_HOST') ?? '127.0.0.1',
    dataDir: resolve(read('BAILIFF_DATA_DIR') ?? './.bailiff'),
    databaseUrl: read('DATABASE_URL'),
    model: read('BAILIFF_MODEL'),
    modelBaseUrl: read('BAILIFF_MODEL_BASE_URL'),
    keys: {
      openai: read('OPENAI_API_KEY'),
      anthropic: read('ANTHROPIC_API_KEY'),
      google: read('GOOGLE_GENERATIVE_AI_API_KEY'),
      model: read('BAILIFF_MODEL_API_KEY'),
    },
    engine: read('BAILIFF_ENGINE') ?? 'embedded',
    trustProxy: read('BAILIFF_TRUST_PROXY') ?? false,
    publicUrl: read('BAILIFF_PUBLIC_URL'),
    vaultKey: read('BAILIFF_VAULT_KEY'),
    vendorKeys: {
      exa: read('EXA_API_KEY'),
      parallel: read('PARALLEL_API_KEY'),
      firecrawl: read('FIRECRAWL_API_KEY'),
      hunter: read('HUNTER_API_KEY'),
      nylas: read('NYLAS_API_KEY'),
    },
    outgoingAllow: read('BAILIFF_OUTGOING_ALLOW') ?? [],
    sentryDsn: read('SENTRY_DSN'),
    warnings: unknownVariables(environment),
  }
  if (problems.length > 0) throw new SettingsError(problems)
  return Object.freeze(settings)
}

function remedyFor(variable: Variable, text: string): string {
  if (variable === 'BAILIFF_ENGINE' && text === 'inngest')
    return 'this build has no Inngest engine; write embedded, or leave it out'
  const { remedy } = VARIABLES[variable]
  // A database URL and a key hold secrets, and this text goes to a terminal and a log.
  const shown =
    variable.endsWith('_KEY') || variable === 'DATABASE_URL' || variable === 'SENTRY_DSN'
      ? ''
      : `${JSON.stringify(text.slice(0, 80))} is not usable: `
  return `${shown}${remedy}`
}

/** A deployment may have variables of its own with our prefix; only a name that is nearly one of ours is a slip. */
function unknownVariables(environment: Environment): string[] {
  const known = [...Object.keys(VARIABLES), ...OTHERS]
  return Object.keys(environment)
    .filter((name) => name.startsWith('BAILIFF_') && !known.includes(name))
    .map((name) => ({ name, suggestion: didYouMean(name, known) }))
    .filter(({ suggestion }) => suggestion !== '')
    .map(({ name, suggestion }) => `${name} is not a setting and changes nothing${suggestion}`)
}
