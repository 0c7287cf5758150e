import type { SessionCase } from './session-scene.ts'
import { CALLS } from './session-suite.calls.ts'
import { CONVERSATION } from './session-suite.conversation.ts'
import { FAILING } from './session-suite.failures.ts'
import { PAUSES } from './session-suite.pauses.ts'
import { RESTARTS } from './session-suite.restarts.ts'
import { STOPS } from './session-suite.stops.ts'

export type { SessionCase, SessionFactory } from './session-scene.ts'

/**
 * What every framework adapter must do, in cases for the test runner of your choice. Each opens sessions of its own and
 * rejects with an assertion; an id in a name is the row of the guarantees it shows.
 */
export const sessionSuite: readonly SessionCase[] = [
  ...CONVERSATION,
  ...PAUSES,
  ...STOPS,
  ...CALLS,
  ...RESTARTS,
  ...FAILING,
]
