import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { DEFAULT_RETENTION, retentionWindows } from '../src/runs/retention.ts'
import { retentionStore } from '../src/storage/retention-store.ts'
import { unnamed } from '../src/storage/statement.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { claimRows, firstBatch, jobRows, jobScene, submit } from './provider-jobs.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const DAY_MS = 86_400_000

test('claims of deliveries go after thirty days, whatever becomes of their runs, and claims of tools do not go with them', async () => {
  const scene = await jobScene({ database: db.database })
  try {
    await submit(scene, await scene.w.invocation())
    await scene.fullenrich.deliver(firstBatch(scene))
    const store = retentionStore(db.database)
    const sweep = async (days: number) => {
      const now = new Date(Date.now() + days * DAY_MS)
      return store.remove('webhook_claims', retentionWindows(DEFAULT_RETENTION, [], now), now)
    }
    expect(await sweep(29)).toEqual({ removed: { webhook_claims: 0 }, more: false })
    expect(await claimRows(db.database)).toHaveLength(1)
    expect(await sweep(31)).toEqual({ removed: { webhook_claims: 1 }, more: false })
    expect(await claimRows(db.database)).toEqual([])
    const { rows } = await db.database.query(unnamed('SELECT scope FROM agent.idempotency_keys'))
    expect(rows).toEqual([{ scope: 'tool.fullenrich.submit' }])
    // One that is sent again after that finds the job ended, and its event is one that was had before.
    expect(await scene.fullenrich.deliver(firstBatch(scene))).toBe(200)
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed' }])
  } finally {
    await scene.close()
  }
})

test('a job and its result go with their run', async () => {
  const scene = await jobScene({ database: db.database })
  try {
    const { runId } = await scene.w.invocation().then(async (invocation) => {
      await submit(scene, invocation)
      return invocation
    })
    const large = (body: object) => ({ ...body, filler: 'x'.repeat(64 * 1024) })
    await scene.fullenrich.deliver(firstBatch(scene), { body: large })
    const count = async (): Promise<unknown> =>
      (await db.database.query(unnamed('SELECT count(*)::integer AS count FROM agent.provider_job_results'))).rows
    expect(await count()).toEqual([{ count: 1 }])
    await db.database.query(unnamed('DELETE FROM agent.runs WHERE id = $1'), [runId])
    expect(await jobRows(db.database)).toEqual([])
    expect(await count()).toEqual([{ count: 0 }])
  } finally {
    await scene.close()
  }
})

test('a job belongs to the organization of its run, and a result to that of its job', async () => {
  const scene = await jobScene({ database: db.database })
  try {
    const jobId = await submit(scene, await scene.w.invocation())
    const stranger = '0192f0c1-0000-7000-8000-0000000000ff'
    const move = db.database.query(unnamed('UPDATE agent.provider_jobs SET organization_id = $1'), [stranger])
    await expect(move).rejects.toMatchObject({ code: '23503' })
    const insert = unnamed(
      `INSERT INTO agent.provider_job_results (job_id, organization_id, result_digest, result) VALUES ($1, $2, '\\x00', '1')`,
    )
    await expect(db.database.query(insert, [jobId, stranger])).rejects.toMatchObject({ code: '23503' })
  } finally {
    await scene.close()
  }
})
