import { expect, test } from 'vitest'
import { batchContacts, mergeContacts } from './contacts.ts'

const COMPANY = { name: 'Sample Freight', domain: 'freight.example' }
const open = (name: string) => ({ name, company: COMPANY, companyId: 'c1' })
const people = ['p1', 'p2'].map((ref) => ({ ref, name: 'Sample Person', company: 'Sample Freight', companyId: 'c1' }))
const found = (ref: string, confidence: string | null, email: string | null = 'sample.person@freight.example') => ({
  ref,
  email,
  confidence,
  providerStatus: null,
  result: 'found',
})

test('a batch holds 25 people, and says how many it left out', () => {
  const names = Array.from({ length: 30 }, (_, index) => open(`Sample Person${index}`))
  const batch = batchContacts({ open: [names.slice(0, 10), [], names.slice(10, 20), names.slice(20)] })
  expect(batch.left).toBe(5)
  expect(batch.contacts).toHaveLength(25)
  expect(new Set(batch.contacts.map(({ ref }) => ref)).size).toBe(25)
  expect(batch.people.map(({ ref }) => ref)).toEqual(batch.contacts.map(({ ref }) => ref))
})

test('a name is split before its last word; one without two words is left out and takes no place', () => {
  const names = ['Sample', '  Ines  de  Exemple ', ...Array.from({ length: 24 }, () => 'Sample Person')]
  const batch = batchContacts({ open: [names.map(open)] })
  expect(batch.contacts[0]).toEqual({
    ref: 'p1',
    firstName: 'Ines de',
    lastName: 'Exemple',
    domain: 'freight.example',
  })
  expect(batch.left).toBe(1)
})

test('an address goes to the person of its ref, and none goes to anybody that is not verified', () => {
  const both = [found('p2', 'verified', 'b@freight.example'), found('p1', 'verified', 'a@freight.example')]
  expect(mergeContacts({ people, found: both }).map(({ ref, email }) => [ref, email])).toEqual([
    ['p1', 'a@freight.example'],
    ['p2', 'b@freight.example'],
  ])
  for (const confidence of ['probable', 'accepts_all', 'unverified', 'invalid', null])
    expect(mergeContacts({ people, found: [found('p1', confidence)] })).toEqual([])
  expect(mergeContacts({ people, found: [found('p1', 'verified', null), found('p9', 'verified')] })).toEqual([])
})
