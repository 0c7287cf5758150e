import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DEFAULT_RETENTION, monthsBefore, retentionOf, retentionWindows } from './retention.ts'

const NOW = new Date('2026-12-01T10:00:00Z')
const DAY_MS = 86_400_000

describe('months', () => {
  test('are the same day of an earlier month', () => {
    expect(monthsBefore(NOW, 13).toISOString()).toBe('2025-11-01T10:00:00.000Z')
  })

  test('end with the last day of a month that is shorter', () => {
    expect(monthsBefore(new Date('2026-03-31T10:00:00Z'), 1).toISOString()).toBe('2026-02-28T10:00:00.000Z')
  })

  test('are never fewer days than their months have', () => {
    const instants = fc.date({ min: new Date('2020-01-01'), max: new Date('2060-01-01'), noInvalidDate: true })
    fc.assert(
      fc.property(instants, fc.integer({ min: 1, max: 120 }), (now, months) => {
        const days = (now.getTime() - monthsBefore(now, months).getTime()) / DAY_MS
        expect(days).toBeGreaterThanOrEqual(months * 28)
        expect(days).toBeLessThanOrEqual(months * 31)
      }),
    )
  })
})

describe('settings', () => {
  test('that are left out are 90 days, 13 months and usage for good', () => {
    expect(retentionOf({})).toStrictEqual({ spansDays: 90, runsMonths: 13, usageMonths: null })
  })

  test.each([
    { spansDays: 0 },
    { spansDays: 1.5 },
    { spansDays: Number.NaN },
    { runsMonths: -1 },
    { runsMonths: 1e9 },
    { usageMonths: 0 },
  ])('of a deployment that make no sense are refused: %o', (settings) => {
    expect(() => retentionOf(settings)).toThrow(/retention takes spansDays/)
  })

  test('of an organization win over those of the deployment, one by one', () => {
    const usual = retentionOf({ spansDays: 30, runsMonths: 2 })
    const { organizations } = retentionWindows(usual, [{ organizationId: 'a', retention: { spansDays: 7 } }], NOW)
    expect(organizations).toStrictEqual([
      {
        organizationId: 'a',
        cutoffs: { spans: new Date(NOW.getTime() - 7 * DAY_MS), runs: monthsBefore(NOW, 2), usage: null },
      },
    ])
  })

  const unreadable: readonly (readonly [string, unknown])[] = [
    ['a number', 7],
    ['a text', 'a week'],
    ['null', null],
    ['a list', []],
    ['a number in a text', { spansDays: '7' }],
    ['a misspelt name', { spanDays: 7 }],
    ['a name of every object', { constructor: 7 }],
    ['no window', { spansDays: null }],
  ]

  test.each(unreadable)('of an organization that are %s keep everything', (_name, retention) => {
    const { organizations } = retentionWindows(DEFAULT_RETENTION, [{ organizationId: 'a', retention }], NOW)
    expect(organizations).toStrictEqual([{ organizationId: 'a', cutoffs: null }])
  })

  test('never let a run go before its spans would', () => {
    const { usual } = retentionWindows(retentionOf({ spansDays: 90, runsMonths: 1 }), [], NOW)
    expect(usual.runs).toStrictEqual(usual.spans)
  })
})
