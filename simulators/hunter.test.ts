import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type HunterSimulator, startHunterSimulator } from './hunter.ts'

let hunter: HunterSimulator
beforeAll(async () => {
  hunter = await startHunterSimulator({ keys: ['known'] })
})
beforeEach(() => hunter.reset())
afterAll(() => hunter.close())

async function get(path: string, headers: Record<string, string> = { 'x-api-key': 'known' }) {
  const response = await fetch(`${hunter.url}/v2${path}`, { headers })
  return { status: response.status, body: (await response.json()) as { data?: Record<string, unknown> } }
}

const PERSON = 'first_name=Sample&last_name=Person'

test('an address is made up from the request, the same every time, and counted', async () => {
  const path = `/email-finder?domain=sample.test&${PERSON}`
  const [first, second] = [await get(path), await get(path)]
  expect(first).toEqual(second)
  expect(first.body.data).toMatchObject({ email: 'sample.person@sample.test', domain: 'sample.test' })
  expect(hunter.credits()).toBe(2)
})

test.each([
  ['domain=acme.com', 'acme-com.test'],
  ['domain=example.com', 'example.com'],
  ['company=Acme%20Corp', 'acme-corp.test'],
])('for %s an address is at %s, which nobody else owns', async (where, host) => {
  const { body } = await get(`/email-finder?${where}&${PERSON}`)
  expect(body.data?.['email']).toBe(`sample.person@${host}`)
})

test('nobody is found with every field null, and a company nobody knows is a 404; neither costs anything', async () => {
  const { status, body } = await get('/email-finder?domain=sample.test&full_name=Nobody%20Here')
  expect(status).toBe(200)
  expect(body.data).toMatchObject({ email: null, accept_all: null, verification: { status: null } })
  expect((await get('/companies/find?domain=unknown.test')).status).toBe(404)
  expect(hunter.credits()).toBe(0)
})

test.each([
  ['/email-finder?domain=sample.test', 400],
  [`/email-finder?${PERSON}`, 400],
  ['/companies/find', 400],
  ['/other', 404],
])('%s is answered with %i', async (path, status) => {
  expect((await get(path)).status).toBe(status)
})

test('a key is taken in its three forms, and no other', async () => {
  const path = '/companies/find?domain=sample.test'
  expect((await get(path, { authorization: 'Bearer known' })).status).toBe(200)
  expect((await get(`${path}&api_key=known`, {})).status).toBe(200)
  expect((await get(path, { 'x-api-key': 'other' })).status).toBe(401)
  expect((await get(path, {})).status).toBe(401)
})

test('the number of employees comes in both forms that are described for it', async () => {
  const domains = Array.from({ length: 12 }, (_, index) => `company-${index}.test`)
  const answers = await Promise.all(domains.map((domain) => get(`/companies/find?domain=${domain}`)))
  const kinds = answers.map(
    ({ body }) => typeof (body.data?.['metrics'] as { employees?: unknown } | undefined)?.employees,
  )
  expect(new Set(kinds)).toEqual(new Set(['string', 'number']))
})
