import { expect, test } from 'vitest'
import { attemptLimiter } from './attempts.ts'

test('an address is blocked after its limit, for the rest of the minute, and alone', () => {
  let now = 0
  const limiter = attemptLimiter(() => now, 3)
  for (let attempt = 0; attempt < 3; attempt += 1) {
    expect(limiter.blockedFor('a')).toBeNull()
    limiter.failed('a')
  }
  now = 15_000
  expect(limiter.blockedFor('a')).toBe(45)
  expect(limiter.blockedFor('b')).toBeNull()
  now = 60_000
  expect(limiter.blockedFor('a')).toBeNull()
  limiter.failed('a')
  expect(limiter.blockedFor('a')).toBeNull()
})

test('a flood of addresses pushes out the oldest', () => {
  const limiter = attemptLimiter(() => 0, 1)
  limiter.failed('first')
  for (let address = 0; address < 10_000; address += 1) limiter.failed(String(address))
  expect(limiter.blockedFor('first')).toBeNull()
  expect(limiter.blockedFor('9999')).not.toBeNull()
})
