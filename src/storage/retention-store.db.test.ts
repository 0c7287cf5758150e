import { randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { empty, type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { monthsBefore, retentionOf, type RetentionSettings } from '../runs/retention.ts'
import { createUpkeep, type SweepReport } from '../runs/upkeep.ts'
import { retentionStore } from './retention-store.ts'
import { unnamed } from './statement.ts'
import { upkeepTurns } from './upkeep-turns.ts'
import { usageRollup } from './usage-rollup.ts'

const NOW = new Date('2026-12-01T10:00:00Z')
const DAY_MS = 86_400_000
const ORGANIZATION = randomUUID()
const OTHER = randomUUID()
const DEFINITION = randomUUID()

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
  await seedOrganizations()
})
afterEach(async () => {
  await empty(db.database)
  await seedOrganizations()
})
afterAll(() => db.close())

async function seedOrganizations(): Promise<void> {
  const { kysely } = db.database
  for (const id of [ORGANIZATION, OTHER])
    await kysely.insertInto('agent.organizations').values({ id, slug: id, name: id }).execute()
  await kysely
    .insertInto('agent.definitions')
    .values({
      id: DEFINITION,
      organization_id: ORGANIZATION,
      slug: 'd',
      version: 1,
      body: '{}',
      body_hash: Buffer.alloc(32),
    })
    .execute()
}

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }

function upkeep(settings: RetentionSettings = {}, rows = 1_000) {
  const reports: unknown[] = []
  return {
    reports,
    ...createUpkeep({
      retention: retentionOf(settings),
      store: retentionStore(db.database, { rows }),
      rollup: usageRollup(db.database),
      turns: upkeepTurns(db.database),
      logger: silent,
      reporter: { report: (error) => void reports.push(error) },
      now: () => NOW,
    }),
  }
}

function daysAgo(days: number): Date {
  return new Date(NOW.getTime() - days * DAY_MS)
}

interface SeedRun {
  readonly id?: string
  readonly organization?: string
  /** Days ago; null for one that is open. */
  readonly ended: number | null
  readonly begun?: number
  readonly parent?: { readonly id: string; readonly root: string }
  /** Ages of its spans and decisions in days. */
  readonly spans?: readonly number[]
}

/** A run with a row in every table that belongs to runs. */
async function seedRun(seed: SeedRun): Promise<string> {
  const { kysely } = db.database
  const id = seed.id ?? randomUUID()
  const organization_id = seed.organization ?? ORGANIZATION
  const root = seed.parent?.root ?? id
  const of = { organization_id, run_id: id }
  await kysely
    .insertInto('agent.runs')
    .values({
      id,
      organization_id,
      root_run_id: root,
      parent_run_id: seed.parent?.id ?? null,
      parent_step: seed.parent === undefined ? null : `step-${id}`,
      definition_id: DEFINITION,
      definition: 'd',
      status: seed.ended === null ? 'parked' : 'completed',
      source: 'api',
      input: '{}',
      snapshot: '{}',
      deadline: NOW,
      created_at: daysAgo(seed.begun ?? 1_000),
      ended_at: seed.ended === null ? null : daysAgo(seed.ended),
    })
    .execute()
  await seedParts(of, root)
  for (const age of seed.spans ?? []) await seedSpan(of, root, age)
  return id
}

async function seedParts(of: { organization_id: string; run_id: string }, root: string): Promise<void> {
  const { kysely } = db.database
  const actor = JSON.stringify({ kind: 'system', id: 't', name: 't' })
  await kysely.insertInto('agent.run_control').values(of).execute()
  await kysely
    .insertInto('agent.run_heartbeats')
    .values({ ...of, segment_id: randomUUID(), beat_at: NOW })
    .execute()
  await kysely
    .insertInto('agent.run_sessions')
    .values({ ...of, framework: 'f', state_version: 1, state: '{}' })
    .execute()
  await kysely
    .insertInto('agent.run_steps')
    .values({ ...of, path: 'p', node: 'n', kind: 'tool', state: 'completed' })
    .execute()
  await kysely
    .insertInto('agent.run_signals')
    .values({ ...of, id: randomUUID(), name: 's', payload: '1', sent_by: actor, consumed_by: 'p' })
    .execute()
  const jobId = randomUUID()
  await kysely
    .insertInto('agent.provider_jobs')
    .values({ ...of, id: jobId, root_run_id: root, tool_call_id: randomUUID(), provider: 'p', state: 'submitted' })
    .execute()
  await kysely
    .insertInto('agent.provider_job_results')
    .values({
      job_id: jobId,
      organization_id: of.organization_id,
      result_digest: Buffer.alloc(32),
      result: JSON.stringify(of.run_id),
    })
    .execute()
  await kysely
    .insertInto('agent.approvals')
    .values({
      ...of,
      id: randomUUID(),
      idempotency_key: `${of.run_id}:k`,
      span_id: randomUUID(),
      kind: 'action',
      state: 'approved',
      action: 'a.b',
      tool_version: 1,
      arguments: '{}',
      arguments_hash: Buffer.alloc(32),
      principal: '{}',
      expires_at: NOW,
    })
    .execute()
  await kysely
    .insertInto('agent.idempotency_keys')
    .values({
      ...of,
      scope: 'tool.a.b',
      key: `${of.run_id}:k`,
      status: 'completed',
      request_hash: Buffer.alloc(32),
      owner: randomUUID(),
      lease_until: NOW,
      response: '{}',
    })
    .execute()
  if (root !== of.run_id) return
  await kysely
    .insertInto('agent.run_taints')
    .values({ organization_id: of.organization_id, root_run_id: root, source: 'a.b' })
    .execute()
  await kysely
    .insertInto('agent.rule_counters')
    .values({ organization_id: of.organization_id, period: `run:${root}`, rule: 'r', used: 1 })
    .execute()
}

async function seedSpan(of: { organization_id: string; run_id: string }, root: string, age: number): Promise<void> {
  const { kysely } = db.database
  const id = randomUUID()
  await kysely
    .insertInto('agent.spans')
    .values({
      ...of,
      id,
      root_run_id: root,
      kind: 'tool',
      name: `age ${age}`,
      status: 'ok',
      started_at: daysAgo(age),
      ended_at: daysAgo(age),
    })
    .execute()
  await kysely
    .insertInto('agent.span_payloads')
    .values({ span_id: id, organization_id: of.organization_id, input: '1' })
    .execute()
  await kysely
    .insertInto('agent.policy_decisions')
    .values({
      ...of,
      id: randomUUID(),
      span_id: id,
      tool: 'a.b',
      arguments_hash: Buffer.alloc(32),
      stage: 2,
      outcome: 'allow',
      decided_at: daysAgo(age),
    })
    .execute()
}

const RUN_TABLES = [
  'agent.runs',
  'agent.run_control',
  'agent.run_heartbeats',
  'agent.run_sessions',
  'agent.run_steps',
  'agent.run_signals',
  'agent.approvals',
  'agent.idempotency_keys',
  'agent.provider_jobs',
] as const

/** Run ids that have a row, by table. */
async function runsIn(table: (typeof RUN_TABLES)[number]): Promise<string[]> {
  const column = table === 'agent.runs' ? 'id' : 'run_id'
  const { rows } = await db.database.query<{ id: string }>(unnamed(`SELECT ${column} AS id FROM ${table} ORDER BY 1`))
  return rows.map(({ id }) => id)
}

async function count(table: string): Promise<number> {
  const { rows } = await db.database.query<{ n: number }>(unnamed(`SELECT count(*)::integer AS n FROM ${table}`))
  return rows[0]?.n ?? -1
}

async function spansOf(runId: string): Promise<string[]> {
  const rows = await db.database.kysely
    .selectFrom('agent.spans')
    .select('name')
    .where('run_id', '=', runId)
    .orderBy('name')
    .execute()
  return rows.map(({ name }) => name)
}

describe('spans and decisions', () => {
  test('go after 90 days, with their payloads, and stay as long as their run is open', async () => {
    const ended = await seedRun({ ended: 10, spans: [91, 89] })
    const open = await seedRun({ ended: null, spans: [400] })
    const report = await upkeep().sweep(NOW)
    expect(report).toMatchObject({ removed: { spans: 1, span_payloads: 1, policy_decisions: 1 }, more: false })
    expect(await spansOf(ended)).toStrictEqual(['age 89'])
    expect(await spansOf(open)).toStrictEqual(['age 400'])
    expect(await count('agent.span_payloads')).toBe(2)
    expect(await count('agent.policy_decisions')).toBe(2)
  })

  test('of an organization with a window of its own go by that', async () => {
    await db.database.kysely
      .updateTable('agent.organizations')
      .set({ settings: '{"retention":{"spansDays":400,"runsMonths":120}}' })
      .where('id', '=', OTHER)
      .execute()
    const usual = await seedRun({ ended: 10, spans: [100] })
    const longer = await seedRun({ organization: OTHER, ended: 10, spans: [100, 401] })
    await upkeep().sweep(NOW)
    expect(await spansOf(usual)).toStrictEqual([])
    expect(await spansOf(longer)).toStrictEqual(['age 100'])
  })

  test('of an organization whose settings cannot be read stay, and the report names it', async () => {
    await db.database.kysely
      .updateTable('agent.organizations')
      .set({ settings: '{"retention":{"spansDays":"soon"}}' })
      .where('id', '=', OTHER)
      .execute()
    const kept = await seedRun({ organization: OTHER, ended: 900, spans: [1_000] })
    const report = await upkeep().sweep(NOW)
    expect(report.unreadable).toStrictEqual([OTHER])
    expect(await spansOf(kept)).toStrictEqual(['age 1000'])
    expect(await runsIn('agent.runs')).toStrictEqual([kept])
  })
})

describe('runs', () => {
  test('go 13 months after they ended, with everything that belongs to them', async () => {
    await seedRun({ ended: 400, spans: [400, 20] })
    const young = await seedRun({ ended: 390 })
    const open = await seedRun({ ended: null, begun: 2_000 })
    const report = await upkeep().sweep(NOW)
    expect(report.removed).toMatchObject({
      runs: 1,
      idempotency_keys: 1,
      approvals: 1,
      run_taints: 1,
      rule_counters: 1,
    })
    for (const table of RUN_TABLES) expect(await runsIn(table)).toStrictEqual([young, open].toSorted())
    expect(await count('agent.provider_job_results')).toBe(2)
    expect(await count('agent.run_taints')).toBe(2)
    expect(await count('agent.rule_counters')).toBe(2)
    expect(await count('agent.spans')).toBe(0)
    expect(await count('agent.span_payloads')).toBe(0)
  })

  test('of a tree go together: none before the last of them', async () => {
    const root = await seedRun({ ended: 500 })
    const child = await seedRun({ ended: null, parent: { id: root, root } })
    await seedRun({ ended: 500, parent: { id: root, root } })
    await upkeep().sweep(NOW)
    expect(await runsIn('agent.runs')).toHaveLength(3)
    expect(await count('agent.run_taints')).toBe(1)
    const end = { status: 'completed' as const, ended_at: daysAgo(500) }
    await db.database.kysely.updateTable('agent.runs').set(end).where('id', '=', child).execute()
    await upkeep({}, 2).sweep(NOW)
    for (const table of RUN_TABLES) expect(await runsIn(table)).toStrictEqual([])
    expect(await count('agent.run_taints')).toBe(0)
  })

  test('are taken apart in small statements, and a sweep that is stopped goes on with the next', async () => {
    for (let n = 0; n < 5; n += 1) await seedRun({ ended: 500, spans: [450, 460, 470] })
    const stopped = upkeep({}, 2)
    await stopped.stop()
    expect(await stopped.sweep(NOW)).toMatchObject({ removed: {}, more: true })
    expect(await runsIn('agent.runs')).toHaveLength(5)
    expect(await upkeep({}, 2).sweep(NOW)).toMatchObject({ removed: { runs: 5, spans: 15 }, more: false })
  })

  // The embedded database has one session, which cannot hold a row against itself.
  test.runIf(inject('dialect') === 'postgres')('are left alone while somebody holds their rows', async () => {
    const run = await seedRun({ ended: 10, spans: [100, 101] })
    const other = await db.another()
    await other.transaction(async (tx) => {
      await tx.query(unnamed(`SELECT id FROM agent.spans WHERE name = 'age 100' FOR UPDATE`))
      await upkeep().sweep(NOW)
      expect(await spansOf(run)).toStrictEqual(['age 100'])
    })
  })
})

describe('usage', () => {
  const row = (age: number, runId: string) => ({
    id: randomUUID(),
    organization_id: ORGANIZATION,
    root_run_id: runId,
    run_id: runId,
    kind: 'tool' as const,
    provider: 'p',
    item: 'i',
    quantity: '{"credits":2}',
    cost_cents: 1.5,
    created_at: daysAgo(age),
  })

  test('stays for good unless it is configured, and then the daily sums stay', async () => {
    const run = await seedRun({ ended: 800 })
    const open = await seedRun({ ended: null })
    for (const values of [row(900, run), row(10, run), row(900, open)])
      await db.database.kysely.insertInto('public.ai_usage_log').values(values).execute()
    await upkeep().sweep(NOW)
    expect(await count('public.ai_usage_log')).toBe(3)
    while ((await upkeep({ usageMonths: 12 }).sweep(NOW)).summed.length > 3);
    expect(await count('public.ai_usage_log')).toBe(2)
    const daily = await db.database.kysely.selectFrom('public.ai_usage_daily').selectAll().orderBy('day').execute()
    expect(daily.map(({ calls, cost_cents, quantity }) => ({ calls, cost_cents, quantity }))).toStrictEqual([
      { calls: 2, cost_cents: 3, quantity: { credits: 4 } },
      { calls: 1, cost_cents: 1.5, quantity: { credits: 2 } },
    ])
  })
})

describe('what is over by its own date', () => {
  test('goes: counters of past periods, sessions and sign-ins', async () => {
    const { kysely } = db.database
    for (const period of ['hour:2026-12-01T09', 'day:2026-11-30', 'hour:2026-11-20T09', 'day:2026-11-20', 'run:x'])
      await kysely
        .insertInto('agent.rule_counters')
        .values({ organization_id: ORGANIZATION, period, rule: 'r', used: 1 })
        .execute()
    const key = { id: randomUUID(), organization_id: ORGANIZATION, kind: 'run' as const, name: 'k' }
    await kysely
      .insertInto('agent.api_keys')
      .values({ ...key, key_hash: Buffer.alloc(32) })
      .execute()
    for (const age of [-1, 1])
      await kysely
        .insertInto('agent.console_sessions')
        .values({
          token_hash: Buffer.from(`token ${age}`),
          organization_id: ORGANIZATION,
          key_id: key.id,
          kind: 'session',
          expires_at: daysAgo(age),
        })
        .execute()
    for (const age of [-1, 1])
      await kysely
        .insertInto('agent.connection_authorizations')
        .values({
          state_hash: Buffer.from(`state ${age}`),
          organization_id: ORGANIZATION,
          provider: 'p',
          label: 'l',
          redirect_uri: 'https://x.test',
          version: 1,
          kek_id: 'k',
          wrapped_dek: Buffer.alloc(1),
          sealed: Buffer.alloc(1),
          begun_by: '{}',
          expires_at: daysAgo(age),
        })
        .execute()
    await upkeep().sweep(NOW)
    const periods = await kysely.selectFrom('agent.rule_counters').select('period').orderBy('period').execute()
    expect(periods.map(({ period }) => period)).toStrictEqual(['day:2026-11-30', 'hour:2026-12-01T09', 'run:x'])
    expect(await count('agent.console_sessions')).toBe(1)
    expect(await count('agent.connection_authorizations')).toBe(1)
  })
})

describe('turns', () => {
  test('of several processes that ask at once one gets it, and none before the hour is over', async () => {
    const turns = upkeepTurns(db.database)
    const asked = await Promise.all(Array.from({ length: 8 }, () => turns.take('work', NOW, 3_600)))
    expect(asked.filter(Boolean)).toHaveLength(1)
    expect(await turns.take('work', new Date(NOW.getTime() + 3_599_000), 3_600)).toBe(false)
    expect(await turns.take('work', new Date(NOW.getTime() + 3_600_000), 3_600)).toBe(true)
    await turns.giveBack('work', NOW)
    expect(await turns.take('work', NOW, 3_600)).toBe(true)
  })

  test('a tick sweeps once, whoever ticks', async () => {
    await seedRun({ ended: 10, spans: [100] })
    const [first, second] = [upkeep(), upkeep()]
    for (const one of [first, second, first]) one.tick()
    await Promise.all([first.idle(), second.idle()])
    expect([...first.reports, ...second.reports]).toStrictEqual([])
    expect(await count('agent.spans')).toBe(0)
    const { rows } = await db.database.query<{ due: Date }>(
      unnamed(`SELECT due_at AS due FROM agent.upkeep WHERE name = 'retention'`),
    )
    expect(rows.map(({ due }) => due)).toStrictEqual([new Date(NOW.getTime() + 3_600_000)])
  })
})

test('nothing younger than its window and nothing of an open run is ever removed, and nothing older is left', async () => {
  const age = fc.integer({ min: 0, max: 900 })
  const run = fc.record({
    ended: fc.option(age, { nil: null }),
    spans: fc.array(age, { maxLength: 4 }),
    children: fc.array(fc.record({ ended: fc.option(age, { nil: null }), spans: fc.array(age, { maxLength: 2 }) }), {
      maxLength: 2,
    }),
  })
  const settings = fc.record({
    spansDays: fc.integer({ min: 1, max: 500 }),
    runsMonths: fc.integer({ min: 1, max: 24 }),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(run, { maxLength: 5 }),
      settings,
      fc.integer({ min: 1, max: 5 }),
      async (runs, kept, rows) => {
        await empty(db.database)
        await seedOrganizations()
        const trees: { id: string; ended: number | null; spans: readonly number[] }[][] = []
        for (const { children, ...root } of runs) {
          const id = await seedRun(root)
          const tree = [{ id, ...root }]
          for (const child of children)
            tree.push({ id: await seedRun({ ...child, parent: { id, root: id } }), ...child })
          trees.push(tree)
        }
        const report: SweepReport = await upkeep(kept, rows).sweep(NOW)
        expect(report.more).toBe(false)
        const runsBefore = Math.min(monthsBefore(NOW, kept.runsMonths).getTime(), daysAgo(kept.spansDays).getTime())
        const old = (ended: number | null): boolean => ended !== null && daysAgo(ended).getTime() < runsBefore
        const stay = trees.filter((tree) => !tree.every(({ ended }) => old(ended))).flat()
        for (const table of RUN_TABLES) expect(await runsIn(table)).toStrictEqual(stay.map(({ id }) => id).toSorted())
        for (const { id, ended, spans } of stay) {
          const left = ended === null ? spans : spans.filter((days) => days <= kept.spansDays)
          expect(await spansOf(id)).toStrictEqual(left.map((days) => `age ${days}`).toSorted())
        }
        const spans = stay.reduce(
          (sum, one) => sum + one.spans.filter((days) => one.ended === null || days <= kept.spansDays).length,
          0,
        )
        for (const table of ['agent.spans', 'agent.span_payloads', 'agent.policy_decisions'])
          expect(await count(table)).toBe(spans)
      },
    ),
    { numRuns: 25 },
  )
}, 120_000)
