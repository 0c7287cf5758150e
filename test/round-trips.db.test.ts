import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import type { Rule } from '../src/bailiff.ts'
import { vendorTool } from '../src/tools/declarations.ts'
import { ok } from '../src/tools/models.ts'
import { counting } from './setup/counting.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, world } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const fetchPage = vendorTool({
  name: 'web.fetch',
  description: 'Fetch a page.',
  input: z.object({ url: z.string() }),
  output: z.object({ text: z.string() }),
  sideEffects: 'read',
  handler: async () => ok({ text: 'content' }),
})

/** What one call after another sends to the database. What earlier reads left in the batch is written in between. */
async function openWorld(rules: readonly Rule<string>[] = []) {
  const { database, trips } = counting(db.database)
  const settings = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const
  const w = await world({ database, settings, rules, extraTools: [fetchPage] })
  const invocation = await w.invocation()
  const tripsOf = async (toolName: string, args: object): Promise<string[]> => {
    await w.core.ledger.flush()
    trips.length = 0
    await inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName, args }, invocation))
    return [...trips]
  }
  const flushed = async (): Promise<string[]> => {
    trips.length = 0
    await w.core.ledger.flush()
    return [...trips]
  }
  return { tripsOf, flushed }
}

const WRITE = ['call_open', 'call_claim', 'call_complete']

test('a governed write needs three round trips around its handler, a read one, and a replay two', async () => {
  const { tripsOf, flushed } = await openWorld()
  // The first call also reads the rules, which are then kept by version.
  expect(await tripsOf('crm.note', { text: 'first' })).toEqual([
    'call_open',
    'policy_read',
    'call_claim',
    'call_complete',
  ])
  expect(await tripsOf('crm.note', { text: 'second' })).toEqual(WRITE)
  expect(await tripsOf('crm.note', { text: 'second' })).toEqual(['call_open', 'call_close'])
  expect(await tripsOf('crm.search', { query: 'jo' })).toEqual(['call_open'])
  expect(await flushed()).toEqual(['call_close_many'])
})

test('a limit costs a write nothing and a read one round trip, and tools without one pay nothing', async () => {
  const limit = { count: 10, per: 'day' } as const
  const { tripsOf } = await openWorld([
    { name: 'notes', tools: ['crm.note'], effect: 'deny', limit },
    { name: 'searches', tools: ['crm.search'], when: 'arguments.query != "free"', effect: 'deny', limit },
  ])
  await tripsOf('email.send', { to: 'jo@acme.test' })
  expect(await tripsOf('crm.note', { text: 'counted' })).toEqual(['call_open', 'call_claim_counted', 'call_complete'])
  expect(await tripsOf('crm.search', { query: 'jo' })).toEqual(['call_open', 'call_count'])
  expect(await tripsOf('crm.search', { query: 'free' })).toEqual(['call_open'])
  expect(await tripsOf('email.send', { to: 'sam@acme.test' })).toEqual(WRITE)
})

test('the first untrusted answer of a source is written at once, and those after it wait for the batch', async () => {
  const { tripsOf } = await openWorld()
  await tripsOf('crm.search', { query: 'jo' })
  expect(await tripsOf('web.fetch', { url: 'one' })).toEqual(['call_open', 'call_close'])
  expect(await tripsOf('web.fetch', { url: 'two' })).toEqual(['call_open'])
  expect(await tripsOf('email.send', { to: 'jo@acme.test' })).toEqual(WRITE)
})
