import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { history } from './ledger-history.ts'
import { playHistory } from './ledger-suite.ts'
import { memoryScene } from './memory-store.ts'

test('the store in memory agrees with the reference model over 2,000 random histories', async () => {
  let played = 0
  await fc.assert(
    fc.asyncProperty(history, async (steps) => {
      await playHistory(memoryScene(), steps)
      played += 1
    }),
    { numRuns: 2_000 },
  )
  expect(played).toBe(2_000)
})
