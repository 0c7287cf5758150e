import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type FirecrawlSimulator, startFirecrawlSimulator } from './firecrawl.ts'

let firecrawl: FirecrawlSimulator
beforeAll(async () => {
  firecrawl = await startFirecrawlSimulator({ keys: ['fc-known'] })
})
beforeEach(() => firecrawl.reset())
afterAll(() => firecrawl.close())

async function post(body: object, authorization: string | null = 'Bearer fc-known') {
  const headers = { 'content-type': 'application/json', ...(authorization === null ? {} : { authorization }) }
  const response = await fetch(`${firecrawl.url}/v2/scrape`, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: response.status, body: (await response.json()) as { data?: { metadata: Record<string, unknown> } } }
}

test('a page is made up from its address, the same every time, and counted', async () => {
  const [first, second] = [await post({ url: 'https://sample.test/a' }), await post({ url: 'https://sample.test/a' })]
  expect(first).toEqual(second)
  expect(first.body.data?.metadata).toMatchObject({
    sourceURL: 'https://sample.test/a',
    statusCode: 200,
    creditsUsed: 1,
  })
  expect(firecrawl.credits()).toBe(2)
})

test.each([
  [{ formats: ['markdown', { type: 'json', prompt: 'p' }] }, 'https://sample.test/', 5],
  [{}, 'https://sample.test/a.pdf', 3],
  [{ parsers: [] }, 'https://sample.test/a.pdf', 1],
])('with %j, %s takes %i credits', async (options, url, credits) => {
  expect((await post({ url, ...options })).body.data?.metadata['creditsUsed']).toBe(credits)
  expect(firecrawl.credits()).toBe(credits)
})

test.each([
  [{ url: 'not an address' }, 400],
  [{ url: 'https://intranet/' }, 400],
  [{ url: 'ftp://sample.test/' }, 400],
  [{ url: 'https://sample.test/', surprise: true }, 400],
  [{ url: 'https://blocked.test/' }, 403],
])('%j is refused with %i and costs nothing', async (body, status) => {
  expect((await post(body)).status).toBe(status)
  expect(firecrawl.credits()).toBe(0)
})

test.each([null, 'Bearer fc-other', 'fc-known'])('the key %j is refused', async (authorization) => {
  expect((await post({ url: 'https://sample.test/' }, authorization)).status).toBe(401)
})

test('a name that does not resolve is a 200 without success', async () => {
  expect(await post({ url: 'https://nowhere.invalid/' })).toMatchObject({
    status: 200,
    body: { success: false, code: 'SCRAPE_DNS_RESOLUTION_ERROR' },
  })
})
