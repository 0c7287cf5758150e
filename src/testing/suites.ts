export { history, playHistory, type LedgerScene, type Step } from './ledger-suite.ts'
export { sessionSuite, type SessionCase, type SessionFactory } from './session-suite.ts'
export { memoryScene } from './memory-store.ts'
