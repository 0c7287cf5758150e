import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { FullEnrichBatch } from '../simulators/fullenrich.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { claimRows, dropsOf, jobRows, jobScene, type JobScene, submit, usageRows } from './provider-jobs.ts'

let db: TestDatabase
const scenes: JobScene[] = []

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterEach(async () => {
  for (const scene of scenes.splice(0)) await scene.close()
})
afterAll(() => db.close())

/** Two web processes: an app, an engine and a pool each. */
async function twoProcesses() {
  const first = await jobScene({ database: db.database })
  const second = await jobScene({ database: await db.another() })
  scenes.push(first, second)
  return { first, second, invocation: await first.w.invocation() }
}

async function arrive({ app, fullenrich }: JobScene, batch: FullEnrichBatch, status?: string): Promise<number> {
  const other = { body: (usual: object) => ({ ...usual, status, cost: { credits: 99 } }) }
  const { headers, body } = fullenrich.callback(batch, status === undefined ? {} : other)
  return (await app.request(batch.webhookUrl ?? '', { method: 'POST', headers, body })).status
}

describe('two web processes', () => {
  test('T03 that receive one delivery at once make one transition and one usage row', async () => {
    const { first, second, invocation } = await twoProcesses()
    for (let round = 0; round < 10; round += 1) {
      await submit(first, { ...invocation, stepPath: `round_${round}` })
      const batch = first.fullenrich.batches.at(-1)
      if (batch === undefined) throw new Error('no batch arrived')
      const statuses = await Promise.all([first, second, first, second].map((scene) => arrive(scene, batch)))
      expect(statuses).toEqual([200, 200, 200, 200])
      await Promise.all([first.w.engine.settle(), second.w.engine.settle()])
      expect(await usageRows(db.database)).toHaveLength(round + 1)
      expect(await claimRows(db.database)).toHaveLength(round + 1)
    }
    const rows = await jobRows(db.database)
    expect(rows.filter(({ state, usage_id }) => state === 'completed' && usage_id !== null)).toHaveLength(10)
  })

  test('R48 that receive two ends of one batch at once keep one of them, with its own cost', async () => {
    const { first, second, invocation } = await twoProcesses()
    for (let round = 0; round < 10; round += 1) {
      await submit(first, { ...invocation, stepPath: `round_${round}` })
      const batch = first.fullenrich.batches.at(-1)
      if (batch === undefined) throw new Error('no batch arrived')
      expect(await Promise.all([arrive(first, batch), arrive(second, batch, 'CANCELED')])).toEqual([200, 200])
    }
    for (const row of await jobRows(db.database)) {
      const { status } = row['result'] as { status: string }
      const kept = status === 'FINISHED' ? ['completed', { credits: 1 }] : ['cancelled', { credits: 99 }]
      expect([row['state'], row['cost']]).toEqual(kept)
    }
    expect({ ...dropsOf(first), ...dropsOf(second) }).toHaveProperty('fullenrich delivery_conflict')
  })
})
