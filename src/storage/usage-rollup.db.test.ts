import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { empty, type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { dayOf, rolledThrough, usageRollup } from './usage-rollup.ts'
import { usageStore } from './usage-store.ts'

const DAY_MS = 86_400_000
const OURS = randomUUID()
const THEIRS = randomUUID()
/** Noon: what lies a day before is the day before. */
const NOW = new Date(Math.floor(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2)

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

interface Row {
  readonly days: number
  readonly item?: string
  readonly quantity?: object
  readonly cents?: number
  readonly organization?: string
  readonly root?: string
}

async function used(...rows: readonly Row[]): Promise<void> {
  for (const { days, item = 'a', quantity = { credits: 1 }, cents = 1, organization = OURS, root } of rows)
    await db.database.kysely
      .insertInto('public.ai_usage_log')
      .values({
        id: randomUUID(),
        organization_id: organization,
        root_run_id: root ?? randomUUID(),
        run_id: root ?? randomUUID(),
        kind: 'inputTokens' in quantity ? 'model' : 'tool',
        provider: 'p',
        item,
        quantity: JSON.stringify(quantity),
        cost_cents: cents,
        created_at: new Date(NOW.getTime() - days * DAY_MS),
      })
      .execute()
}

function ago(days: number): string {
  return dayOf(new Date(NOW.getTime() - days * DAY_MS))
}

async function sums() {
  return db.database.kysely
    .selectFrom('public.ai_usage_daily')
    .select(['organization_id', 'day', 'item', 'calls', 'quantity', 'cost_cents'])
    .orderBy('day')
    .orderBy('item')
    .orderBy('cost_cents')
    .execute()
}

describe('daily sums', () => {
  test('add up a day by organization, provider and item, every count of a quantity by itself', async () => {
    await used(
      { days: 1, quantity: { inputTokens: 10, outputTokens: 3 }, cents: 0.25 },
      { days: 1, quantity: { inputTokens: 5, outputTokens: 0, note: 'text' }, cents: 0.5 },
      { days: 1, item: 'b', quantity: {}, cents: 2 },
      { days: 1, organization: THEIRS, cents: 7 },
      { days: 0, cents: 100 },
    )
    expect(await usageRollup(db.database).roll(NOW)).toStrictEqual([ago(3), ago(2), ago(1)])
    expect(await sums()).toStrictEqual([
      {
        organization_id: OURS,
        day: ago(1),
        item: 'a',
        calls: 2,
        quantity: { inputTokens: 15, outputTokens: 3 },
        cost_cents: 0.75,
      },
      { organization_id: THEIRS, day: ago(1), item: 'a', calls: 1, quantity: { credits: 1 }, cost_cents: 7 },
      { organization_id: OURS, day: ago(1), item: 'b', calls: 1, quantity: {}, cost_cents: 2 },
    ])
    expect(await rolledThrough(db.database)).toBe(ago(1))
  })

  test('are the same however often a day is summed up, and by however many', async () => {
    await used({ days: 1 }, { days: 2 }, { days: 9, item: 'b' })
    const rollup = usageRollup(db.database)
    await rollup.roll(NOW)
    const before = await sums()
    await Promise.all([rollup.roll(NOW), rollup.roll(NOW), rollup.roll(NOW)])
    expect(await sums()).toStrictEqual(before)
  })

  test('pick up rows that came late within three days, and leave older days as they were', async () => {
    await used({ days: 3 }, { days: 4 })
    const rollup = usageRollup(db.database)
    await rollup.roll(NOW)
    await used({ days: 3 }, { days: 4 })
    await rollup.roll(NOW)
    expect((await sums()).map(({ day, calls }) => [day, calls])).toStrictEqual([
      [ago(4), 1],
      [ago(3), 2],
    ])
  })
})

describe('usage that is read', () => {
  const everything = { organizationId: OURS, days: 30, rootRunId: null }

  test('is the same before and after it is summed up', async () => {
    await used(
      { days: 0, cents: 1 },
      { days: 2, quantity: { inputTokens: 7, outputTokens: 1 }, cents: 2 },
      { days: 20, quantity: { inputTokens: 9, outputTokens: 2 }, cents: 3.5 },
      { days: 20, item: 'b' },
      { days: 29 },
      { days: 31 },
      { days: 20, organization: THEIRS },
    )
    const store = usageStore(db.database)
    const live = await store.totals(everything)
    expect(live.map(({ day }) => day)).toStrictEqual([ago(0), ago(2), ago(20), ago(20), ago(29)])
    await usageRollup(db.database).roll(NOW)
    expect(await store.totals(everything)).toStrictEqual(live)
  })

  test('comes from the sums for days that are over for good, and is live for the last ones and for one run', async () => {
    const root = randomUUID()
    await used({ days: 20, root })
    await usageRollup(db.database).roll(NOW)
    await used({ days: 20, root }, { days: 1 }, { days: 0 })
    const store = usageStore(db.database)
    const counts = (totals: readonly { day: string; count: number }[]) => totals.map(({ day, count }) => [day, count])
    expect(counts(await store.totals(everything))).toStrictEqual([
      [ago(0), 1],
      [ago(1), 1],
      [ago(20), 1],
    ])
    expect(counts(await store.totals({ ...everything, rootRunId: root }))).toStrictEqual([[ago(20), 2]])
  })
})
