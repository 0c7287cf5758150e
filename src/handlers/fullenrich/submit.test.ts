import { describe, expect, test } from 'vitest'
import type { JobReservations } from '../../provider-jobs/submit.ts'
import { parseArguments } from '../../tools/declarations.ts'
import { buildRegistry } from '../../tools/registry.ts'
import { vendorPriceBook } from '../../usage/vendor-prices.ts'
import { fullEnrich } from './index.ts'
import { submitTool } from './submit.ts'

const access = { apiKey: 'key', baseUrl: 'https://app.fullenrich.test/api/v2' }
const jobs: JobReservations = {
  reserve: () => Promise.reject(new Error('not asked')),
  bind: () => Promise.reject(new Error('not asked')),
}
const tool = submitTool({ access, jobs, callbackUrl: () => 'https://hooks.test' })

const CONTACT = { ref: 'a', firstName: 'Sample', lastName: 'Person', domain: 'freight.test' }
const parsed = (contacts: unknown) => parseArguments(tool, { contacts })
const kindOf = (part: object): string => parsed([{ ...CONTACT, ...part }]).kind

describe('the contacts of a submit', () => {
  test.each([
    ['one contact', [CONTACT]],
    ['25 contacts', Array.from({ length: 25 }, (_, index) => ({ ...CONTACT, ref: `r${index}` }))],
    ['a company in place of a domain', [{ ref: 'a', firstName: 'S', lastName: 'P', company: 'Freight' }]],
    [
      'a profile in place of a company',
      [{ ref: 'a', firstName: 'S', lastName: 'P', linkedinUrl: 'linkedin.com/in/sp' }],
    ],
  ])('may be %s', (_says, contacts) => {
    expect(parsed(contacts).kind).toBe('parsed')
  })

  test.each([
    ['none', []],
    ['26', Array.from({ length: 26 }, (_, index) => ({ ...CONTACT, ref: `r${index}` }))],
    ['two of one ref', [CONTACT, CONTACT]],
    ['one without a company, a domain and a profile', [{ ref: 'a', firstName: 'S', lastName: 'P' }]],
    ['one without a last name', [{ ref: 'a', firstName: 'S', domain: 'freight.test' }]],
    ['one with a field of its own', [{ ...CONTACT, phone: true }]],
    ['one with a callback', [{ ...CONTACT, webhook_url: 'https://elsewhere.test' }]],
  ])('may not be %s', (_says, contacts) => {
    expect(parsed(contacts).kind).toBe('invalid')
  })

  test.each([
    ['ref', 64],
    ['firstName', 120],
    ['lastName', 120],
    ['company', 200],
  ])('have a %s of 1 to %i characters', (field, most) => {
    expect(kindOf({ [field]: 'x'.repeat(most) })).toBe('parsed')
    expect(kindOf({ [field]: 'x'.repeat(most + 1) })).toBe('invalid')
    expect(kindOf({ [field]: '' })).toBe('invalid')
    expect(kindOf({ [field]: 'a\nb' })).toBe('invalid')
  })

  test('have an address of a profile of at most 512 characters', () => {
    const url = (length: number): string => 'https://www.linkedin.com/in/sample-person?x='.padEnd(length, 'x')
    expect(kindOf({ linkedinUrl: url(512) })).toBe('parsed')
    expect(kindOf({ linkedinUrl: url(513) })).toBe('invalid')
    expect(kindOf({ linkedinUrl: 'https://elsewhere.test/in/sample-person' })).toBe('invalid')
  })

  test('have their domain and profile in one spelling, which is what is hashed, shown and sent', () => {
    const contacts = [
      { ...CONTACT, domain: 'https://WWW.Freight.test/about', linkedinUrl: 'nl.linkedin.com/in/Sample/' },
    ]
    expect(parsed(contacts)).toEqual({
      kind: 'parsed',
      args: { contacts: [{ ...CONTACT, domain: 'freight.test', linkedinUrl: 'https://www.linkedin.com/in/sample' }] },
    })
    expect(kindOf({ domain: 'not a domain' })).toBe('invalid')
  })

  test('come with nothing beside them', () => {
    for (const extra of ['callbackUrl', 'organizationId', 'runId', 'apiKey', 'custom'])
      expect(parseArguments(tool, { contacts: [CONTACT], [extra]: 'x' }).kind).toBe('invalid')
  })
})

test('both tools are a registry, and the submit alone may leave its cost to be settled', async () => {
  const { tools } = fullEnrich({
    access,
    prices: vendorPriceBook(),
    jobs: { ...jobs, read: () => Promise.resolve(null), result: () => Promise.resolve(null) },
    callbackUrl: () => 'https://hooks.test',
  })
  const registry = await buildRegistry(tools)
  expect(registry.get('fullenrich.submit')).toMatchObject({ sideEffects: 'write', metered: true, egress: true })
  expect(registry.get('fullenrich.collect')).toMatchObject({ sideEffects: 'read', metered: false, egress: false })
  expect(registry.declaration('fullenrich.submit')?.settles).toBe('later')
  expect(registry.declaration('fullenrich.collect')?.settles).toBeUndefined()
})

test('nothing is made with a key or an address that cannot work, or without a price', () => {
  const options = { prices: vendorPriceBook(), jobs: jobs as never, callbackUrl: () => 'https://hooks.test' }
  expect(() => fullEnrich({ ...options, access: { ...access, apiKey: '' } })).toThrow('fullenrich')
  expect(() => fullEnrich({ ...options, access, formerKeys: [''] })).toThrow('fullenrich')
  expect(() => fullEnrich({ ...options, access: { ...access, baseUrl: 'nowhere' } })).toThrow('fullenrich')
})
