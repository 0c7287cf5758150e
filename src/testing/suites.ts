export { history, type Step } from './ledger-history.ts'
export { playHistory, type LedgerScene } from './ledger-suite.ts'
export { memoryScene } from './memory-store.ts'
export { sessionSuite, type SessionCase, type SessionFactory } from './session-suite.ts'
