import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { hunterEmail, hunterErrors, startHunterSimulator, type HunterSimulator } from '../simulators/hunter.ts'
import { startFirecrawlSimulator, type FirecrawlSimulator } from '../simulators/firecrawl.ts'
import { enrichCompanyTool } from '../src/handlers/research/enrich-company.ts'
import { findContactTool } from '../src/handlers/research/find-contact.ts'
import { scrapeTool } from '../src/handlers/research/scrape.ts'
import { VendorError } from '../src/handlers/vendor/vendor-error.ts'
import { ValidationError } from '../src/tools/errors.ts'
import type { JsonObject } from '../src/tools/json.ts'
import { vendorPriceBook } from '../src/usage/vendor-prices.ts'
import { canarySecret } from './setup/canary-sweep.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, world } from './setup/world.ts'
import { BRISK } from './vendor-call.ts'

const prices = vendorPriceBook()
const guard = {
  async checkTarget(url: string) {
    if (url.includes('forbidden')) throw new ValidationError('this target is not allowed')
  },
}

let db: TestDatabase
const FIRECRAWL_KEY = canarySecret('firecrawl')
const HUNTER_KEY = canarySecret('hunter')

let firecrawl: FirecrawlSimulator
let hunter: HunterSimulator
beforeAll(async () => {
  db = await testDatabase()
  firecrawl = await startFirecrawlSimulator({ keys: [FIRECRAWL_KEY] })
  hunter = await startHunterSimulator({ keys: [HUNTER_KEY] })
})
beforeEach(async () => {
  firecrawl.reset()
  hunter.reset()
  await empty(db.database)
})
afterAll(() => Promise.all([db.close(), firecrawl.close(), hunter.close()]))

const page = { url: 'https://www.sample.test/about' }
const person = { firstName: 'Sample', lastName: 'Person', domain: 'example.com' }

/** The three tools behind the invoker, in a run of their own. */
async function opened(keys: { readonly firecrawl?: string; readonly hunter?: string } = {}) {
  const shared = { prices, budget: BRISK }
  const access = { apiKey: keys.hunter ?? HUNTER_KEY, baseUrl: `${hunter.url}/v2` }
  const extraTools = [
    scrapeTool({ ...shared, guard, access: { apiKey: keys.firecrawl ?? FIRECRAWL_KEY, baseUrl: firecrawl.url } }),
    findContactTool({ ...shared, access }),
    enrichCompanyTool({ ...shared, access }),
  ]
  const w = await world({ database: db.database, extraTools })
  const invocation = await w.invocation()
  const call = (toolName: string, args: JsonObject) =>
    inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName, args }, invocation))
  return { w, invocation, call }
}

async function rows() {
  const { rows: found } = await db.database.query({
    name: '',
    text: 'SELECT id, root_run_id, span_id, kind, provider, item, quantity, cost_cents FROM public.ai_usage_log',
  })
  return found
}

describe('a paid answer', () => {
  test('T37 T40 T48 R33 R34 R36 of a page is one row of its credits, which the answer and the span name', async () => {
    const { w, invocation, call } = await opened()
    firecrawl.play({
      kind: 'answer',
      status: 200,
      body: { success: true, data: { markdown: '# Sample', metadata: { statusCode: 200, creditsUsed: 5 } } },
    })
    const result = await call('research.scrape', page)
    expect(result).toMatchObject({
      ok: true,
      data: { markdown: '# Sample' },
      meta: { untrusted: true, truncated: false },
    })
    const [row, ...others] = await rows()
    expect(others).toEqual([])
    expect(row).toMatchObject({ kind: 'tool', provider: 'firecrawl', item: 'scrape', quantity: { credits: 5 } })
    expect(Number(row?.['cost_cents'])).toBeCloseTo(prices.cents('firecrawl', 'scrape', 5))
    expect(row).toMatchObject({ root_run_id: invocation.runId })
    expect(result.meta.usageId).toBe(row?.['id'])
    const span = (await w.spans(invocation.runId)).find(({ name }) => name === 'research.scrape')
    expect(span).toMatchObject({ status: 'ok', attributes: { usageId: row?.['id'] } })
  })

  test('R34 of a person or a company is a credit, and a miss is a row at nothing', async () => {
    const { call } = await opened()
    hunter.play({ kind: 'answer', status: 200, body: hunterEmail({ email: 'info@example.com' }) })
    expect(await call('research.find_contact', person)).toMatchObject({
      ok: true,
      data: { email: 'info@example.com', verification: 'verified', role: true },
      meta: { untrusted: true },
    })
    expect(await call('research.find_contact', { fullName: 'Nobody Here', domain: 'example.com' })).toMatchObject({
      ok: true,
      data: { email: null, verification: 'not_found', name: 'Nobody Here' },
    })
    expect(await call('research.enrich_company', { domain: 'sample.test' })).toMatchObject({ data: { found: true } })
    expect(await call('research.enrich_company', { domain: 'unknown.test' })).toMatchObject({ data: { found: false } })
    const charged = (await rows()).map(({ item, quantity, cost_cents }) => [item, quantity, Number(cost_cents)])
    const credit = {
      finder: prices.cents('hunter', 'email-finder', 1),
      company: prices.cents('hunter', 'company-enrichment', 1),
    }
    expect(charged).toHaveLength(4)
    expect(charged).toEqual(
      expect.arrayContaining([
        ['email-finder', { credits: 1 }, credit.finder],
        ['email-finder', { credits: 0 }, 0],
        ['company-enrichment', { credits: 1 }, credit.company],
        ['company-enrichment', { credits: 0 }, 0],
      ]),
    )
  })

  test('of a page that is not there counts, and says so', async () => {
    const { call } = await opened()
    expect(await call('research.scrape', { url: 'https://sample.test/missing' })).toMatchObject({
      ok: true,
      data: { statusCode: 404 },
    })
    expect(await rows()).toHaveLength(1)
  })

  test('of a page longer than an answer keeps its beginning', async () => {
    const { call } = await opened()
    const markdown = 'Freight. '.repeat(10_000)
    firecrawl.play({ kind: 'answer', status: 200, body: { success: true, data: { markdown, metadata: {} } } })
    const { data, meta } = await call('research.scrape', page)
    expect((data as { markdown: string }).markdown.length).toBeGreaterThan(30_000)
    expect(meta).toMatchObject({ truncated: false, partialReason: expect.stringContaining('of 90000 characters') })
  })
})

describe('what a vendor does not do', () => {
  test('T42 T44 R28 is unavailable, in words of the invoker, and costs nothing', async () => {
    const { w, invocation, call } = await opened()
    for (const url of ['https://blocked.test/', 'https://nowhere.invalid/', 'https://sample.test/archive.zip']) {
      const { ok, error, stop } = await call('research.scrape', { url })
      expect({ ok, error, stop }).toEqual({
        ok: false,
        error: { code: 'unavailable', message: 'the service behind this tool cannot do this', retryable: false },
        stop: null,
      })
    }
    expect(await rows()).toEqual([])
    const spans = (await w.spans(invocation.runId)).filter(({ name }) => name === 'research.scrape')
    expect(spans.map(({ status, code }) => [status, code])).toEqual(
      Array.from({ length: 3 }, () => ['error', 'unavailable']),
    )
  })

  test('for a person who asked for that is unavailable, and nobody is asked about them again', async () => {
    const { call } = await opened()
    hunter.play({ kind: 'answer', status: 451, body: hunterErrors('claimed_email', 451) })
    expect((await call('research.find_contact', person)).error?.code).toBe('unavailable')
    expect((await call('research.find_contact', person)).error?.code).toBe('unavailable')
    expect(hunter.requests).toHaveLength(1)
    expect(await rows()).toEqual([])
  })

  test('because the target is forbidden is an invalid input, and nothing is sent', async () => {
    const { call } = await opened()
    expect((await call('research.scrape', { url: 'https://forbidden.test/' })).error?.code).toBe('invalid_input')
    expect(firecrawl.requests).toEqual([])
    expect(await rows()).toEqual([])
  })
})

describe('a failure that may pass', () => {
  test('T41 T47 R28 R34 is retryable when the whole budget is used up, not a timeout, and costs nothing', async () => {
    const { call } = await opened()
    firecrawl.play({ kind: 'answer', status: 429 }, { kind: 'answer', status: 429 })
    expect((await call('research.scrape', page)).error).toMatchObject({ code: 'retryable_upstream', retryable: true })
    hunter.play({ kind: 'answer', status: 202 }, { kind: 'answer', status: 202 })
    expect((await call('research.find_contact', person)).error).toMatchObject({ code: 'retryable_upstream' })
    expect([firecrawl.requests.length, hunter.requests.length]).toEqual([2, 2])
    expect(await rows()).toEqual([])
  })

  test('T41 a lost answer is retryable and costs the run nothing, though the vendor may have charged', async () => {
    const { call } = await opened()
    firecrawl.play({ kind: 'lost_answer' })
    expect((await call('research.scrape', page)).error?.code).toBe('retryable_upstream')
    expect(firecrawl.credits()).toBe(1)
    expect(await rows()).toEqual([])
  })
})

describe('what an operator has to mend', () => {
  test('T45 a key that is not accepted ends the segment, and no data is answered', async () => {
    const { call } = await opened({ firecrawl: 'fc-wrong', hunter: 'wrong' })
    await expect(call('research.scrape', page)).rejects.toThrow(VendorError)
    await expect(call('research.find_contact', person)).rejects.toThrow(VendorError)
    await expect(call('research.enrich_company', { domain: 'sample.test' })).rejects.toThrow(VendorError)
    expect(await rows()).toEqual([])
  })

  test('T45 a row that cannot be written ends the segment, and the page is answered to nobody', async () => {
    const priceless = {
      ...prices,
      cents: (_vendor: string, _item: string, count: number) => (count === 7 ? Number.NaN : 1),
    }
    const access = { apiKey: FIRECRAWL_KEY, baseUrl: firecrawl.url }
    const w = await world({
      database: db.database,
      extraTools: [scrapeTool({ access, prices: priceless, guard, budget: BRISK })],
    })
    const invocation = await w.invocation()
    const metadata = { statusCode: 200, creditsUsed: 7 }
    firecrawl.play({ kind: 'answer', status: 200, body: { success: true, data: { markdown: '#', metadata } } })
    const call = inRun(w.core, invocation, () =>
      w.core.invoker.invoke({ toolName: 'research.scrape', args: page }, invocation),
    )
    await expect(call).rejects.toThrow('not a number')
    expect(await rows()).toEqual([])
  })
})
