import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { admittedCall, allowing } from '../../test/setup/admitted-call.ts'
import { counting } from '../../test/setup/counting.ts'
import { testDatabase, type TestDatabase } from '../../test/setup/database.ts'
import type { LimitCount } from '../decision/limits.ts'
import { callLedger } from './call-ledger.ts'
import type { Database, Transaction } from './database.ts'
import { unnamed } from './statement.ts'

let db: TestDatabase
let second: Database

beforeAll(async () => {
  db = await testDatabase()
  second = await db.another()
})
afterAll(() => db.close())

const HASH = 'ab'.repeat(32)

async function place(): Promise<{ readonly organizationId: string; readonly runId: string; readonly key: string }> {
  const organizationId = randomUUID()
  await db.database.query(
    unnamed("INSERT INTO agent.organizations (id, slug, name) VALUES ($1::uuid, $1::uuid::text, 'x')"),
    [organizationId],
  )
  await db.database.query(
    unnamed(
      "INSERT INTO agent.grants (id, organization_id, definition, tool, granted_by) VALUES ($1, $2, 'outreach', 'crm.note', '{}')",
    ),
    [randomUUID(), organizationId],
  )
  return { organizationId, runId: randomUUID(), key: `k:${randomUUID()}` }
}

/** Runs `work` while `hold` keeps its rows to itself, and lets them go once a statement waits for them. */
async function whileHeld<T>(hold: (tx: Transaction) => Promise<unknown>, work: () => Promise<T>): Promise<T> {
  const { promise: done, resolve: began } = Promise.withResolvers<Promise<T>>()
  await db.database.transaction(async (tx) => {
    await hold(tx)
    began(work())
    for (let waiting = 0; waiting === 0;) {
      const { rows } = await tx.query<{ n: number }>(
        unnamed(
          "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        ),
      )
      waiting = rows[0]?.n ?? 0
    }
  })
  return done
}

const claimIn = (handle: Database, at: Awaited<ReturnType<typeof place>>, counts: readonly LimitCount[] = []) =>
  callLedger(handle, { newId: randomUUID }).claim(admittedCall({ ...at, argsHash: HASH }), allowing(counts), {
    rulesVersion: 0,
    leaseS: 60,
  })

test('a claim that lost to a row it cannot see looks again, and reads the winner’s', async () => {
  const at = await place()
  const { database, trips } = counting(second)
  const outcome = await whileHeld(
    (tx) =>
      callLedger(tx, { newId: randomUUID }).claim(admittedCall({ ...at, argsHash: HASH }), allowing(), {
        rulesVersion: 0,
        leaseS: 60,
      }),
    () => claimIn(database, at),
  )
  expect(outcome).toMatchObject({ kind: 'processing' })
  // The first answer held no row at all.
  expect(trips).toEqual(['call_claim', 'call_claim'])
})

test('a claim that waited for the last place of a limit and did not get it leaves nothing behind', async () => {
  const at = await place()
  const counts: readonly LimitCount[] = [
    { rule: 'free', per: 'run', max: 5 },
    { rule: 'full', per: 'run', max: 1 },
  ]
  const outcome = await whileHeld(
    (tx) =>
      tx.query(
        unnamed(
          "INSERT INTO agent.rule_counters (organization_id, period, rule, used) VALUES ($1, agent.limit_period('run', $2::uuid), 'full', 1)",
        ),
        [at.organizationId, at.runId],
      ),
    () => claimIn(second, at, counts),
  )
  expect(outcome).toEqual({ kind: 'moved' })
  const { rows } = await db.database.query<{ keys: number; spans: number; counters: string[] }>(
    unnamed(
      `SELECT (SELECT count(*)::int FROM agent.idempotency_keys WHERE organization_id = $1::uuid) AS keys,
         (SELECT count(*)::int FROM agent.spans WHERE organization_id = $1) AS spans,
         (SELECT json_agg(rule) FROM agent.rule_counters WHERE organization_id = $1) AS counters`,
    ),
    [at.organizationId],
  )
  expect(rows).toEqual([{ keys: 0, spans: 0, counters: ['full'] }])
})
