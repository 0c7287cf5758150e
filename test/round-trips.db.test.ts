import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Database } from '../src/storage/database.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, world } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

/** The same database, counting what goes over the wire by the name of the statement. */
function counting(database: Database): { database: Database; trips: string[] } {
  const trips: string[] = []
  const query: Database['query'] = (statement, values) => {
    trips.push(statement.name)
    return database.query(statement, values)
  }
  const counted: Database = {
    dialect: database.dialect,
    description: database.description,
    kysely: database.kysely,
    query,
    transaction: (work) => database.transaction(work),
    execute: (script) => database.execute(script),
    close: () => database.close(),
  }
  return { database: counted, trips }
}

test('a governed write needs three round trips around its handler, a read one, and a replay two', async () => {
  const { database, trips } = counting(db.database)
  const w = await world({ database, settings: { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } })
  const invocation = await w.invocation()
  const tripsOf = async (tool: string, args: object): Promise<string[]> => {
    trips.length = 0
    await inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName: tool, args }, invocation))
    return [...trips]
  }
  // The first call also reads the rules, which are then kept by version.
  expect(await tripsOf('crm.note', { text: 'first' })).toEqual([
    'call_open',
    'policy_read',
    'call_claim',
    'call_close_claimed',
  ])
  expect(await tripsOf('crm.note', { text: 'second' })).toEqual(['call_open', 'call_claim', 'call_close_claimed'])
  expect(await tripsOf('crm.search', { query: 'jo' })).toEqual(['call_open'])
  expect(await tripsOf('crm.note', { text: 'second' })).toEqual(['call_open', 'call_close'])
  trips.length = 0
  await w.core.ledger.flush()
  expect(trips).toEqual(['call_close_many'])
})
