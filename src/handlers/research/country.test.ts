import { expect, test } from 'vitest'
import { isCountryCode } from './country.ts'

const letters = Array.from({ length: 26 }, (_, index) => String.fromCodePoint(65 + index))
const pairs = letters.flatMap((first) => letters.map((second) => first + second))

test('there are 249 countries and territories, in capitals or not', () => {
  expect(pairs.filter((code) => isCountryCode(code))).toHaveLength(249)
  expect(pairs.filter((code) => isCountryCode(code.toLowerCase()))).toHaveLength(249)
})

test.each(['NL', 'gb', 'DE', 'jP'])('%s is one', (code) => {
  expect(isCountryCode(code)).toBe(true)
})

test.each(['UK', 'EU', 'XX', 'ZZ', 'SU', '', 'N', 'NLD', 'constructor'])('%s is none', (code) => {
  expect(isCountryCode(code)).toBe(false)
})
