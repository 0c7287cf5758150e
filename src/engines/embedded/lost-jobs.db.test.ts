import { fromPglite, PgBoss } from 'pg-boss'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { engineDatabase, SILENT } from '../../../test/embedded-scene.ts'
import { testDatabase, type TestDatabase } from '../../../test/setup/database.ts'
import type { DurableEngine } from '../../runs/engine.ts'
import { embeddedEngine, type EngineDatabase } from './engine.ts'

const QUEUE = 'bailiff-job.settle'

let db: TestDatabase
let where: EngineDatabase

beforeAll(async () => {
  db = await testDatabase()
  where = engineDatabase(db)
})
afterAll(() => db.close())

async function engine(failures: string[], failed: () => void): Promise<DurableEngine> {
  const made = embeddedEngine({ database: where, logger: SILENT, backoffMs: 0 })
  await made.start({
    advance: () => Promise.resolve({ kind: 'idle' }),
    sweep: () => Promise.resolve([]),
    look: () => Promise.resolve(null),
    gaveUp: () => Promise.resolve(),
    crons: [],
    jobs: {
      settle: {
        retries: 0,
        run: () => Promise.reject(new Error('it was lost, and must not run')),
        async onFinalFailure(payload, fault) {
          failures.push(`${JSON.stringify(payload)}: ${fault.message}`)
          failed()
        },
      },
    },
  })
  return made
}

test('a job whose process died in its last try is told as lost, once', async () => {
  const failures: string[] = []
  const told = Promise.withResolvers<void>()
  // Makes the queues.
  await (await engine(failures, told.resolve)).stop(1_000)
  const dead = new PgBoss({
    schema: 'bailiff_queue',
    supervise: false,
    schedule: false,
    ...(where.dialect === 'pglite'
      ? { db: fromPglite(where.raw), backend: 'pglite' as const }
      : { connectionString: where.connectionString }),
  })
  await dead.start()
  await dead.send(QUEUE, { payload: { job_id: 'j1' } })
  expect(await dead.fetch(QUEUE)).toHaveLength(1)
  await db.database.execute(
    `UPDATE bailiff_queue.job SET started_on = now() - interval '1 hour', heartbeat_on = now() - interval '1 hour' WHERE name = '${QUEUE}'`,
  )
  await dead.supervise(QUEUE)
  await dead.stop({ graceful: false, close: where.dialect === 'postgres' })
  const next = await engine(failures, told.resolve)
  await told.promise
  await next.stop(1_000)
  expect(failures).toEqual(['{"job_id":"j1"}: Lost; the log has the details'])
})
