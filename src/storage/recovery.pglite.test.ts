import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ServerApp, serverApp } from '../../test/server-app.ts'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { DEFAULT_LANE_LIMITS, type BeginRules } from '../runs/lane.ts'
import { recoverInterrupted } from './recovery.ts'
import { runStore } from './run-store.ts'

const RULES: BeginRules = { staleS: 30, lanes: DEFAULT_LANE_LIMITS }

let db: TestDatabase
let server: ServerApp

beforeAll(async () => {
  db = await testDatabase()
  server = await serverApp(db.database)
})
afterAll(() => db.close())

test('a run whose process died goes on at once, with its claims read as interrupted and its spans closed', async () => {
  const { kysely } = db.database
  const run = await server.startRun({ notes: ['first'] })
  const begun = await runStore(db.database).begin(run.id, server.core.newId(), RULES)
  expect(begun.kind).toBe('begun')
  const spanId = server.core.newId()
  const of = { organization_id: server.organizationId, run_id: run.id }
  await kysely
    .insertInto('agent.spans')
    .values({
      ...of,
      id: spanId,
      root_run_id: run.id,
      parent_id: run.id,
      kind: 'tool',
      name: 'notes.write',
      status: 'running',
      started_at: new Date(),
    })
    .execute()
  await kysely
    .insertInto('agent.idempotency_keys')
    .values({
      ...of,
      scope: 'tool.notes.write',
      key: 'k',
      status: 'processing',
      request_hash: Buffer.alloc(32),
      owner: spanId,
      lease_until: new Date(Date.now() + 60_000),
    })
    .execute()

  expect(await recoverInterrupted(db.database)).toStrictEqual({ runs: 1, claims: 1, spans: 1 })

  expect(await server.core.stores.runs.get(server.organizationId, run.id)).toMatchObject({ status: 'queued' })
  expect(await server.core.stores.runs.due(RULES, 10)).toContain(run.id)
  const span = await kysely.selectFrom('agent.spans').selectAll().where('id', '=', spanId).executeTakeFirstOrThrow()
  expect(span).toMatchObject({ status: 'error', code: 'interrupted', ended_at: expect.any(Date) })
  const root = await kysely.selectFrom('agent.spans').selectAll().where('id', '=', run.id).executeTakeFirstOrThrow()
  expect(root.status).toBe('running')
  const claim = await kysely.selectFrom('agent.idempotency_keys').selectAll().executeTakeFirstOrThrow()
  expect(claim).toMatchObject({ status: 'processing' })
  expect(claim.lease_until.getTime()).toBeLessThanOrEqual(Date.now() + 1_000)
  expect(await recoverInterrupted(db.database)).toMatchObject({ runs: 0, spans: 0 })
})
