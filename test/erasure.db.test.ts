import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { erasureStore } from '../src/storage/erasure-store.ts'
import { unnamed } from '../src/storage/statement.ts'
import { ERASED } from '../src/tools/erased.ts'
import { inRun, STARTER, world, type World } from './setup/world.ts'
import { empty, type TestDatabase, testDatabase } from './setup/database.ts'

const ANN = 'ann@acme.test'
const JOANN = 'joann@acme.test'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

function scene(): Promise<World> {
  return world({
    database: db.database,
    rules: [{ name: 'mail needs a person', tools: ['email.send'], effect: 'require_approval' }],
    script: ({ turns }) =>
      turns.length === 0
        ? {
            text: `Writing to ${ANN}.`,
            calls: [
              { tool: 'crm.note', args: { text: `called Ann (${ANN})` } },
              { tool: 'email.send', args: { to: ANN, subject: 'hello' } },
            ],
          }
        : { text: `Wrote to ${ANN}.` },
  })
}

function erase(w: World, email = ANN) {
  return erasureStore(db.database).erase({ organizationId: w.organizationId, email, by: STARTER })
}

/** Every row of every table that holds a text, in lower case; but for people's own writings, named below. */
async function tablesWith(text: string): Promise<string[]> {
  const { rows } = await db.database.query<{ name: string }>(
    unnamed(
      `SELECT schemaname || '.' || tablename AS name FROM pg_tables WHERE schemaname IN ('agent', 'public') ORDER BY 1`,
    ),
  )
  const found: string[] = []
  for (const { name } of rows) {
    const hits = await db.database.query<{ row: string }>(unnamed(`SELECT lower(t::text) AS row FROM ${name} t`))
    // A row as text doubles quotes and escapes; the address has neither.
    if (hits.rows.some(({ row }) => row.replaceAll(JOANN, '').includes(text))) found.push(name)
  }
  return found
}

async function finished(w: World): Promise<string> {
  const run = await w.start(`Please write to Ann <${ANN}> and to ${JOANN}.`)
  await w.engine.settle()
  await w.approve(run.id)
  await w.engine.settle()
  expect((await w.run(run.id)).status).toBe('completed')
  await w.core.ledger.flush()
  return run.id
}

async function seedDomain(organizationId: string): Promise<void> {
  const { kysely } = db.database
  const [ann, joann, list] = [randomUUID(), randomUUID(), randomUUID()]
  const people = [
    { id: ann, email: 'Ann@Acme.test' },
    { id: joann, email: JOANN },
  ]
  for (const person of people)
    await kysely
      .insertInto('public.people')
      .values({ ...person, organization_id: organizationId, full_name: 'x', title: `not ${JOANN}` })
      .execute()
  await kysely
    .insertInto('public.lists')
    .values({ id: list, organization_id: organizationId, name: 'l', kind: 'person' })
    .execute()
  for (const member_id of [ann, joann])
    await kysely
      .insertInto('public.list_members')
      .values({ organization_id: organizationId, list_id: list, member_id })
      .execute()
  for (const [subject, text] of [
    [ANN, 'likes tea'],
    ['tea', `ask ${ANN} about it`],
    [JOANN, 'likes coffee'],
  ] as const)
    await kysely
      .insertInto('public.memories')
      .values({
        id: randomUUID(),
        organization_id: organizationId,
        kind: 'observation',
        subject,
        text,
        content_hash: Buffer.from(text),
      })
      .execute()
  await kysely
    .insertInto('public.ai_usage_log')
    .values({
      id: randomUUID(),
      organization_id: organizationId,
      root_run_id: ann,
      run_id: ann,
      kind: 'tool',
      provider: 'p',
      item: ANN,
      quantity: `{"${ANN}":1}`,
      cost_cents: 12.5,
    })
    .execute()
}

describe('erasing a person', () => {
  test('leaves their address nowhere, and everybody else where they were', async () => {
    const w = await scene()
    const runId = await finished(w)
    await seedDomain(w.organizationId)
    expect(await tablesWith(ANN)).toEqual(expect.arrayContaining(['agent.runs', 'agent.approvals', 'public.people']))

    const outcome = await erase(w, ' ANN@acme.test ')
    expect(outcome).toMatchObject({
      kind: 'erased',
      erasure: {
        counts: { people: 1, list_members: 1, memories: 2, approvals: 1, runs: 1, run_sessions: 1, ai_usage_log: 1 },
        remains: { definitions: [], rules: [], connections: [], member: false },
      },
    })
    expect(await tablesWith(ANN)).toStrictEqual([])

    const people = await db.database.kysely.selectFrom('public.people').select('email').execute()
    expect(people).toStrictEqual([{ email: JOANN }])
    expect(await db.database.kysely.selectFrom('public.list_members').select('member_id').execute()).toHaveLength(1)
    const memories = await db.database.kysely.selectFrom('public.memories').select('subject').execute()
    expect(memories).toStrictEqual([{ subject: JOANN }])
    const usage = await db.database.kysely
      .selectFrom('public.ai_usage_log')
      .select(['cost_cents', 'item'])
      .where('kind', '=', 'tool')
      .execute()
    expect(usage).toStrictEqual([{ cost_cents: 12.5, item: '[erased]' }])
    const run = await w.run(runId)
    expect(run).toMatchObject({ status: 'completed', input: ERASED, output: ERASED })
    const journal = await db.database.kysely
      .selectFrom('agent.idempotency_keys')
      .select(['status', 'response', 'request_hash'])
      .execute()
    expect(journal).toHaveLength(2)
    for (const row of journal)
      expect(row).toStrictEqual({ status: 'completed', response: ERASED, request_hash: expect.any(Buffer) })
  })

  test('is recorded without the address, and can be asked about with it', async () => {
    const w = await scene()
    await finished(w)
    await erase(w)
    const store = erasureStore(db.database)
    const records = await store.list(w.organizationId)
    expect(records).toStrictEqual([
      { id: expect.any(String), erasedAt: expect.any(Date), erasedBy: STARTER, counts: expect.any(Object) },
    ])
    expect(await store.erasedAt(w.organizationId, 'ANN@ACME.test')).toStrictEqual(records[0]?.erasedAt)
    expect(await store.erasedAt(w.organizationId, JOANN)).toBeNull()
    expect(await store.erasedAt(randomUUID(), ANN)).toBeNull()
    await erase(w)
    const hashes = await db.database.kysely.selectFrom('agent.erasures').select('subject_hash').execute()
    expect(new Set(hashes.map(({ subject_hash }) => subject_hash.toString('hex'))).size).toBe(2)
  })

  test('is refused while a run that has not ended holds the address, and changes nothing', async () => {
    const w = await scene()
    const run = await w.start('go')
    await w.engine.settle()
    expect((await w.run(run.id)).status).toBe('parked')
    const other = await w.start(JOANN)
    await seedDomain(w.organizationId)
    const before = await tablesWith(ANN)
    expect(await erase(w)).toStrictEqual({ kind: 'open_runs', runIds: [run.id] })
    expect(await tablesWith(ANN)).toStrictEqual(before)
    expect(await erase(w, JOANN)).toStrictEqual({ kind: 'open_runs', runIds: [other.id] })
  })

  test('reaches one organization alone', async () => {
    const w = await scene()
    await finished(w)
    const other = await world({ database: db.database, slug: 'other' })
    const outcome = await erase(other)
    expect(outcome.kind).toBe('erased')
    expect(await tablesWith(ANN)).toContain('agent.runs')
  })

  test('says where the address stands because a person wrote it there', async () => {
    const w = await scene()
    const { kysely } = db.database
    await kysely
      .updateTable('agent.definitions')
      .set({ body: JSON.stringify({ instructions: `Copy ${ANN}.` }) })
      .execute()
    await kysely
      .updateTable('agent.policy_rules')
      .set({ condition: `args.to == "${ANN}"` })
      .execute()
    await kysely.updateTable('agent.connections').set({ account: ANN }).execute()
    const user = randomUUID()
    await kysely.insertInto('agent.users').values({ id: user, email: ANN, name: 'Ann' }).execute()
    await kysely
      .insertInto('agent.memberships')
      .values({ organization_id: w.organizationId, user_id: user, role: 'viewer' })
      .execute()
    expect(await erase(w)).toMatchObject({
      erasure: {
        remains: {
          definitions: ['outreach'],
          rules: ['mail needs a person'],
          connections: ['email/outbox'],
          member: true,
        },
      },
    })
  })

  test('of what is no address does nothing', async () => {
    const w = await scene()
    expect(await erase(w, '%')).toStrictEqual({ kind: 'no_address' })
    expect(await erasureStore(db.database).list(w.organizationId)).toStrictEqual([])
  })
})

test('a call whose answer was erased is not made again: its replay says that it was made', async () => {
  const w = await world({ database: db.database, rules: [{ name: 'all', tools: ['email.send'], effect: 'allow' }] })
  const invocation = await w.invocation()
  const call = { toolName: 'email.send', args: { to: ANN } }
  const send = () => inRun(w.core, invocation, () => w.core.invoker.invoke(call, invocation))
  expect(await send()).toMatchObject({ ok: true, data: { accepted: ANN } })
  await w.core.stores.runs.fail(invocation.runId, { status: 'failed', reason: 'r', message: null, output: null })
  expect(await erase(w)).toMatchObject({ kind: 'erased', erasure: { counts: { idempotency_keys: 1 } } })

  const again = await send()
  expect(again).toMatchObject({ ok: false, data: null, stop: null, error: { code: 'conflict', retryable: false } })
  expect(again.error?.message).toMatch(/already made.*erased/)
  expect(again.meta.replayedFrom).toBeDefined()
  expect(w.effects.sent).toHaveLength(1)
})
