import { own } from '../../tools/json.ts'
import { modelIdentity, type LanguageModel } from './model-types.ts'

export interface ModelSettings {
  readonly apiKey?: string
  /** Where the provider's API answers, version path included (`http://127.0.0.1:11434/v1`). */
  readonly baseURL?: string
  /** The deployment's own model objects, by full name. Looked at before any provider. */
  readonly models?: Readonly<Record<string, LanguageModel>>
}

/** What every provider package is created with. Both are always given: a package that misses one reads the environment. */
interface Access {
  readonly apiKey: string
  readonly baseURL: string
}

interface Provider {
  /** The npm package, an optional peer dependency that is loaded when a model of it is asked for. */
  readonly npmPackage: string
  /** Null where there is no such place: the base URL must be given. */
  readonly baseURL: string | null
  open(model: string, access: Access): Promise<LanguageModel>
}

const PROVIDERS: Readonly<Record<string, Provider>> = {
  openai: {
    npmPackage: '@ai-sdk/openai',
    baseURL: 'https://api.openai.com/v1',
    open: async (model, access) => (await import('@ai-sdk/openai')).createOpenAI(access)(model),
  },
  anthropic: {
    npmPackage: '@ai-sdk/anthropic',
    baseURL: 'https://api.anthropic.com/v1',
    open: async (model, access) => (await import('@ai-sdk/anthropic')).createAnthropic(access)(model),
  },
  google: {
    npmPackage: '@ai-sdk/google',
    baseURL: 'https://generativelanguage.googleapis.com/v1beta',
    open: async (model, access) => (await import('@ai-sdk/google')).createGoogle(access)(model),
  },
  'openai-compatible': {
    npmPackage: '@ai-sdk/openai-compatible',
    baseURL: null,
    open: async (model, { apiKey, baseURL }) => {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
      // Without the option most servers leave the usage out of a stream, and no ceiling would count it.
      const settings = { name: 'openai-compatible', baseURL, includeUsage: true }
      return createOpenAICompatible(apiKey === NO_KEY ? settings : { ...settings, apiKey })(model)
    },
  },
}

/** Stands for the key of a server that asks for none. */
const NO_KEY = 'none'

/**
 * Finds the model object behind `provider/model`. Reads no environment: what it needs is in the settings.
 *
 * @throws Error for an unknown provider, a missing key or base URL, or a provider package that is not installed
 */
export async function resolveModel(name: string, settings: ModelSettings = {}): Promise<LanguageModel> {
  const configured = own(settings.models ?? {}, name)
  if (configured !== undefined) return configured
  const identity = modelIdentity(name)
  const provider = own(PROVIDERS, identity.provider)
  if (provider === undefined || !name.includes('/') || identity.model === '')
    throw new Error(unknownModel(name, settings))
  const access = accessTo(name, provider, settings)
  return loadProvider(name, provider.npmPackage, () => provider.open(identity.model, access))
}

/** Turns the failure to import a package that nobody installed into an instruction. */
export async function loadProvider<T>(name: string, npmPackage: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load()
  } catch (error) {
    if (!isMissing(error, npmPackage)) throw error
    throw new Error(`the model ${name} needs the package ${npmPackage}: npm install ${npmPackage}`, { cause: error })
  }
}

function accessTo(name: string, provider: Provider, settings: ModelSettings): Access {
  const baseURL = settings.baseURL ?? provider.baseURL
  if (baseURL === null) throw new Error(`the model ${name} needs the base URL of its server`)
  if (!isHttpUrl(baseURL)) throw new Error(`the model ${name} needs a base URL that starts with http:// or https://`)
  // A gateway or a local stand-in may hold the key itself.
  const apiKey = settings.apiKey ?? (settings.baseURL === undefined ? undefined : NO_KEY)
  if (apiKey === undefined || apiKey === '') throw new Error(`the model ${name} needs an API key`)
  return { apiKey, baseURL }
}

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text)
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:')
}

function unknownModel(name: string, { models = {} }: ModelSettings): string {
  const providers = Object.keys(PROVIDERS).map((provider) => `${provider}/<model>`)
  const known = [...providers, ...Object.keys(models)]
  return `unknown model ${JSON.stringify(name)}; known are ${known.join(', ')}`
}

/** Bundlers and loaders word the message differently; Node's code is stable, and the package's name is in all of them. */
function isMissing(error: unknown, npmPackage: string): boolean {
  if (!(error instanceof Error) || !error.message.includes(npmPackage)) return false
  return 'code' in error && (error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND')
}
