import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { OWN_LOOP, OWN_LOOP_STATE_VERSION } from '../../src/frameworks/ai-sdk/own-conversation.ts'
import type { Database } from '../../src/storage/database.ts'
import { migrate, pendingMigrations } from '../../src/storage/migrate.ts'
import { unnamed } from '../../src/storage/statement.ts'
import { testDatabase, type TestDatabase } from '../setup/database.ts'
import { RECORD, parkedExamples, stateExample } from './examples.ts'
import { approveAll, converse, startOwnLoop, startPlatform, type Effects, type Platform } from './platform.ts'
import { record } from './record.ts'
import { migrationNames, writeRows } from './rows.ts'

const EXAMPLES = parkedExamples()

let db: TestDatabase
let database: Database
let effects: Effects

beforeEach(async () => {
  db = await testDatabase()
  database = db.database
  effects = []
})
afterEach(() => db.close())

async function runOf(platform: Platform, id: string) {
  const run = await platform.runtime.runs.get(platform.organizationId, id)
  if (run === null) throw new Error(`there is no run ${id}`)
  return run
}

/** Lets every try of a run happen that is left to it. */
async function exhaust({ engine }: Platform): Promise<void> {
  for (let round = 0; round < 5; round += 1) {
    await engine.settle()
    await database.execute(`UPDATE agent.runs SET wake_at = now() WHERE status = 'queued'`)
    await engine.sweep()
  }
}

/** Saved by a build that is 98 versions ahead, or by none of them again. */
const setAhead = (ahead: boolean): Promise<void> =>
  database.execute(`UPDATE agent.run_sessions SET state_version = state_version ${ahead ? '+' : '-'} 98`)

test('every migration has an example of runs that were parked under it', async () => {
  const recorded = EXAMPLES.map(({ migration }) => migration)
  const missing = (await migrationNames()).filter((name) => !recorded.includes(name))
  expect(missing, `add what is missing: ${RECORD}`).toEqual([])
})

test('the states of a loop of your own are what this build saves; a new shape is a new version', async () => {
  const withoutTimes = (states: unknown): unknown =>
    JSON.parse(JSON.stringify(states).replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'then'))
  const { ownLoop } = await record(database)
  expect(withoutTimes(ownLoop)).toEqual(withoutTimes(stateExample(OWN_LOOP, OWN_LOOP_STATE_VERSION)))
})

describe.each(EXAMPLES)('runs that were parked under $migration', (example) => {
  beforeEach(() => writeRows(database, example))

  test('survive the migrations since, as they were', async () => {
    const before = await database.kysely.selectFrom('agent.runs').select(['id', 'status']).orderBy('id').execute()
    const since = (await migrationNames()).filter((name) => name > example.migration)
    expect(await pendingMigrations(database)).toEqual(since)
    expect(await migrate(database)).toEqual({ applied: since })
    const after = await database.kysely.selectFrom('agent.runs').select(['id', 'status']).orderBy('id').execute()
    expect(after).toEqual(before)
    expect(after).toEqual([example.managedRun, example.ownLoopRun].toSorted().map((id) => ({ id, status: 'parked' })))
  })

  test('of the platform: one answer, one effect, and the run is finished by this build', async () => {
    const platform = await startPlatform(database, effects)
    await platform.engine.sweep()
    expect(await platform.engine.settle()).toBe(0)
    const { items } = await platform.core.approvals.list(platform.organizationId, { state: 'pending' })
    expect(items).toMatchObject([
      { tool: 'mail.send', preview: 'Mail "Your order" to jo@acme.test', rule: 'mail waits' },
    ])

    expect(await approveAll(platform.core, platform.organizationId)).toBe(1)
    expect(await platform.engine.settle()).toBe(1)
    // The note was written before the upgrade: it is answered by the journal.
    expect(effects).toEqual(['mail to jo@acme.test: Your order'])
    const run = await runOf(platform, example.managedRun)
    expect(run).toMatchObject({ status: 'completed', turns: 2, toolCalls: 3, message: null })
    expect(JSON.parse(run.output as string)).toMatchObject([
      { ok: true, data: { id: 'A1', customer: 'Jo' } },
      { ok: true, data: { written: true }, replay: expect.stringContaining('nothing was executed now') as string },
      { ok: true, data: { accepted: 'jo@acme.test' } },
    ])
    await exhaust(platform)
    expect(effects).toHaveLength(1)
    const { rows } = await database.query<{ status: string; journal: number }>(
      unnamed(`SELECT status, count(*)::int AS journal FROM agent.idempotency_keys WHERE run_id = $1::uuid GROUP BY 1`),
      [example.managedRun],
    )
    expect(rows).toEqual([{ status: 'completed', journal: 2 }])
  })

  test('of the platform: a rejection reaches the model, and nothing is sent', async () => {
    const platform = await startPlatform(database, effects)
    const { items } = await platform.core.approvals.list(platform.organizationId, { state: 'pending' })
    for (const { id, argumentsHash } of items) {
      const decider = { actor: { kind: 'user', id: 'ben', name: 'Ben' }, roles: [] } as const
      const { organizationId } = platform
      await platform.core.approvals.reject({ organizationId, approvalId: id, argumentsHash, decider, note: 'not now' })
    }
    await platform.engine.settle()
    expect(effects).toEqual([])
    expect(await runOf(platform, example.managedRun)).toMatchObject({
      status: 'completed',
      output: expect.stringContaining('not now') as string,
    })
  })

  test('of a loop of your own: one answer, one effect, and the conversation goes on', async () => {
    const { bailiff, session } = await startOwnLoop(database, effects)
    expect(await approveAll(bailiff.core, bailiff.organizationId)).toBe(1)
    const run = await session.continue(example.ownLoopRun)
    await converse(run)
    expect(effects).toEqual(['note for Jo'])
    expect(run.status).toMatchObject({ kind: 'finished', text: expect.stringContaining('"written":true') as string })
    expect(JSON.stringify(run.messages)).toContain('"orders_find"')
  })
})

describe('a run that a newer build has saved', () => {
  const NEWER = 'by a newer build; this one reads up to version'

  const example = EXAMPLES.at(-1)
  if (example === undefined) throw new Error('there is no example')
  beforeEach(() => writeRows(database, example))

  test('fails cleanly once its tries are spent, and says why: nothing runs and nothing is left to answer', async () => {
    const platform = await startPlatform(database, effects)
    await setAhead(true)
    await approveAll(platform.core, platform.organizationId)
    await platform.engine.settle()
    expect(await runOf(platform, example.managedRun)).toMatchObject({
      status: 'queued',
      message: expect.stringContaining(NEWER) as string,
    })
    await exhaust(platform)
    expect(await runOf(platform, example.managedRun)).toMatchObject({
      status: 'failed',
      reason: 'internal_error',
      message: expect.stringContaining(NEWER) as string,
      wakeAt: null,
    })
    expect(effects).toEqual([])
    expect(await platform.engine.settle()).toBe(0)
    const { items } = await platform.core.approvals.list(platform.organizationId, { state: 'pending' })
    expect(items).toEqual([])
  })

  test('waits for a build that reads it while it has tries left: the newer one of two goes on', async () => {
    const platform = await startPlatform(database, effects)
    await setAhead(true)
    await approveAll(platform.core, platform.organizationId)
    await platform.engine.settle()
    expect((await runOf(platform, example.managedRun)).status).toBe('queued')
    await setAhead(false)
    await exhaust(platform)
    expect(await runOf(platform, example.managedRun)).toMatchObject({ status: 'completed', message: null })
    expect(effects).toEqual(['mail to jo@acme.test: Your order'])
  })

  test('is refused to a loop of your own with the reason, and stays for a build that reads it', async () => {
    const { bailiff, session } = await startOwnLoop(database, effects)
    await setAhead(true)
    await approveAll(bailiff.core, bailiff.organizationId)
    await expect(session.continue(example.ownLoopRun)).rejects.toThrow(NEWER)
    const { runs } = bailiff.core.stores
    expect(await runs.get(bailiff.organizationId, example.ownLoopRun)).toMatchObject({
      status: 'queued',
      message: expect.stringContaining(NEWER) as string,
    })
    await setAhead(false)
    const run = await session.continue(example.ownLoopRun)
    await converse(run)
    expect(run.status.kind).toBe('finished')
    expect(effects).toEqual(['note for Jo'])
  })
})
