import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type ExaSimulator, startExaSimulator } from '../../../simulators/exa.ts'
import { startVendorServer, type VendorServer } from '../../../simulators/vendor-server.ts'
import { admitted } from '../../../test/handler-call.ts'
import { BRISK, callMetered, raisedAs } from '../../../test/vendor-call.ts'
import type { JsonObject } from '../../tools/json.ts'
import { buildRegistry } from '../../tools/registry.ts'
import { vendorPriceBook } from '../../usage/vendor-prices.ts'
import { bufferedFetch } from '../vendor/buffered-fetch.ts'
import { timeoutFor, worstCaseMs } from '../vendor/retry-budget.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { DISCOVER_PEOPLE_BUDGET, discoverPeopleTool } from './discover-people.ts'
import { exaPeople } from './exa-people.ts'
import type { PeopleProvider } from './people-provider.ts'
import { JOB_FUNCTIONS, SENIORITIES } from './persona.ts'

let exa: ExaSimulator
let registerServer: VendorServer
beforeAll(async () => {
  exa = await startExaSimulator()
  registerServer = await startVendorServer({
    behaviour: ({ query }) => ({
      status: 200,
      body: { people: [{ fullName: 'Max Muster', role: query.get('role') }] },
    }),
  })
})
beforeEach(() => {
  exa.reset()
  registerServer.reset()
})
afterAll(() => Promise.all([exa.close(), registerServer.close()]))

/** A second source with a request, an answer and a price of its own. */
function register(): PeopleProvider {
  return {
    name: 'trade_register',
    vendor: 'chamber',
    async search({ title, limit }, attempt) {
      const send = bufferedFetch({ vendor: 'chamber', ...attempt })
      const response = await send(`${registerServer.url}/people?role=${encodeURIComponent(title ?? '')}`)
      if (!response.ok) throw new VendorError({ vendor: 'chamber', trouble: 'overloaded', status: response.status })
      const { people } = (await response.json()) as { people: { fullName: string; role: string }[] }
      const nothing = { company: null, location: null, linkedinUrl: null, sourceUrl: null, snippet: null }
      return {
        candidates: people.map(({ fullName, role }) => ({ name: fullName, title: role, ...nothing })),
        usage: { item: 'lookup', quantity: { asked: limit }, costCents: 3 },
      }
    },
  }
}

const exaProvider = () => exaPeople({ access: { apiKey: 'key', baseUrl: exa.url }, prices: vendorPriceBook() })

const tool = () => discoverPeopleTool({ providers: [exaProvider(), register()], budget: BRISK })

const PERSONA = { title: 'Head of Operations', company: 'Sample Freight' }

describe('one call', () => {
  test('R34 asks the provider it names and no other, and records one row under its vendor', async () => {
    const { answer, usage } = await callMetered(tool(), { provider: 'trade_register', ...PERSONA })
    expect(answer?.data).toMatchObject([{ name: 'Max Muster', title: 'Head of Operations', company: null }])
    expect(usage).toEqual([{ provider: 'chamber', item: 'lookup', quantity: { asked: 5 }, costCents: 3 }])
    expect(registerServer.requests).toHaveLength(1)
    expect(exa.requests).toEqual([])
  })

  test('of another provider answers the same projection and its own row', async () => {
    const { answer, usage } = await callMetered(tool(), { provider: 'exa', ...PERSONA })
    const other = await callMetered(tool(), { provider: 'trade_register', ...PERSONA })
    const fields = (data: unknown) => Object.keys((data as object[])[0] ?? {})
    expect(fields(answer?.data)).toEqual(fields(other.answer?.data))
    expect(usage.map(({ provider }) => provider)).toEqual(['exa'])
    expect(exa.requests).toHaveLength(1)
    expect(registerServer.requests).toHaveLength(1)
  })

  test('does not turn to another provider when its own fails', async () => {
    const down = { kind: 'answer', status: 503 } as const
    registerServer.play(down, down)
    const call = await callMetered(tool(), { provider: 'trade_register', ...PERSONA })
    expect(raisedAs(call)).toEqual(['retryable', 'overloaded'])
    expect(call.usage).toEqual([])
    expect(exa.requests).toEqual([])
  })
})

describe('providers', () => {
  test('are offered to a model by the names the deployment gave them', () => {
    expect(tool().spec.inputSchema).toMatchObject({ properties: { provider: { enum: ['exa', 'trade_register'] } } })
    const alone = discoverPeopleTool({ providers: [exaProvider()] })
    expect(() => admitted(alone, { provider: 'trade_register', ...PERSONA })).toThrow('provider')
  })

  test.each([[[]], [['exa', 'exa']], [['']], [['Exa']], [['constructor.name']]])('called %j are refused', (names) => {
    const providers = names.map((name) => ({ ...register(), name }))
    expect(() => discoverPeopleTool({ providers })).toThrow('provider')
  })

  test.each(['__proto__', 'constructor', 'toString'])('are found by their own names: %s is none', (provider) => {
    expect(() => admitted(tool(), { provider, ...PERSONA })).toThrow('provider')
  })
})

describe('arguments', () => {
  test.each<JsonObject>([
    { title: 'Buyer' },
    { titleFamily: 'operations leadership' },
    { company: 'Sample Freight' },
    { domain: 'sample.test' },
    ...SENIORITIES.map((seniority) => ({ seniority })),
    ...JOB_FUNCTIONS.map((job) => ({ function: job })),
  ])('like %j say whom to look for', (args) => {
    expect(admitted(tool(), { provider: 'exa', ...args })).toEqual({ provider: 'exa', limit: 5, ...args })
  })

  test.each<JsonObject>([
    {},
    { location: 'Utrecht' },
    { location: 'Utrecht', limit: 3 },
    { title: '' },
    { title: 'x'.repeat(101) },
    { title: 'Buyer\u0000' },
    { seniority: 'boss' },
    { function: 'magic' },
    { title: 'Buyer', domain: 'example' },
    { title: 'Buyer', limit: 11 },
    { title: 'Buyer', limit: 0 },
    { title: 'Buyer', limit: 2.5 },
    { title: 'Buyer', query: 'anything I like' },
  ])('like %j are refused before anything is paid', (args) => {
    expect(() => admitted(tool(), { provider: 'exa', ...args })).toThrow('arguments')
  })

  test('name a provider, always', () => {
    expect(() => admitted(tool(), PERSONA)).toThrow('provider')
  })
})

describe('the declaration', () => {
  test('T47 passes every check of the registry, with time for every attempt and pause', async () => {
    const registry = await buildRegistry([discoverPeopleTool({ providers: [exaProvider()] })])
    const spec = registry.get('research.discover_people')
    expect(spec).toMatchObject({
      kind: 'vendor',
      sideEffects: 'read',
      egress: true,
      metered: true,
      retry: 'none',
      connection: null,
      maxResults: 10,
      timeoutS: timeoutFor(DISCOVER_PEOPLE_BUDGET),
    })
    expect((spec?.timeoutS ?? 0) * 1000).toBeGreaterThan(worstCaseMs(DISCOVER_PEOPLE_BUDGET))
  })
})
