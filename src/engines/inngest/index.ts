export { inngestEngine, type InngestEngine, type InngestEngineOptions } from './engine.ts'
export { jobEvent, PROVIDER_JOB_COMPLETED, RUN_WAKE, RUN_WAKE_LATER } from './events.ts'
