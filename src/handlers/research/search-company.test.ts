import * as fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  type ParallelSearchResult,
  type ParallelSimulator,
  startParallelSimulator,
} from '../../../simulators/parallel.ts'
import { startVendorServer, type VendorServer } from '../../../simulators/vendor-server.ts'
import { admitted } from '../../../test/handler-call.ts'
import { BRISK, callMetered, raisedAs, READ_FAULTS } from '../../../test/vendor-call.ts'
import { buildRegistry } from '../../tools/registry.ts'
import type { JsonObject } from '../../tools/json.ts'
import { vendorPriceBook } from '../../usage/vendor-prices.ts'
import { timeoutFor, worstCaseMs } from '../vendor/retry-budget.ts'
import { PARALLEL_MODES, type ParallelMode } from './parallel-client.ts'
import { parallelUsage } from './parallel-cost.ts'
import { companySearch, SEARCH_COMPANY_BUDGET, searchCompanyTool } from './search-company.ts'

const KEY = 'parallel-key-of-the-deployment'
const prices = vendorPriceBook()

let parallel: ParallelSimulator
let elsewhere: VendorServer
let found: readonly ParallelSearchResult[] | null
let usage: unknown
let onSearch: () => void
beforeAll(async () => {
  parallel = await startParallelSimulator({
    keys: [KEY],
    usage: (counts) => (usage === undefined ? counts : usage),
    find: () => {
      onSearch()
      return found ?? [PAGE]
    },
  })
  elsewhere = await startVendorServer({ behaviour: () => ({ status: 200, body: { results: [] } }) })
})
beforeEach(() => {
  parallel.reset()
  elsewhere.reset()
  found = null
  usage = undefined
  onSearch = () => undefined
})
afterEach(() => void vi.unstubAllEnvs())
afterAll(() => Promise.all([parallel.close(), elsewhere.close()]))

const PAGE = {
  url: 'https://example.com/about',
  title: 'About Sample Freight',
  publish_date: '2026-03-11',
  excerpts: ['Sample Freight is a carrier in Utrecht.'],
}

const ARGS = { company: 'Sample Freight' }

function tool({
  budget = BRISK,
  apiKey = KEY,
  ...rest
}: Partial<Parameters<typeof searchCompanyTool>[0]> & { apiKey?: string } = {}) {
  return searchCompanyTool({ access: { apiKey, baseUrl: parallel.url }, prices, budget, ...rest })
}

const search = (args: JsonObject = ARGS, declaration = tool()) => callMetered(declaration, args)

describe('a request', () => {
  test('says how thorough, how long and how many, because what is left out is the dearest', async () => {
    await search({ company: 'Sample Freight', domain: 'sample.test', focus: 'fleet size', country: 'NL' })
    expect(parallel.requests.map(({ method, path, body }) => ({ method, path, body }))).toEqual([
      {
        method: 'POST',
        path: '/v1/search',
        body: {
          objective: 'Find out about the company Sample Freight (sample.test): fleet size',
          search_queries: ['Sample Freight company profile', 'Sample Freight fleet size', 'sample.test about'],
          mode: 'basic',
          max_chars_total: 10_000,
          advanced_settings: { max_results: 10, location: 'nl' },
        },
      },
    ])
  })

  test.each(PARALLEL_MODES)('is made in the mode of the deployment, %s', async (mode) => {
    await search(ARGS, tool({ mode }))
    expect(parallel.requests[0]?.body).toMatchObject({ mode })
  })

  test('goes to the address and with the key of the deployment, whatever the environment holds', async () => {
    vi.stubEnv('PARALLEL_BASE_URL', elsewhere.url)
    vi.stubEnv('PARALLEL_API_KEY', 'somebody-elses-key')
    vi.stubEnv('PARALLEL_CUSTOM_HEADERS', 'x-api-key: somebody-elses-key')
    await search()
    expect(elsewhere.requests).toEqual([])
    expect(parallel.requests[0]?.headers).toMatchObject({ 'x-api-key': KEY, 'x-stainless-retry-count': '0' })
  })

  test('is not made without a key, even where the environment has one', () => {
    vi.stubEnv('PARALLEL_API_KEY', 'somebody-elses-key')
    expect(() => tool({ apiKey: '' })).toThrow('the key is empty')
  })

  test('writes nothing into the log of the process, even where the environment asks for it', async () => {
    vi.stubEnv('PARALLEL_LOG', 'debug')
    const log = vi.spyOn(console, 'debug')
    await search()
    expect(log).not.toHaveBeenCalled()
  })

  test('is not made in a mode without a price', () => {
    expect(() => tool({ mode: 'lavish' as ParallelMode })).toThrow('search.lavish has no price')
  })

  test('is a few words each, whatever was asked', () => {
    const name = fc.string({ minLength: 1, maxLength: 100 })
    const text = fc.string({ minLength: 1, maxLength: 200 })
    fc.assert(
      fc.property(fc.option(name), text, (company, focus) => {
        const args = company === null ? { domain: 'sample.test' } : { company }
        const { queries, objective } = companySearch({ ...args, focus }, 'basic')
        expect(queries.length).toBeGreaterThanOrEqual(2)
        expect(queries.every((query) => query.length > 0 && query.length <= 200)).toBe(true)
        expect(objective).toContain(focus)
      }),
    )
  })
})

describe('arguments', () => {
  test.each<JsonObject>([
    {},
    { focus: 'fleet size' },
    { company: '  ' },
    { company: 'x'.repeat(101) },
    { company: 'Sample\nFreight' },
    { domain: 'https://example.com' },
    { domain: 'localhost' },
    { domain: `${'a.'.repeat(130)}com` },
    { company: 'Sample', focus: 'x'.repeat(201) },
    { company: 'Sample', country: 'UK' },
    { company: 'Sample', country: 'NLD' },
    { company: 'Sample', mode: 'advanced' },
  ])('like %j are refused before anything is paid', (args) => {
    expect(() => admitted(tool(), args)).toThrow('arguments')
  })

  test.each<JsonObject>([
    { company: "L'Oréal (日本) & Söhne" },
    { domain: 'sample.test' },
    { company: 'Sample', domain: 'www.sample-freight.co.uk', country: 'gb', focus: 'news' },
  ])('like %j are taken as they are', (args) => {
    expect(admitted(tool(), args)).toEqual(args)
  })
})

describe('a search', () => {
  test('R34 answers pages and records one row at the price of its mode', async () => {
    const { answer, usage: rows } = await search()
    expect(answer?.meta).toEqual({ untrusted: true })
    expect(answer?.data).toEqual([
      {
        title: 'About Sample Freight',
        url: 'https://example.com/about',
        publishedOn: '2026-03-11',
        excerpts: ['Sample Freight is a carrier in Utrecht.'],
      },
    ])
    const quantity = { searches: 1, extraResults: 0 }
    expect(rows).toEqual([{ provider: 'parallel', item: 'search.basic', quantity, costCents: 0.5 }])
  })

  test('that finds nothing is a success, and is charged', async () => {
    found = []
    const { answer, usage: rows } = await search()
    expect(answer?.data).toEqual([])
    expect(rows).toMatchObject([{ costCents: 0.5 }])
  })

  test.each<[string, unknown]>([
    ['null', null],
    ['an empty list', []],
    ['another shape', { sku_search: 1 }],
    ['half a search', [{ name: 'sku_search', count: 0.5 }]],
    ['something else', [{ name: 'sku_extract_excerpts', count: 0 }]],
  ])('whose counts are %s is charged as one search, and the row says so', async (_says, given) => {
    usage = given
    const quantity = { searches: 1, extraResults: 0, estimated: 1 }
    expect((await search()).usage).toEqual([{ provider: 'parallel', item: 'search.basic', quantity, costCents: 0.5 }])
  })

  test('that is rate limited for a moment is repeated and charged once', async () => {
    parallel.play({ kind: 'answer', status: 429, headers: { 'retry-after': '0' } })
    const { answer, usage: rows } = await search()
    expect(answer?.data).toHaveLength(1)
    expect(parallel.requests).toHaveLength(2)
    expect(rows).toHaveLength(1)
  })

  test('ends with its call', async () => {
    const call = new AbortController()
    const reason = new Error('the run was cancelled')
    onSearch = () => call.abort(reason)
    const { raised, usage: rows } = await callMetered(tool(), ARGS, call.signal)
    expect(raised).toBe(reason)
    expect(parallel.requests).toHaveLength(1)
    expect(rows).toEqual([])
  })
})

describe('the cost', () => {
  const counted = [
    { name: 'sku_search', count: 2 },
    { name: 'sku_search_additional_results', count: 5 },
    { name: 'sku_search', count: 1 },
  ]

  test('is what was counted, at the price of the mode that was asked for', () => {
    const charge = { usage: counted, maxResults: 10, prices }
    expect(parallelUsage({ ...charge, mode: 'turbo' })).toEqual({
      provider: 'parallel',
      item: 'search.turbo',
      quantity: { searches: 3, extraResults: 5 },
      costCents: expect.closeTo(0.8) as number,
    })
    expect(parallelUsage({ ...charge, mode: 'advanced' }).costCents).toBeCloseTo(2)
  })

  test('of results beyond ten is estimated from the request', () => {
    const estimate = parallelUsage({ usage: null, maxResults: 15, prices, mode: 'basic' })
    expect(estimate).toMatchObject({ quantity: { searches: 1, extraResults: 5, estimated: 1 } })
    expect(estimate.costCents).toBeCloseTo(1)
  })

  test('of something that has no price here is left to the invoice, and the row shows its count', () => {
    const strange = [...counted, { name: 'sku_search_premium', count: 4 }]
    expect(parallelUsage({ usage: strange, maxResults: 10, prices, mode: 'turbo' }).quantity).toEqual({
      searches: 3,
      extraResults: 5,
      unpriced: 4,
    })
  })
})

describe('T41 R28 R34 a vendor that is', () => {
  test.each(READ_FAULTS)('$says raises and charges nothing', async ({ faults, budget = BRISK, ...expected }) => {
    parallel.play(...faults)
    const call = await search(ARGS, tool({ budget }))
    expect(raisedAs(call)).toEqual([expected.raised, expected.trouble])
    expect(parallel.requests).toHaveLength(expected.requests)
    expect(call.usage).toEqual([])
    expect(`${String(call.raised)} ${JSON.stringify(call.raised)}`).not.toMatch(/parallel-key|Sample Freight|oh no/)
  })

  test('refusing a request leaves its reference and none of its words', async () => {
    const error = { ref_id: 'search_0a1b', message: 'Sample Freight is not valid', detail: { errors: [] } }
    parallel.play({ kind: 'answer', status: 422, body: { type: 'error', error } })
    const { raised } = await search()
    expect(raised).toMatchObject({ vendor: 'parallel', status: 422, trouble: 'request', requestId: 'search_0a1b' })
    expect((raised as Error).message).not.toContain('Sample Freight')
    expect((raised as Error).cause).toBeUndefined()
  })

  test('given a wrong key says so', async () => {
    expect(raisedAs(await search(ARGS, tool({ apiKey: 'wrong-key' })))).toEqual(['fault', 'authentication'])
  })

  test('moved is not followed: the key goes nowhere else', async () => {
    parallel.play({ kind: 'redirect', to: `${elsewhere.url}/v1/search` })
    expect(raisedAs(await search())).toEqual(['fault', 'redirected'])
    expect(elsewhere.requests).toEqual([])
    expect(parallel.requests).toHaveLength(1)
  })

  test('gone after the work has charged for it once, and is not asked again', async () => {
    parallel.play({ kind: 'lost_answer' })
    await search()
    expect(parallel.charged()).toBe(1)
  })
})

describe('a page', () => {
  const pages = async (...results: readonly ParallelSearchResult[]) => {
    found = results
    return (await search()).answer?.data
  }

  test('may have no title, no date and no excerpt', async () => {
    const bare = { url: 'https://example.com/', excerpts: [] }
    expect(await pages(bare, { ...bare, title: null, publish_date: null })).toEqual(
      [1, 2].map(() => ({ url: 'https://example.com/', title: null, publishedOn: null, excerpts: [] })),
    )
  })

  test.each(['11 March', '2026-03-11T00:00:00Z', ''])('of %j has no date', async (date) => {
    expect(await pages({ ...PAGE, publish_date: date })).toMatchObject([{ publishedOn: null }])
  })

  test.each(['javascript:alert(1)', 'file:///etc/passwd', 'https://user:pw@example.com/', 'no address', ''])(
    'at %j is none',
    async (url) => {
      expect(await pages({ ...PAGE, url }, PAGE)).toMatchObject([{ url: PAGE.url }])
    },
  )

  test('is bounded, and keeps nothing else of what the vendor sent', async () => {
    const long = 'x'.repeat(5_000)
    const excerpts = Array.from({ length: 9 }, () => long)
    const results = [{ ...PAGE, title: long, excerpts, full_content: long }]
    parallel.play({ kind: 'answer', status: 200, body: { results, warnings: [{ type: 'warning', message: 'hm' }] } })
    const { answer } = await search()
    const only = (answer?.data as { title: string; excerpts: string[] }[] | undefined)?.[0]
    expect(Object.keys(only ?? {})).toEqual(['title', 'url', 'publishedOn', 'excerpts'])
    expect(only?.title).toHaveLength(300)
    expect(only?.excerpts.map(({ length }) => length)).toEqual([2_000, 2_000, 2_000, 2_000, 2_000])
  })

  test('is one of ten, even from a vendor that sends more', async () => {
    parallel.play({ kind: 'answer', status: 200, body: { results: Array.from({ length: 30 }, () => PAGE) } })
    expect((await search()).answer?.data).toHaveLength(10)
  })
})

describe('the declaration', () => {
  test('passes every check of the registry', async () => {
    const registry = await buildRegistry([tool({ budget: SEARCH_COMPANY_BUDGET })])
    expect(registry.get('research.search_company')).toMatchObject({
      kind: 'vendor',
      sideEffects: 'read',
      egress: true,
      metered: true,
      retry: 'none',
      connection: null,
      maxResults: 10,
      timeoutS: 72,
    })
  })

  test('T47 gives every budget the time that all its attempts and pauses take', () => {
    const ms = fc.integer({ min: 1, max: 30_000 })
    const budgets = fc.record({
      attempts: fc.integer({ min: 1, max: 5 }),
      attemptMs: ms,
      backoffMs: ms,
      maxPauseMs: ms,
    })
    fc.assert(
      fc.property(budgets, (budget) => {
        const { timeoutS } = tool({ budget }).spec
        expect(timeoutS).toBe(timeoutFor(budget))
        expect(timeoutS * 1000).toBeGreaterThan(worstCaseMs(budget))
      }),
    )
  })
})
