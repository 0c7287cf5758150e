import { expect, test } from 'vitest'
import { LIST_PRICES, vendorPriceBook } from './vendor-prices.ts'

test('every list price says where and when it was read', () => {
  expect(LIST_PRICES.length).toBeGreaterThan(8)
  for (const price of LIST_PRICES) {
    expect(price.source.length).toBeGreaterThan(10)
    expect(price.asOf).toMatch(/^\d{4}-\d{2}-\d{2}$/)
  }
  const names = LIST_PRICES.map(({ vendor, item }) => `${vendor} ${item}`)
  expect(new Set(names).size).toBe(names.length)
})

test('a price of the deployment goes before the list price', () => {
  const own = {
    vendor: 'exa',
    item: 'search',
    unit: 'request',
    cents: 0.5,
    source: 'our contract',
    asOf: '2026-11-01',
  } as const
  expect(vendorPriceBook([own]).cents('exa', 'search', 4)).toBe(2)
  expect(vendorPriceBook().cents('exa', 'search', 10)).toBeCloseTo(7)
})

test('what has no price is a fault, and not free', () => {
  expect(() => vendorPriceBook().cents('exa', 'deep-search', 1)).toThrow('exa deep-search has no price')
  expect(() => vendorPriceBook().cents('constructor', '', 1)).toThrow('has no price')
})

test.each([Number.NaN, -1, Number.POSITIVE_INFINITY])('a price of %d is refused', (cents) => {
  const own = { vendor: 'a', item: 'b', unit: 'credit', cents, source: 'x', asOf: '2026-01-01' } as const
  expect(() => vendorPriceBook([own])).toThrow(RangeError)
})
