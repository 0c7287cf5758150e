import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkAccrual } from './accrual.ts'

const cents = fc.double({ min: 0, max: 1e9, noNaN: true })
const unreadable = fc.constantFrom(null, Number.NaN, Infinity, -Infinity, -0.01, -1)

describe('spend of the run tree against its ceiling', () => {
  test.each([
    [0, 1, 'allow'],
    [0.99, 1, 'allow'],
    [1, 1, 'deny'],
    [1.01, 1, 'deny'],
    [0, 0, 'deny'],
    [0, null, 'allow'],
    [1e12, null, 'allow'],
  ] as const)('%j of %j cents: %s', (spent, ceiling, verdict) => {
    expect(checkAccrual(spent, ceiling)).toBe(verdict)
  })

  test('is compared total with total: what was refused stays refused as spend grows', () => {
    fc.assert(
      fc.property(cents, cents, cents, (spent, more, ceiling) => {
        const before = checkAccrual(spent, ceiling)
        expect(before).toBe(spent < ceiling ? 'allow' : 'deny')
        expect(before === 'deny' && checkAccrual(spent + more, ceiling) !== 'deny').toBe(false)
      }),
    )
  })

  test('that cannot be read is a fault, never an empty purse and never a full one', () => {
    fc.assert(
      fc.property(unreadable, fc.option(cents), (spent, ceiling) => {
        expect(checkAccrual(spent, ceiling)).toBe('fault')
      }),
    )
    fc.assert(
      fc.property(
        cents,
        unreadable.filter((value) => value !== null),
        (spent, ceiling) => {
          expect(checkAccrual(spent, ceiling)).toBe('fault')
        },
      ),
    )
  })
})
