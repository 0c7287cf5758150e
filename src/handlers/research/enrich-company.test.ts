import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { hunterCompany, hunterErrors, type HunterSimulator, startHunterSimulator } from '../../../simulators/hunter.ts'
import type { VendorFault } from '../../../simulators/vendor-server.ts'
import { BRISK, callMetered, raisedAs, READ_FAULTS } from '../../../test/vendor-call.ts'
import type { JsonObject } from '../../tools/json.ts'
import { vendorPriceBook } from '../../usage/vendor-prices.ts'
import { HANDLER_MARGIN_MS, type RetryBudget, worstCaseMs } from '../vendor/retry-budget.ts'
import { enrichCompanyTool, type EnrichCompanyOptions } from './enrich-company.ts'
import { HUNTER_BUDGET } from './find-contact.ts'
import type { HunterClient } from './hunter-client.ts'

const KEY = 'hunter-key-of-the-deployment'
const prices = vendorPriceBook()
const CREDIT = prices.cents('hunter', 'company-enrichment', 1)

let hunter: HunterSimulator
beforeAll(async () => {
  hunter = await startHunterSimulator({ keys: [KEY] })
})
beforeEach(() => hunter.reset())
afterAll(() => hunter.close())

function tool(
  part: Partial<Omit<EnrichCompanyOptions, 'budget'>> & { readonly budget?: RetryBudget | undefined } = {},
) {
  const access = { apiKey: KEY, baseUrl: `${hunter.url}/v2` }
  return enrichCompanyTool({ access, prices, ...part, budget: part.budget ?? BRISK })
}

const enrich = (domain = 'example.com', declaration = tool()) => callMetered(declaration, { domain })

const answered = (status: number, body: unknown): VendorFault => ({ kind: 'answer', status, body })

async function company(part: JsonObject) {
  hunter.play(answered(200, hunterCompany(part)))
  return ((await enrich()).answer?.data as { company: unknown } | undefined)?.company
}

describe('a company', () => {
  test('R34 R36 is a projection of what the vendor knows, untrusted, and costs one credit', async () => {
    hunter.play(answered(200, hunterCompany()))
    const { answer, usage } = await enrich('Example.COM')
    expect(answer).toEqual({
      ok: true,
      data: {
        found: true,
        company: {
          domain: 'example.com',
          name: 'Sample Freight',
          description: 'Carrier.',
          industry: 'Logistics',
          employees: '11-50',
          location: 'Utrecht, NL',
          country: 'Netherlands',
          founded: 2010,
          linkedin: 'company/sample',
          tags: ['logistics'],
        },
      },
      meta: { untrusted: true },
    })
    expect(usage).toEqual([
      { provider: 'hunter', item: 'company-enrichment', quantity: { credits: 1 }, costCents: CREDIT },
    ])
    const [request] = hunter.requests
    expect(request).toMatchObject({ method: 'GET', path: '/v2/companies/find' })
    expect(Object.fromEntries(request?.query ?? [])).toEqual({ domain: 'example.com' })
    expect(request?.headers['x-api-key']).toBe(KEY)
  })

  test.each<[string, JsonObject, object]>([
    ['a number of employees', { metrics: { employees: 120 } }, { employees: '120' }],
    ['a range of employees', { metrics: { employees: '51-200' } }, { employees: '51-200' }],
    ['employees of another kind', { metrics: { employees: [1] } }, { employees: null }],
    ['a sector and no industry', { category: { sector: 'Industrials', industry: null } }, { industry: 'Industrials' }],
    [
      'no parts',
      { category: null, metrics: null, geo: null, linkedin: null, tags: null },
      { industry: null, employees: null, country: null, linkedin: null, tags: [] },
    ],
    [
      'odd parts',
      { category: 7, metrics: [], geo: 'NL', linkedin: true, tags: 'x', foundedYear: '2010' },
      { industry: null, founded: null, tags: [] },
    ],
    ['no domain', { domain: null }, { domain: 'example.com' }],
    [
      'many tags',
      { tags: [7, null, ...Array.from({ length: 40 }, (_, i) => `tag ${i}`)] },
      { tags: Array.from({ length: 10 }, (_, i) => `tag ${i}`) },
    ],
    ['a name without end', { name: 'x'.repeat(9_999) }, { name: expect.stringMatching(/^x{199}…$/) }],
  ])('with %s is answered with what can be read', async (_says, part, expected) => {
    expect(await company(part)).toMatchObject(expected)
  })

  test.each([
    ['a 404 of the vendor', 'unknown-company.test', null],
    ['a 200 without one', 'example.com', answered(200, { data: null })],
  ])('that nobody knows is a success at no cost: %s', async (_says, domain, fault) => {
    if (fault !== null) hunter.play(fault)
    const { answer, usage } = await enrich(domain)
    expect(answer).toEqual({ ok: true, data: { found: false, company: null }, meta: { untrusted: true } })
    expect(usage).toEqual([{ provider: 'hunter', item: 'company-enrichment', quantity: { credits: 0 }, costCents: 0 }])
    expect(hunter.credits()).toBe(0)
  })

  test.each([answered(200, { data: 'none' }), answered(200, { data: [] }), answered(404, { message: 'no route' })])(
    'is not missing because an answer cannot be read: %j',
    async (fault) => {
      hunter.play(fault)
      const call = await enrich()
      expect(raisedAs(call)[0]).toBe('fault')
      expect(call.usage).toEqual([])
    },
  )
})

test.each(READ_FAULTS)('T41 T45 $says: $raised for $trouble, without a row', async (row) => {
  hunter.play(...row.faults)
  const call = await enrich('example.com', tool({ budget: row.budget }))
  expect(raisedAs(call)).toEqual([row.raised, row.trouble])
  expect(call.usage).toEqual([])
  expect(hunter.requests).toHaveLength(row.requests)
})

test('an account without credits is a fault and not a miss', async () => {
  hunter.play(
    answered(429, hunterErrors('too_many_requests', 429, 'the limit for the number of searches per billing period')),
  )
  expect(raisedAs(await enrich())).toEqual(['fault', 'payment'])
})

test('a client in a dry run is refused before the call, and a made-up row before the meter', async () => {
  const get = vi.fn<HunterClient['get']>(async () => ({ kind: 'answered', data: { name: 'Made up', _dry_run: true } }))
  const dry = await enrich('example.com', tool({ client: { dryRun: true, get } }))
  expect(String(dry.raised)).toContain('dry run')
  expect(get).not.toHaveBeenCalled()
  const marked = await enrich('example.com', tool({ client: { get } }))
  expect(String(marked.raised)).toContain('dry run')
  expect([...dry.usage, ...marked.usage]).toEqual([])
})

test('T47 the whole retry budget fits into the timeout of the tool', () => {
  const { timeoutS } = tool({ budget: HUNTER_BUDGET }).spec
  expect(timeoutS * 1000).toBeGreaterThanOrEqual(worstCaseMs(HUNTER_BUDGET) + HANDLER_MARGIN_MS)
})
