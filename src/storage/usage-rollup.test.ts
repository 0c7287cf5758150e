import { describe, expect, test } from 'vitest'
import { daysToRoll } from './usage-rollup.ts'

const NOW = new Date('2026-03-02T00:30:00Z')

describe('the days that are summed up', () => {
  test('are the last three, today never among them', () => {
    expect(daysToRoll('2026-03-01', '2025-01-01', NOW)).toStrictEqual(['2026-02-27', '2026-02-28', '2026-03-01'])
  })

  test('begin where the last roll ended, after a silence', () => {
    expect(daysToRoll('2026-02-24', '2025-01-01', NOW)).toStrictEqual([
      '2026-02-25',
      '2026-02-26',
      '2026-02-27',
      '2026-02-28',
      '2026-03-01',
    ])
  })

  test('begin with the first row of all, the first time', () => {
    expect(daysToRoll(null, '2026-02-26', NOW)[0]).toBe('2026-02-26')
    expect(daysToRoll(null, null, NOW)).toStrictEqual([])
  })

  test('are at most four hundred at a time, and the next roll goes on', () => {
    const first = daysToRoll(null, '2020-01-01', NOW)
    expect(first).toHaveLength(400)
    expect(daysToRoll(first.at(-1) ?? null, '2020-01-01', NOW)[0]).toBe('2021-02-04')
  })
})
