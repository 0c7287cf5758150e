export type { JsonValue } from '../tools/json.ts'
export { manualEngine, type ManualEngine } from './manual-engine.ts'
export {
  scriptedTurns,
  type PastCall,
  type PastTurn,
  type Script,
  type ScriptedCall,
  type ScriptedConversation,
  type ScriptedTurn,
} from './script.ts'
export { scriptedModel } from './scripted-model.ts'
export { testBailiff, type TestBailiff, type TestCall, type TestDecision } from './test-bailiff.ts'
