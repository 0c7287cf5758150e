import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type IdentifiedPerson, matchPerson } from './person-match.ts'

const person = (id: string, email: string | null, linkedinUrl: string | null): IdentifiedPerson => ({
  id,
  email,
  linkedinUrl,
})

const byAddress = person('a', 'Jo@acme.test', null)
const byProfile = person('p', null, 'jo')
const both = person('b', 'jo@acme.test', 'jo')

describe('who is meant', () => {
  test.each([
    ['by address, in any case', [byAddress], { email: 'jo@acme.test', linkedinUrl: null }, 'a'],
    ['by profile', [byProfile], { email: null, linkedinUrl: 'jo' }, 'p'],
    [
      'by the profile of somebody whose address was not known',
      [byProfile],
      { email: 'jo@acme.test', linkedinUrl: 'jo' },
      'p',
    ],
    [
      'by the address of somebody whose profile was not known',
      [byAddress],
      { email: 'jo@acme.test', linkedinUrl: 'jo' },
      'a',
    ],
    ['by both', [both], { email: 'jo@acme.test', linkedinUrl: 'jo' }, 'b'],
    ['by address, with a profile that is new', [both], { email: 'jo@acme.test', linkedinUrl: 'other' }, 'b'],
  ] as const)('%s', (...[, found, given, id]) => {
    expect(matchPerson(found, given)).toMatchObject({ kind: 'same', person: { id } })
  })

  test('nobody', () => {
    expect(matchPerson([], { email: 'jo@acme.test', linkedinUrl: 'jo' })).toEqual({ kind: 'nobody' })
  })

  test.each([
    [
      'address and profile are those of two people',
      [byAddress, byProfile],
      { email: 'jo@acme.test', linkedinUrl: 'jo' },
      'p',
    ],
    [
      'the profile is that of somebody with another address',
      [both],
      { email: 'sam@acme.test', linkedinUrl: 'jo' },
      'b',
    ],
  ] as const)('nobody can say when %s', (...[, found, given, id]) => {
    expect(matchPerson(found, given)).toMatchObject({ kind: 'conflict', person: { id } })
  })
})

test('the order in which people were found makes no difference, and nobody without a given identity is meant', () => {
  const identity = fc.constantFrom('x', 'y', null)
  const people = fc.uniqueArray(
    fc.record({ id: fc.constantFrom('1', '2', '3'), email: identity, linkedinUrl: identity }),
    {
      selector: ({ id }) => id,
    },
  )
  // As the unique indexes leave them.
  const distinct = (found: readonly IdentifiedPerson[]): boolean =>
    (['email', 'linkedinUrl'] as const).every((key) => {
      const values = found.map((one) => one[key]).filter((value) => value !== null)
      return new Set(values).size === values.length
    })
  fc.assert(
    fc.property(people.filter(distinct), identity, identity, (found, email, linkedinUrl) => {
      const given = { email, linkedinUrl }
      const match = matchPerson(found, given)
      expect(matchPerson(found.toReversed(), given)).toEqual(match)
      const meant = match.kind === 'nobody' ? null : match.person
      const shares = (one: IdentifiedPerson): boolean =>
        (email !== null && one.email === email) || (linkedinUrl !== null && one.linkedinUrl === linkedinUrl)
      expect(meant === null ? found.some(shares) : !shares(meant)).toBe(false)
    }),
  )
})
