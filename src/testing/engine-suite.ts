import type { EngineCase } from './engine-stage.ts'
import { FAULTS } from './engine-suite.faults.ts'
import { JOBS } from './engine-suite.jobs.ts'
import { STOPPING } from './engine-suite.stopping.ts'
import { TICKS } from './engine-suite.ticks.ts'
import { WAKING } from './engine-suite.waking.ts'

export type { EngineCase, EngineScene, EngineSceneFactory } from './engine-stage.ts'

/**
 * What every durable engine must do, in cases for the test runner of your choice. Each makes engines of its own, one or
 * several on one queue, and rejects with an assertion. The rows they serve are the case's: no database is needed.
 */
export const engineSuite: readonly EngineCase[] = [...WAKING, ...FAULTS, ...JOBS, ...TICKS, ...STOPPING]
