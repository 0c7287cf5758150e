import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { type FirecrawlSimulator, startFirecrawlSimulator } from '../../../simulators/firecrawl.ts'
import { firecrawlClient } from './firecrawl-client.ts'

let firecrawl: FirecrawlSimulator
beforeAll(async () => {
  firecrawl = await startFirecrawlSimulator()
})
afterEach(() => {
  vi.doUnmock('firecrawl')
  vi.resetModules()
})
afterAll(() => firecrawl.close())

/** Another version of the SDK, as far as it could differ where its transport is. */
function sdkWith(parts: object): void {
  class FirecrawlClient {
    constructor() {
      Object.assign(this, parts)
    }
    scrape = async () => (await fetch(`${firecrawl.url}/v2/scrape`, { method: 'POST' })).json()
  }
  vi.doMock('firecrawl', () => ({ FirecrawlClient, SdkError: class extends Error {} }))
}

const scrape = () =>
  firecrawlClient({ apiKey: 'fc-key', baseUrl: firecrawl.url }).scrape({
    url: 'https://sample.test/',
    timeoutMs: 5_000,
    maxAgeMs: 0,
    signal: new AbortController().signal,
  })

test.each([{}, { http: null }, { http: { instance: {} } }, { http: { instance: { defaults: {} } } }])(
  'an SDK built as %j sends nothing: its redirects, proxies and clock are its own',
  async (parts) => {
    sdkWith(parts)
    await expect(scrape()).rejects.toThrow('takes no transport')
    expect(firecrawl.requests).toEqual([])
  },
)

test('an SDK that takes the transport and asks over another one is a fault', async () => {
  sdkWith({ http: { instance: { defaults: { adapter: null } } } })
  await expect(scrape()).rejects.toThrow('a transport of its own')
})

test('the SDK that is installed takes it', async () => {
  expect(await scrape()).toMatchObject({ metadata: { statusCode: 200 } })
})
