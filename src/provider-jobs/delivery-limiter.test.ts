import { expect, test } from 'vitest'
import { deliveryLimiter } from './delivery-limiter.ts'

const LIMITS = { perSecond: 10, burst: 20, failureCost: 5 }

function limiterAt() {
  let ms = 0
  const limiter = deliveryLimiter(() => ms, LIMITS)
  const taken = (address: string, tries: number): number =>
    Array.from({ length: tries }, () => limiter.take(address)).filter((wait) => wait === null).length
  return { limiter, taken, pass: (more: number) => (ms += more) }
}

test('an address sends a burst and then goes on at its rate', () => {
  const { limiter, taken, pass } = limiterAt()
  expect(taken('a', 30)).toBe(20)
  expect(limiter.take('a')).toBe(1)
  pass(1_000)
  expect(taken('a', 30)).toBe(10)
  pass(60_000)
  expect(taken('a', 30)).toBe(20)
  expect(taken('b', 1)).toBe(1)
})

test('wrong signatures cost an address more, and for longer than a burst', () => {
  const { limiter, taken, pass } = limiterAt()
  for (let sent = 0; sent < 20; sent += 1) if (limiter.take('a') === null) limiter.failed('a')
  expect(taken('a', 1)).toBe(0)
  pass(1_000)
  expect(taken('a', 20)).toBeLessThan(11)
  for (let sent = 0; sent < 100; sent += 1) limiter.failed('b')
  expect(limiter.take('b')).toBe(3)
})

test('addresses that are many are forgotten, the quiet ones first', () => {
  const { limiter, taken } = limiterAt()
  expect(taken('first', 30)).toBe(20)
  for (let index = 0; index < 10_000; index += 1) limiter.take(`address ${index}`)
  expect(limiter.take('first')).toBeNull()
})
