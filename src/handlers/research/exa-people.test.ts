import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type ExaSearchResult, type ExaSimulator, samplePerson, startExaSimulator } from '../../../simulators/exa.ts'
import { startVendorServer, type VendorServer } from '../../../simulators/vendor-server.ts'
import { BRISK, callMetered, raisedAs, READ_FAULTS } from '../../../test/vendor-call.ts'
import { vendorPriceBook, type VendorPriceBook } from '../../usage/vendor-prices.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import type { RetryBudget } from '../vendor/retry-budget.ts'
import { discoverPeopleTool } from './discover-people.ts'
import { exaPeople, usageOf } from './exa-people.ts'

const KEY = 'exa-key-of-the-deployment'
const ARGS = { provider: 'exa', title: 'Head of Operations', company: 'Sample Freight', location: 'Utrecht', limit: 5 }
const prices = vendorPriceBook()

let exa: ExaSimulator
let elsewhere: VendorServer
let found: readonly ExaSearchResult[] | null
let onSearch: () => void
let cost: 'reported' | 'missing' | 'free'
beforeAll(async () => {
  exa = await startExaSimulator({
    keys: [KEY],
    cost: () => cost,
    find: () => {
      onSearch()
      return found ?? [samplePerson(JO)]
    },
  })
  elsewhere = await startVendorServer({ behaviour: () => ({ status: 200, body: { results: [] } }) })
})
beforeEach(() => {
  exa.reset()
  elsewhere.reset()
  found = null
  onSearch = () => undefined
  cost = 'reported'
})
afterEach(() => void vi.unstubAllEnvs())
afterAll(() => Promise.all([exa.close(), elsewhere.close()]))

const JO = { name: 'Jo Example', title: 'Head of Operations', company: 'Sample Freight', location: 'Utrecht' }

function tool(budget: RetryBudget = BRISK, apiKey = KEY) {
  return discoverPeopleTool({ providers: [exaPeople({ access: { apiKey, baseUrl: exa.url }, prices })], budget })
}

const search = (declaration = tool()) => callMetered(declaration, ARGS)

/** The one person of an answer about these results. */
async function person(...results: readonly ExaSearchResult[]) {
  found = results
  const { answer } = await search()
  return answer?.data
}

describe('a request', () => {
  test('is one people search with the contents it wants, so that the SDK orders no page text', async () => {
    await search()
    expect(exa.requests.map(({ method, path, body }) => ({ method, path, body }))).toEqual([
      {
        method: 'POST',
        path: '/search',
        body: {
          query: 'Head of Operations, at Sample Freight, based in Utrecht',
          category: 'people',
          type: 'auto',
          numResults: 5,
          contents: { highlights: { maxCharacters: 600 } },
        },
      },
    ])
  })

  test('carries the key of the deployment and no other, whatever the environment holds', async () => {
    vi.stubEnv('EXA_API_KEY', 'somebody-elses-key')
    await search()
    expect(exa.requests[0]?.headers['x-api-key']).toBe(KEY)
    expect(exa.requests[0]?.headers.authorization).toBeUndefined()
  })

  test('is not made without a key, even where the environment has one', () => {
    vi.stubEnv('EXA_API_KEY', 'somebody-elses-key')
    expect(() => tool(BRISK, '')).toThrow('the key is empty')
    expect(exa.requests).toEqual([])
  })

  test('is not made without a price', () => {
    const unpriced: VendorPriceBook = {
      ...prices,
      cents() {
        throw new Error('exa search has no price')
      },
    }
    expect(() => exaPeople({ access: { apiKey: KEY, baseUrl: exa.url }, prices: unpriced })).toThrow('has no price')
  })
})

describe('a search', () => {
  test('R34 answers people and records one row at the cost the answer reports', async () => {
    const { answer, usage } = await search()
    expect(answer?.meta).toEqual({ untrusted: true })
    expect(answer?.data).toEqual([
      {
        ...JO,
        linkedinUrl: expect.stringMatching(/^https:\/\/www\.linkedin\.com\/in\/sample-person-/),
        sourceUrl: expect.stringMatching(/^https:\/\/www\.linkedin\.com\/in\/sample-person-/),
        snippet: 'Head of Operations, Sample Freight, Utrecht',
      },
    ])
    expect(usage).toEqual([
      { provider: 'exa', item: 'search', quantity: { searches: 1, resultsAsked: 5 }, costCents: 0.7 },
    ])
  })

  test('that finds nobody is a success, and is charged', async () => {
    found = []
    const { answer, usage } = await search()
    expect(answer?.data).toEqual([])
    expect(usage).toMatchObject([{ costCents: 0.7 }])
  })

  test('whose answer names no cost is charged by the price book, and the row says so', async () => {
    cost = 'missing'
    const { usage } = await search()
    expect(usage).toEqual([
      { provider: 'exa', item: 'search', quantity: { searches: 1, resultsAsked: 5, estimated: 1 }, costCents: 0.7 },
    ])
  })

  test('that the vendor calls free is recorded at nothing', async () => {
    cost = 'free'
    const { usage } = await search()
    expect(usage).toMatchObject([{ costCents: 0, quantity: { searches: 1, resultsAsked: 5 } }])
  })

  test.each<unknown>([-1, '0.007', null, {}])('whose cost is %j has an unknown cost', async (total) => {
    exa.play({ kind: 'answer', status: 200, body: { results: [], costDollars: { total } } })
    expect((await search()).usage).toMatchObject([{ costCents: 0.7, quantity: { estimated: 1 } }])
  })

  test.each([
    ['without a hint', {}],
    ['with one', { headers: { 'retry-after': '0' } }],
  ])('that is rate limited for a moment, %s, is repeated and charged once', async (_how, rest) => {
    exa.play({ kind: 'answer', status: 429, ...rest })
    const { answer, usage } = await search()
    expect(answer?.data).toHaveLength(1)
    expect(exa.requests).toHaveLength(2)
    expect(usage).toHaveLength(1)
  })

  test('ends with its call', async () => {
    const call = new AbortController()
    const reason = new Error('the run was cancelled')
    onSearch = () => call.abort(reason)
    const { raised, usage } = await callMetered(tool(), ARGS, call.signal)
    expect(raised).toBe(reason)
    expect(exa.requests).toHaveLength(1)
    expect(usage).toEqual([])
  })

  test('costs extra for results beyond ten', () => {
    expect(usageOf({ dollars: null, numResults: 13, prices }).costCents).toBeCloseTo(1.0)
    expect(usageOf({ dollars: 0.0070000001, numResults: 10, prices }).costCents).toBe(0.7)
  })
})

describe('T41 R28 R34 a vendor that is', () => {
  test.each(READ_FAULTS)('$says raises and charges nothing', async ({ faults, budget, ...expected }) => {
    exa.play(...faults)
    const call = await search(tool(budget))
    expect(raisedAs(call)).toEqual([expected.raised, expected.trouble])
    expect(exa.requests).toHaveLength(expected.requests)
    expect(call.usage).toEqual([])
    expect(`${String(call.raised)} ${JSON.stringify(call.raised)}`).not.toMatch(/exa-key|Sample Freight|oh no/)
  })

  test.each([
    [403, 'PROHIBITED_CONTENT', ['unavailable', 'refused']],
    [403, 'FEATURE_DISABLED', ['fault', 'payment']],
    [403, 'TEAM_BLOCKED', ['fault', 'authentication']],
    [402, 'NO_MORE_CREDITS', ['fault', 'payment']],
    [402, 'API_KEY_BUDGET_EXCEEDED', ['fault', 'payment']],
    [401, 'INVALID_API_KEY', ['fault', 'authentication']],
  ])('answering %i %s raises for whom it concerns', async (status, tag, expected) => {
    exa.play({ kind: 'answer', status, body: { requestId: 'abc123', error: 'words of the vendor', tag } })
    const call = await search()
    expect(raisedAs(call)).toEqual(expected)
    const behind = (call.raised instanceof VendorError ? call.raised : (call.raised as Error).cause) as VendorError
    expect(behind).toMatchObject({ vendor: 'exa', status, vendorCode: tag, requestId: 'abc123' })
    expect(behind.message).not.toContain('words')
    expect(call.usage).toEqual([])
  })

  test.each<unknown>([{ error: 'rate limit exceeded' }, { requestId: 7, error: {}, tag: ['x'] }, 'slow down'])(
    'rate limited in the form %j is rate limited',
    async (body) => {
      const limited = { kind: 'answer', status: 429, body } as const
      exa.play(limited, limited)
      expect(raisedAs(await search())).toEqual(['retryable', 'rate_limited'])
    },
  )

  test('given a wrong key says so', async () => {
    expect(raisedAs(await search(tool(BRISK, 'wrong-key')))).toEqual(['fault', 'authentication'])
  })

  test('moved is not followed: the key goes nowhere else', async () => {
    exa.play({ kind: 'redirect', to: `${elsewhere.url}/search` })
    expect(raisedAs(await search())).toEqual(['fault', 'redirected'])
    expect(elsewhere.requests).toEqual([])
    expect(exa.requests).toHaveLength(1)
  })

  test('gone after the work has charged for it once, and is not asked again', async () => {
    exa.play({ kind: 'lost_answer' })
    await search()
    expect(exa.charged()).toBe(1)
  })
})

const profile = (part: Partial<ExaSearchResult>): ExaSearchResult => ({
  id: 'x',
  url: 'https://nl.linkedin.com/in/jo-sample-1?trk=people',
  title: 'Jo Example | Head of Operations at Sample Freight',
  ...part,
})

const entity = (properties: unknown) => ({ id: 'e', type: 'person', version: 1, properties })

describe('a candidate', () => {
  test('without an entity is named by its profile page, and nothing else is guessed', async () => {
    expect(await person(profile({ title: 'Jo Example - Head of Operations - Sample Freight | LinkedIn' }))).toEqual([
      {
        name: 'Jo Example',
        title: null,
        company: null,
        location: null,
        linkedinUrl: 'https://nl.linkedin.com/in/jo-sample-1',
        sourceUrl: 'https://nl.linkedin.com/in/jo-sample-1?trk=people',
        snippet: null,
      },
    ])
  })

  test('of another page is named by its author, not by the title of the page', async () => {
    const page = { url: 'https://example.com/team', title: 'Our team | Sample Freight' }
    expect(await person(profile({ ...page, author: 'Jo Example' }))).toMatchObject([
      { name: 'Jo Example', linkedinUrl: null, sourceUrl: 'https://example.com/team' },
    ])
    expect(await person(profile(page))).toEqual([])
  })

  test('that nobody names is left out, and the answer says how many', async () => {
    found = [samplePerson(JO), profile({ title: null }), profile({ title: '', author: ' ' })]
    const { answer, usage } = await search()
    expect(answer?.data).toMatchObject([{ name: 'Jo Example' }])
    expect(answer?.meta).toEqual({ untrusted: true, partialReason: '2 of 3 results name nobody' })
    expect(usage).toHaveLength(1)
  })

  test('has the job that has not ended', async () => {
    const workHistory = [
      { title: 'Planner', dates: { from: '2015-01-01', to: '2019-01-01' }, company: { name: 'Old Freight' } },
      { title: 'Head of Operations', dates: { from: '2019-01-01', to: null }, company: { name: 'New Freight' } },
    ]
    expect(await person(profile({ entities: [entity({ name: 'Jo', workHistory })] }))).toMatchObject([
      { title: 'Head of Operations', company: 'New Freight' },
    ])
    const ended = workHistory.slice(0, 1)
    expect(await person(profile({ entities: [entity({ name: 'Jo', workHistory: ended })] }))).toMatchObject([
      { title: null, company: null },
    ])
  })

  test.each<unknown>([
    {},
    null,
    { name: null, location: null, workHistory: null },
    { workHistory: [{}] },
    { workHistory: [{ title: null, dates: null, company: null }] },
  ])('may be known by next to nothing: %j', async (properties) => {
    expect(await person(profile({ entities: [entity(properties)] }))).toMatchObject([{ name: 'Jo Example' }])
  })

  test('is read past entities of other kinds', async () => {
    const other = { id: 'c', type: 'place', properties: { location: { lat: 1 } } }
    expect(await person(profile({ entities: [other, entity({ name: 'Jo Known' })] }))).toMatchObject([
      { name: 'Jo Known' },
    ])
  })

  test('that cannot be read is no candidate without data: the call is a fault', async () => {
    found = [profile({ entities: [entity({ name: { first: 'Jo' } })] })]
    const call = await search()
    expect(raisedAs(call)).toEqual(['fault', 'decode'])
    expect(call.usage).toEqual([])
  })

  test('is bounded, field by field, and keeps nothing else of what the vendor sent', async () => {
    const long = 'x'.repeat(5_000)
    const workHistory = [{ title: long, company: { name: `New\n\tFreight ${long}` } }]
    found = [
      profile({
        text: long,
        highlights: [long, long],
        entities: [entity({ name: `Jo\u0000 ${long}`, location: long, workHistory, email: 'jo@example.com' })],
      }),
    ]
    const { answer } = await search()
    const only = (answer?.data as Record<string, string>[] | undefined)?.[0]
    expect(Object.keys(only ?? {})).toEqual([
      'name',
      'title',
      'company',
      'location',
      'linkedinUrl',
      'sourceUrl',
      'snippet',
    ])
    expect(only?.['company']).toMatch(/^New Freight x+…$/)
    const lengths = ['name', 'title', 'company', 'location', 'snippet'].map((field) => only?.[field]?.length)
    expect(lengths).toEqual([120, 200, 200, 200, 600])
  })

  test.each([
    ['javascript:alert(1)', null, null],
    ['https://user:pw@www.linkedin.com/in/jo', null, null],
    ['https://linkedin.com.example.com/in/jo', null, 'https://linkedin.com.example.com/in/jo'],
    ['https://www.linkedin.com/company/sample', null, 'https://www.linkedin.com/company/sample'],
    ['http://www.linkedin.com/in/jo', 'https://www.linkedin.com/in/jo', 'http://www.linkedin.com/in/jo'],
  ])('at %s has the addresses that are ones', async (url, linkedinUrl, sourceUrl) => {
    expect(await person(profile({ url, entities: [entity({ name: 'Jo' })] }))).toMatchObject([
      { linkedinUrl, sourceUrl },
    ])
  })

  test('is one of as many as were asked for, even from a vendor that sends more', async () => {
    const many = Array.from({ length: 12 }, (_, index) => profile({ url: `https://www.linkedin.com/in/jo-${index}` }))
    exa.play({ kind: 'answer', status: 200, body: { results: many } })
    expect((await search()).answer?.data).toHaveLength(5)
  })
})
