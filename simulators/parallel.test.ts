import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type ParallelSimulator, startParallelSimulator } from './parallel.ts'

let parallel: ParallelSimulator
beforeAll(async () => {
  parallel = await startParallelSimulator({ keys: ['right'] })
})
beforeEach(() => parallel.reset())
afterAll(() => parallel.close())

interface Answer {
  readonly results?: readonly { readonly excerpts: readonly string[] }[]
  readonly usage?: unknown
}

async function ask(body: unknown, headers: Record<string, string> = { 'x-api-key': 'right' }, path = '/v1/search') {
  const response = await fetch(parallel.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: response.status, body: (await response.json()) as Answer }
}

const SEARCH = { search_queries: ['Sample Freight company profile'] }

describe('what the vendor refuses', () => {
  test.each<unknown>([
    {},
    { search_queries: [] },
    { objective: 'what it does' },
    { ...SEARCH, processor: 'base' },
    { ...SEARCH, max_results: 5 },
    { ...SEARCH, source_policy: {} },
    { ...SEARCH, mode: 'one-shot' },
    { ...SEARCH, advanced_settings: { location: 'Netherlands' } },
  ])('%j', async (body) => {
    expect(await ask(body)).toMatchObject({ status: 422, body: { type: 'error' } })
    expect(parallel.charged()).toBe(0)
  })

  test.each<Record<string, string>>([{}, { 'x-api-key': 'wrong' }, { authorization: 'Bearer right' }])(
    'a request with the headers %j',
    async (headers) => {
      expect((await ask(SEARCH, headers)).status).toBe(401)
    },
  )

  test('its older address', async () => {
    expect((await ask(SEARCH, undefined, '/v1beta/search')).status).toBe(404)
  })
})

describe('what it answers', () => {
  test('is the same pages for the same words', async () => {
    const first = await ask(SEARCH)
    expect(first).toEqual(await ask(SEARCH))
    expect(first.body).toMatchObject({
      results: [{ title: 'About Sample Freight', publish_date: null }, { publish_date: '2026-03-11' }],
      usage: [{ name: 'sku_search', count: 1 }],
    })
    expect(parallel.charged()).toBe(2)
  })

  test('counts the results beyond ten', async () => {
    expect((await ask({ ...SEARCH, advanced_settings: { max_results: 14 } })).body.usage).toEqual([
      { name: 'sku_search', count: 1 },
      { name: 'sku_search_additional_results', count: 4 },
    ])
  })

  test('has no more characters than were ordered', async () => {
    const { body } = await ask({ ...SEARCH, max_chars_total: 30 })
    expect(body.results?.flatMap(({ excerpts }) => excerpts).join('')).toHaveLength(30)
  })
})
