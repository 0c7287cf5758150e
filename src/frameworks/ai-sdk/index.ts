export { aiSdkFramework, type AiSdkOptions } from './session.ts'
export { declareTools, type DeclaredTools, type ReadCall, type ReadExecutor } from './declare-tools.ts'
export { modelProvider, type LanguageModel } from './model-types.ts'
export { resolveModel, type ModelSettings } from './models.ts'
export {
  governed,
  type GovernedOptions,
  type GovernedRun,
  type GovernedSession,
  type GovernedStatus,
  type ModelAnswer,
} from './own-loop.ts'
