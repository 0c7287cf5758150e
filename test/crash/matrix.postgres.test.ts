import { expect, inject, test } from 'vitest'
import { EXPECTED, runCase } from './matrix.ts'

/** Where an approved send differs most; `npm run crash-matrix` goes through every point of every scenario. */
const POINTS = [
  'ledger.file:after',
  'runs.park:before',
  'ledger.claim:before',
  'ledger.claim:after',
  'handler.execute:after',
  'ledger.close:after',
  'runs.recordTurn:before',
  'runs.end:before',
] as const

test.each(POINTS)(
  'T25 a kill at %s of an approved send loses nothing and sends nothing twice',
  async (point) => {
    const result = await runCase(inject('postgresUrl'), { scenario: 'approved send', die: { point, nth: 1 } })
    expect(result).toMatchObject({ killed: true, status: 'completed', effects: EXPECTED['approved send'] })
  },
  // Several processes one after the other; the limit is there for one that never ends.
  120_000,
)
