import { expect, test } from 'vitest'
import { personDigest, suppressionsInMemory } from './suppressions.ts'

const jo = { vendor: 'hunter', person: personDigest('Jo Sample', 'sample.test') }

test('a suppression is remembered for its person and its vendor alone', async () => {
  const suppressions = suppressionsInMemory()
  expect(await suppressions.has(jo)).toBe(false)
  await suppressions.add(jo)
  expect(await suppressions.has(jo)).toBe(true)
  expect(await suppressions.has({ ...jo, vendor: 'other' })).toBe(false)
  expect(await suppressions.has({ ...jo, person: personDigest('Jo Sample', 'other.test') })).toBe(false)
})

test('memory is bounded: the oldest goes first, and one that is added again counts once', async () => {
  const suppressions = suppressionsInMemory({ size: 2 })
  const people = ['a', 'b', 'b', 'c'].map((name) => ({ vendor: 'hunter', person: personDigest(name, 'sample.test') }))
  for (const person of people) await suppressions.add(person)
  expect(await Promise.all(people.map((person) => suppressions.has(person)))).toEqual([false, true, true, true])
})

test.each([
  ['JO SAMPLE', 'sample.test'],
  ['  Jo \t Sample ', 'Sample.TEST'],
])('%j at %j is the same person', (name, place) => {
  expect(personDigest(name, place)).toBe(jo.person)
})

test('a composed letter is the letter', () => {
  expect(personDigest('Jo\u0308', 'x.test')).toBe(personDigest('J\u00f6', 'x.test'))
})

test('what belongs to the name and what to the place is told apart, and neither can be read', () => {
  expect(personDigest('Jo Sample', 'test')).not.toBe(personDigest('Jo', 'Sample test'))
  expect(jo.person).toMatch(/^[0-9a-f]{64}$/)
})
