import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { hunterEmail, hunterErrors, type HunterSimulator, startHunterSimulator } from '../../../simulators/hunter.ts'
import { startVendorServer, type VendorFault, type VendorServer } from '../../../simulators/vendor-server.ts'
import { BRISK, callMetered, raisedAs, READ_FAULTS } from '../../../test/vendor-call.ts'
import type { JsonObject } from '../../tools/json.ts'
import { STEP_BUDGET_S } from '../../tools/models.ts'
import { vendorPriceBook } from '../../usage/vendor-prices.ts'
import { HANDLER_MARGIN_MS, type RetryBudget, worstCaseMs } from '../vendor/retry-budget.ts'
import { findContactTool, type FindContactOptions, HUNTER_BUDGET } from './find-contact.ts'
import { type HunterClient, hunterClient } from './hunter-client.ts'
import type { Suppressions } from './suppressions.ts'

const KEY = 'hunter-key-of-the-deployment'
const ARGS = { firstName: 'Sample', lastName: 'Person', domain: 'example.com' }
const prices = vendorPriceBook()
const CREDIT = prices.cents('hunter', 'email-finder', 1)

let hunter: HunterSimulator
let elsewhere: VendorServer
beforeAll(async () => {
  hunter = await startHunterSimulator({ keys: [KEY] })
  elsewhere = await startVendorServer({ behaviour: () => ({ status: 200, body: hunterEmail() }) })
})
beforeEach(() => {
  hunter.reset()
  elsewhere.reset()
})
afterAll(() => Promise.all([hunter.close(), elsewhere.close()]))

const access = () => ({ apiKey: KEY, baseUrl: `${hunter.url}/v2` })

function tool(part: Partial<Omit<FindContactOptions, 'budget'>> & { readonly budget?: RetryBudget | undefined } = {}) {
  return findContactTool({ access: access(), prices, ...part, budget: part.budget ?? BRISK })
}

const find = (args: JsonObject = ARGS, declaration = tool()) => callMetered(declaration, args)

const answered = (status: number, body: unknown, headers: Record<string, string> = {}): VendorFault => ({
  kind: 'answer',
  status,
  body,
  headers,
})

/** What a tool answers about a row with these parts. */
async function contact(part: JsonObject) {
  hunter.play(answered(200, hunterEmail(part)))
  return (await find()).answer?.data
}

const queryOf = (server: HunterSimulator) => Object.fromEntries(server.requests[0]?.query ?? [])

describe('a request', () => {
  test('carries the key in a header and never in its address', async () => {
    await find()
    const [request] = hunter.requests
    expect(request).toMatchObject({ method: 'GET', path: '/v2/email-finder' })
    expect(request?.headers['x-api-key']).toBe(KEY)
    expect(String(request?.query)).not.toContain(KEY)
    expect(request?.query.has('api_key')).toBe(false)
  })

  test.each([
    [ARGS, { first_name: 'Sample', last_name: 'Person', domain: 'example.com' }],
    [
      { fullName: 'Sample Person', domain: 'Example.COM' },
      { full_name: 'Sample Person', domain: 'example.com' },
    ],
    [
      { fullName: 'Sample Person', company: 'Sample & Co' },
      { full_name: 'Sample Person', company: 'Sample & Co' },
    ],
    [
      { ...ARGS, company: 'Sample Freight' },
      { first_name: 'Sample', last_name: 'Person', domain: 'example.com' },
    ],
    [
      { ...ARGS, fullName: 'S. P.' },
      { first_name: 'Sample', last_name: 'Person', domain: 'example.com' },
    ],
    [
      { ...ARGS, firstName: 'A&domain=x', lastName: 'é' },
      { first_name: 'A&domain=x', last_name: 'é', domain: 'example.com' },
    ],
  ])('for %j asks %j', async (args, query) => {
    await find(args)
    expect(queryOf(hunter)).toEqual({ ...query, max_duration: expect.any(String) })
  })

  test.each([
    [15_000, '10'],
    [100, '3'],
    [60_000, '20'],
  ])('of %i ms lets the provider search for %s s', async (attemptMs, seconds) => {
    const client = { get: vi.fn<HunterClient['get']>(async () => ({ kind: 'missing' })) }
    await find(ARGS, tool({ client, budget: { ...BRISK, attemptMs } }))
    expect(client.get.mock.calls[0]?.[0].query['max_duration']).toBe(seconds)
  })

  test.each<[JsonObject, RegExp]>([
    [{ domain: 'example.com' }, /needs firstName and lastName/],
    [{ firstName: 'Sample', domain: 'example.com' }, /needs firstName and lastName/],
    [{ firstName: 'Sample', lastName: 'Person' }, /needs a domain or a company/],
    [{ ...ARGS, domain: 'https://example.com/' }, /pattern/],
    [{ ...ARGS, domain: 'localhost' }, /pattern/],
    [{ ...ARGS, lastName: ' ' }, /pattern/],
    [{ ...ARGS, lastName: 'x'.repeat(101) }, /100/],
    [{ ...ARGS, api_key: 'x' }, /additional|unrecognized|must NOT/i],
  ])('is not made for %j', async (args, message) => {
    const { raised } = await find(args)
    expect(String(raised)).toMatch(message)
    expect(hunter.requests).toEqual([])
  })

  test('is not made without a key or without a price', () => {
    expect(() => tool({ access: { ...access(), apiKey: '' } })).toThrow('the key is empty')
    const cents = (): number => {
      throw new Error('no price')
    }
    expect(() => tool({ prices: { ...prices, cents } })).toThrow('no price')
  })
})

describe('an address', () => {
  test('R34 R36 is the one the provider answered, untrusted, and costs one credit', async () => {
    hunter.play(answered(200, hunterEmail()))
    const { answer, usage } = await find()
    expect(answer?.meta).toEqual({ untrusted: true })
    expect(answer?.data).toEqual({
      email: 'sample.person@example.com',
      verification: 'verified',
      role: false,
      score: 92,
      name: 'Sample Person',
      position: 'Head of Operations',
      sources: [{ uri: 'https://example.com/team', lastSeenOn: '2026-06-01', stillOnPage: true }],
    })
    expect(usage).toEqual([{ provider: 'hunter', item: 'email-finder', quantity: { credits: 1 }, costCents: CREDIT }])
  })

  test('is never built here: what the provider spells otherwise is answered so', async () => {
    expect(await contact({ email: 'S.P-99@Mail.example.org' })).toMatchObject({ email: 'S.P-99@Mail.example.org' })
  })

  test.each([
    [{ verification: { date: null, status: null }, accept_all: false }, 'unverified'],
    [{ verification: { date: null, status: null }, accept_all: true }, 'accepts_all'],
    [{ verification: null, accept_all: null }, 'unverified'],
    [{ verification: { status: 'accept_all' }, accept_all: true }, 'accepts_all'],
    [{ verification: { status: 'invalid' }, accept_all: true }, 'unverifiable'],
    [{ verification: { status: 'valid' }, accept_all: true }, 'verified'],
    [{ verification: { status: 'certain' }, accept_all: false }, 'unverified'],
    [{ verification: 'valid', accept_all: 'yes' }, 'unverified'],
  ])('with %j is %s', async (part, verification) => {
    expect(await contact(part)).toMatchObject({ email: 'sample.person@example.com', verification })
  })

  test('of a function is flagged and kept', async () => {
    expect(await contact({ email: 'info@example.com' })).toMatchObject({ email: 'info@example.com', role: true })
  })

  test.each<[string, JsonObject, object]>([
    [
      'nothing',
      { first_name: null, last_name: null, score: null, position: null, sources: null },
      { name: 'Sample Person', score: null, position: null, sources: [] },
    ],
    [
      'odd types',
      { first_name: 7, score: '92', position: {}, sources: 'none' },
      { name: 'Person', score: null, position: null, sources: [] },
    ],
    ['a score out of bounds', { score: 920 }, { score: null }],
    [
      'sources that are none',
      { sources: [null, {}, { uri: 'javascript:alert(1)' }, { uri: 'https://u:p@x.test/' }] },
      { sources: [] },
    ],
    [
      'a source without dates',
      { sources: [{ uri: 'https://x.test/', last_seen_on: 'soon' }] },
      { sources: [{ uri: 'https://x.test/', lastSeenOn: null, stillOnPage: null }] },
    ],
    [
      'many sources',
      { sources: Array.from({ length: 40 }, (_, i) => ({ uri: `https://x.test/${i}` })) },
      { sources: expect.toSatisfy((list: unknown[]) => list.length === 5) },
    ],
    ['a position without end', { position: 'x'.repeat(9_999) }, { position: expect.stringMatching(/^x{199}…$/) }],
  ])('is not lost because beside it stands %s', async (_says, part, expected) => {
    expect(await contact(part)).toMatchObject({ email: 'sample.person@example.com', ...expected })
  })
})

describe('a miss', () => {
  test.each([
    ['a 200 full of nulls', null],
    ['a 404 of the vendor', answered(404, hunterErrors('not_found', 404, 'Not found'))],
  ])('keeps the person, and writes a row at nothing: %s', async (_says, fault) => {
    if (fault !== null) hunter.play(fault)
    const { answer, usage } = await find({ firstName: 'Nobody', lastName: 'Here', domain: 'example.com' })
    expect(answer).toEqual({
      ok: true,
      data: {
        email: null,
        verification: 'not_found',
        role: false,
        score: null,
        name: 'Nobody Here',
        position: null,
        sources: [],
      },
      meta: { untrusted: true },
    })
    expect(usage).toEqual([{ provider: 'hunter', item: 'email-finder', quantity: { credits: 0 }, costCents: 0 }])
    expect(hunter.credits()).toBe(0)
  })

  test.each<[string, VendorFault]>([
    ['no data', answered(200, { data: null })],
    ['no address field', answered(200, { data: { score: 90 } })],
    ['an empty address', answered(200, hunterEmail({ email: '' }))],
    ['no address', answered(200, hunterEmail({ email: 'sample.person at example.com' }))],
    ['two addresses', answered(200, hunterEmail({ email: 'a@example.com, b@example.com' }))],
    ['a list of addresses', answered(200, hunterEmail({ email: ['a@example.com'] }))],
    ['an error with 200', answered(200, hunterErrors('server_error', 500))],
  ])('is not what an unreadable answer is: %s is a fault', async (_says, fault) => {
    hunter.play(fault)
    const call = await find()
    expect(raisedAs(call)).toEqual(['fault', 'decode'])
    expect(call.usage).toEqual([])
  })
})

describe('a request that came to nothing', () => {
  test.each(READ_FAULTS)('T41 T45 $says: $raised for $trouble, without a row', async (row) => {
    hunter.play(...row.faults)
    const call = await find(ARGS, tool({ budget: row.budget }))
    expect(raisedAs(call)).toEqual([row.raised, row.trouble])
    expect(call.usage).toEqual([])
    expect(hunter.requests).toHaveLength(row.requests)
    expect(String(call.raised)).not.toContain(KEY)
  })

  const RATE = "You've reached the rate limit. Please wait."
  const USED_UP = "You've reached the limit for the number of searches per billing period included in your plan."

  test.each([
    [
      '400',
      answered(400, hunterErrors('wrong_params', 400, 'You are missing the domain parameter')),
      ['fault', 'request', 1],
    ],
    ['401', answered(401, hunterErrors('authentication_failed', 401)), ['fault', 'authentication', 1]],
    ['403 for a rate', answered(403, hunterErrors('forbidden', 403, RATE)), ['retryable', 'rate_limited', 2]],
    ['403 for too many', answered(403, hunterErrors('too_many_requests', 403)), ['retryable', 'rate_limited', 2]],
    [
      '403 for corporate reasons',
      answered(403, hunterErrors('forbidden', 403, 'Corporate accounts only')),
      ['fault', 'authentication', 1],
    ],
    [
      '402 with a sales pitch',
      answered(402, hunterErrors('payment', 402, 'Upgrade your plan')),
      ['fault', 'payment', 1],
    ],
    ['429 for a rate', answered(429, hunterErrors('too_many_requests', 429, RATE)), ['retryable', 'rate_limited', 2]],
    ['429 for a period', answered(429, hunterErrors('too_many_requests', 429, USED_UP)), ['fault', 'payment', 1]],
    ['429 for an account', answered(429, hunterErrors('restricted_account', 429)), ['fault', 'authentication', 1]],
    ['a 404 of something on the way', answered(404, 'no such route'), ['fault', 'request', 1]],
  ] as const)('%s', async (_says, fault, [raised, trouble, requests]) => {
    hunter.play(fault, fault)
    const call = await find()
    expect(raisedAs(call)).toEqual([raised, trouble])
    expect(hunter.requests).toHaveLength(requests)
    expect(call.usage).toEqual([])
  })

  test('that the vendor is still working on is asked for again, and charged once', async () => {
    hunter.play(answered(202, {}))
    const { answer, usage } = await find()
    expect(answer?.data).toMatchObject({ email: expect.stringContaining('@') })
    expect(hunter.requests.map(({ status }) => status)).toEqual([202, 200])
    expect(usage).toHaveLength(1)
    hunter.play(answered(202, {}), answered(202, {}))
    expect(raisedAs(await find())).toEqual(['retryable', 'overloaded'])
  })

  test('follows no redirect: another origin sees neither the key nor the person', async () => {
    hunter.play({ kind: 'redirect', to: `${elsewhere.url}/v2/email-finder` })
    expect(raisedAs(await find())).toEqual(['fault', 'redirected'])
    expect(elsewhere.requests).toEqual([])
  })
})

describe('a person who asked not to be processed', () => {
  const suppressed = answered(
    451,
    hunterErrors('claimed_email', 451, 'The person asked us to stop processing their data'),
  )

  test('is unavailable, costs nothing, and is never asked about again, however the name is spelled', async () => {
    const declaration = tool()
    hunter.play(suppressed)
    expect(raisedAs(await find(ARGS, declaration))).toEqual(['unavailable', 'refused'])
    const respelled = { fullName: ' sample  PERSON', domain: 'EXAMPLE.com' }
    const again = await find(respelled, declaration)
    expect(raisedAs(again)).toEqual(['unavailable', null])
    expect(again.usage).toEqual([])
    expect(hunter.requests).toHaveLength(1)
    expect((await find({ ...ARGS, lastName: 'Other' }, declaration)).answer?.ok).toBe(true)
  })

  test('is kept where the deployment says, in no clear text', async () => {
    const added: unknown[] = []
    const suppressions: Suppressions = { has: async () => false, add: async (one) => void added.push(one) }
    hunter.play(suppressed)
    await find(ARGS, tool({ suppressions }))
    expect(added).toEqual([{ vendor: 'hunter', person: expect.stringMatching(/^[0-9a-f]{64}$/) }])
  })

  test('who cannot be remembered is a fault, and who cannot be looked up is not asked about', async () => {
    const broken = async () => {
      throw new Error('the store is down')
    }
    hunter.play(suppressed)
    const unremembered = await find(ARGS, tool({ suppressions: { has: async () => false, add: broken } }))
    expect(String(unremembered.raised)).toBe('Error: the store is down')
    hunter.reset()
    const unknown = await find(ARGS, tool({ suppressions: { has: broken, add: broken } }))
    expect(String(unknown.raised)).toBe('Error: the store is down')
    expect(hunter.requests).toEqual([])
  })

  test('is not what another refusal makes of somebody', async () => {
    const declaration = tool()
    hunter.play(answered(503, {}), answered(503, {}))
    await find(ARGS, declaration)
    expect((await find(ARGS, declaration)).answer?.ok).toBe(true)
  })
})

describe('a client in a dry run', () => {
  const counting = (part: Partial<HunterClient>) => {
    const get = vi.fn<HunterClient['get']>(async () => ({ kind: 'answered', data: { email: 'made.up@example.com' } }))
    return { get, ...part }
  }

  test('is refused before the call, so that it spends nothing', async () => {
    const client = counting({ dryRun: true })
    const { raised, usage } = await find(ARGS, tool({ client }))
    expect(String(raised)).toContain('dry run')
    expect(client.get).not.toHaveBeenCalled()
    expect(usage).toEqual([])
  })

  test('that does not say so is refused by the mark on its row, before the meter', async () => {
    const row = { ...(hunterEmail() as { data: object }).data, _dry_run: true }
    hunter.play(answered(200, { data: row }))
    const { raised, usage, answer } = await find(ARGS, tool({ client: hunterClient(access()) }))
    expect(String(raised)).toContain('dry run')
    expect(usage).toEqual([])
    expect(answer).toBeNull()
  })

  test.each([true, 'yes', 1, null, {}])('is known by any mark: %j', async (mark) => {
    expect(await contact({ _dry_run: mark })).toBeUndefined()
  })

  test('is not seen where a client says that it is none', async () => {
    expect(await contact({ _dry_run: false })).toMatchObject({ email: 'sample.person@example.com' })
    expect((await find(ARGS, tool({ client: counting({ dryRun: false }) }))).answer?.ok).toBe(true)
  })
})

test('T47 the whole retry budget fits into the timeout of the tool, and that into one step', () => {
  for (const budget of [HUNTER_BUDGET, BRISK]) {
    expect(tool({ budget }).spec.timeoutS * 1000).toBeGreaterThanOrEqual(worstCaseMs(budget) + HANDLER_MARGIN_MS)
  }
  expect(tool({ budget: HUNTER_BUDGET }).spec.timeoutS).toBeLessThanOrEqual(STEP_BUDGET_S)
})

test('the tool is a paid read that carries its arguments outside', () => {
  expect(tool().spec).toMatchObject({ kind: 'vendor', sideEffects: 'read', metered: true, egress: true, retry: 'none' })
})
