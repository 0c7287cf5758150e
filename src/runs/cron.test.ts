import { describe, expect, test } from 'vitest'
import { CronError, cronText, tickAt } from './cron.ts'

const at = (text: string): Date => new Date(text)

test('a number of seconds ticks at its multiples, whoever asks within one gets the same tick', () => {
  expect(tickAt(90, at('2026-03-01T00:01:29.999Z'))).toEqual(at('2026-03-01T00:00:00Z'))
  expect(tickAt(90, at('2026-03-01T00:01:30.000Z'))).toEqual(at('2026-03-01T00:01:30Z'))
  expect(tickAt(90, at('2026-03-01T00:02:59.999Z'))).toEqual(at('2026-03-01T00:01:30Z'))
})

describe('cron text names the minutes it means, in UTC', () => {
  test.for([
    ['* * * * *', '2026-03-01T10:07:59Z', true],
    ['7 * * * *', '2026-03-01T10:07:00Z', true],
    ['7 * * * *', '2026-03-01T10:08:00Z', false],
    ['*/15 3 * * *', '2026-03-01T03:45:10Z', true],
    ['*/15 3 * * *', '2026-03-01T03:46:10Z', false],
    ['5-20/5 * * * *', '2026-03-01T03:20:10Z', true],
    ['5/10 * * * *', '2026-03-01T03:55:10Z', true],
    ['5/10 * * * *', '2026-03-01T03:50:10Z', false],
    ['0 3,15 * * *', '2026-03-01T15:00:10Z', true],
    ['0 0 1 1 *', '2026-01-01T00:00:10Z', true],
    ['0 0 1 1 *', '2026-02-01T00:00:10Z', false],
    // 2026-03-01 is a Sunday.
    ['0 0 * * 7', '2026-03-01T00:00:10Z', true],
    ['0 0 * * 0', '2026-03-01T00:00:10Z', true],
    ['0 0 * * 1-5', '2026-03-01T00:00:10Z', false],
    ['0 0 13 * 0', '2026-03-01T00:00:10Z', true],
    ['0 0 13 * 0', '2026-03-13T00:00:10Z', true],
    ['0 0 13 * 0', '2026-03-14T00:00:10Z', false],
  ] as const)('%s at %s: %s', ([text, now, ticks]) => {
    const tick = tickAt(text, at(now))
    expect(tick === null ? null : tick.toISOString()).toBe(ticks ? `${now.slice(0, 17)}00.000Z` : null)
  })
})

test.for([
  '* * * *',
  '60 * * * *',
  '* 24 * * *',
  '* * 0 * *',
  '* * * 13 *',
  '* * * * 8',
  '5-1 * * * *',
  '*/0 * * * *',
  '@hourly',
  'a * * * *',
  '1, * * * *',
  '',
])('%s is refused', (text) => {
  expect(() => tickAt(text, new Date(0))).toThrow(CronError)
})

test.for([0, -1, 1.5, 86_401, Number.NaN])('%s seconds are refused', (seconds) => {
  expect(() => tickAt(seconds, new Date(0))).toThrow(CronError)
})

test('seconds become cron text where minutes, hours or days divide evenly, and are refused elsewhere', () => {
  expect([1, 60, 300, 3600, 7200, 86_400].map(cronText)).toEqual([
    '* * * * *',
    '* * * * *',
    '*/5 * * * *',
    '0 * * * *',
    '0 */2 * * *',
    '0 0 * * *',
  ])
  expect(cronText(' 0  3 * * 1 ')).toBe('0 3 * * 1')
  for (const seconds of [90, 420, 18_000]) expect(() => cronText(seconds)).toThrow(CronError)
})

test('seconds and the cron text they become tick at the same instants', () => {
  for (const seconds of [60, 300, 3600, 7200, 86_400])
    for (let minute = 0; minute < 3000; minute += 7) {
      const now = new Date(Date.UTC(2026, 2, 1) + minute * 60_000)
      const isTick = tickAt(seconds, now)?.getTime() === now.getTime()
      expect(tickAt(cronText(seconds), now) !== null).toBe(isTick)
    }
})
