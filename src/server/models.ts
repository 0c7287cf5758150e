import { modelProvider, resolveModel, type LanguageModel } from '../frameworks/ai-sdk/index.ts'
import { own } from '../tools/json.ts'
import type { Settings } from './settings.ts'

/** Finds the model object behind a run's `provider/model`. */
export type ModelFinder = (name: string) => Promise<LanguageModel>

const KEY_VARIABLES: Readonly<
  Record<string, { readonly variable: string; readonly key: 'openai' | 'anthropic' | 'google' }>
> = {
  openai: { variable: 'OPENAI_API_KEY', key: 'openai' },
  anthropic: { variable: 'ANTHROPIC_API_KEY', key: 'anthropic' },
  google: { variable: 'GOOGLE_GENERATIVE_AI_API_KEY', key: 'google' },
}

/**
 * The base URL and the key of BAILIFF_MODEL are for the provider it names and for no other: a definition that names
 * another provider must not send that provider's key to a foreign address.
 */
export function modelFinder(settings: Settings, models: Readonly<Record<string, LanguageModel>> = {}): ModelFinder {
  const main = settings.model === null ? 'openai-compatible' : modelProvider(settings.model)
  return async (name) => {
    const provider = modelProvider(name)
    const isMain = provider === main
    const apiKey = (isMain ? settings.keys.model : null) ?? keyOf(provider, settings)
    const baseURL = isMain ? settings.modelBaseUrl : null
    try {
      return await resolveModel(name, {
        models,
        ...(apiKey === null ? {} : { apiKey }),
        ...(baseURL === null ? {} : { baseURL }),
      })
    } catch (error) {
      throw error instanceof Error
        ? new Error(`${error.message}${hint(provider, error.message)}`, { cause: error })
        : error
    }
  }
}

function keyOf(provider: string, settings: Settings): string | null {
  const known = own(KEY_VARIABLES, provider)
  return known === undefined ? null : settings.keys[known.key]
}

/** The library knows no environment; here is where its settings come from. */
function hint(provider: string, message: string): string {
  if (message.includes('API key')) return `; set ${own(KEY_VARIABLES, provider)?.variable ?? 'BAILIFF_MODEL_API_KEY'}`
  if (message.includes('base URL')) return '; set BAILIFF_MODEL_BASE_URL'
  if (message.startsWith('unknown model')) return '; set BAILIFF_MODEL to one of them'
  return ''
}

/** A script plays a fixed part; every screen says so, because its answers must not be taken for a model's. */
export function isScripted(model: string): boolean {
  return modelProvider(model) === 'scripted'
}
