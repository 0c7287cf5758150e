import { afterAll, beforeAll, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../../test/setup/database.ts'
import { world } from '../../test/setup/world.ts'
import { lookAtRun } from './run-look.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())

test('a look says until when a run waits: not while it is due, and nothing of one that is over or never was', async () => {
  const w = await world({
    database: db.database,
    rules: [{ name: 'ask', tools: ['email.send'], effect: 'require_approval' }],
    script: ({ turns }) =>
      turns.length === 0 ? { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] } : { text: 'done' },
  })
  const { id } = await w.start()
  const found = { organizationId: w.organizationId, lane: 'interactive' }
  expect(await lookAtRun(db.database, id)).toEqual({ ...found, waitsUntil: null })
  await w.engine.settle()
  const { wakeAt } = await w.run(id)
  expect(wakeAt).toBeInstanceOf(Date)
  expect(await lookAtRun(db.database, id)).toEqual({ ...found, waitsUntil: wakeAt })
  await w.approve(id)
  expect(await lookAtRun(db.database, id)).toEqual({ ...found, waitsUntil: null })
  await w.engine.settle()
  expect(await lookAtRun(db.database, id)).toBeNull()
  expect(await lookAtRun(db.database, w.core.newId())).toBeNull()
})
