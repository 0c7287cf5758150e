import type { LanguageModel as AnyLanguageModel } from 'ai'

/**
 * A model object. A bare id is left out: the AI SDK looks ids up in a global provider that reads the environment, and a
 * deployment's models are the ones it was configured with.
 */
export type LanguageModel = Exclude<AnyLanguageModel, string>

/** The interface version that `ai` 7 speaks natively; older model objects are converted by it. */
export type LanguageModelV4 = Extract<LanguageModel, { specificationVersion: 'v4' }>

export type ModelCallOptions = Parameters<LanguageModelV4['doStream']>[0]
export type ModelPrompt = ModelCallOptions['prompt']
export type ModelStreamResult = Awaited<ReturnType<LanguageModelV4['doStream']>>
export type ModelGenerateResult = Awaited<ReturnType<LanguageModelV4['doGenerate']>>
export type ModelStreamPart = ModelStreamResult['stream'] extends ReadableStream<infer Part> ? Part : never
export type ModelUsageReport = ModelGenerateResult['usage']

export interface ModelIdentity {
  readonly provider: string
  readonly model: string
}

/** Splits `provider/model` for usage rows. A name without a provider part is its own provider. */
export function modelIdentity(name: string): ModelIdentity {
  const slash = name.indexOf('/')
  return slash < 1 ? { provider: name, model: name } : { provider: name.slice(0, slash), model: name.slice(slash + 1) }
}

/** The provider column of a usage row: `anthropic` for `anthropic/claude-…`, the name itself for a model without one. */
export function modelProvider(name: string): string {
  return modelIdentity(name).provider
}
