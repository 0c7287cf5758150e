import * as fc from 'fast-check'
import { test } from 'vitest'
import { history, playHistory } from './ledger-suite.ts'
import { memoryScene } from './memory-store.ts'

test('the store in memory agrees with the reference model over 2,000 random histories', async () => {
  await fc.assert(
    fc.asyncProperty(history, (steps) => playHistory(memoryScene(), steps)),
    { numRuns: 2_000 },
  )
})
