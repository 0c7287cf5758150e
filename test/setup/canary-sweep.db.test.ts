import { afterAll, beforeAll, expect, test } from 'vitest'
import { canarySecret, sweep, watchedLogger, watchedReporter } from './canary-sweep.ts'
import { empty, type TestDatabase, testDatabase } from './database.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())

const SECRET = canarySecret('planted')

test.each([
  ['as it is', SECRET],
  ['inside an address', `https://api.test/?key=${encodeURIComponent(SECRET)}`],
  ['as a password in base64', Buffer.from(`jo:${SECRET}`).toString('base64')],
  ['in base64 at another place', Buffer.from(`user1:${SECRET}`).toString('base64')],
  ['in hexadecimal', Buffer.from(SECRET).toString('hex')],
])('a secret that a table holds %s is found', async (_how, text) => {
  await db.database.execute(
    `INSERT INTO agent.organizations (id, slug, name) VALUES (gen_random_uuid(), 'planted', '${text}')`,
  )
  await expect(sweep(db.database)).rejects.toThrow('agent.organizations')
  await db.database.execute('TRUNCATE agent.organizations CASCADE')
  await sweep(db.database)
})

test('a secret in bytes is found', async () => {
  await db.database.execute(
    `INSERT INTO agent.idempotency_keys (organization_id, scope, key, status, request_hash, owner, lease_until)
     VALUES (gen_random_uuid(), 's', 'k', 'processing', convert_to('${SECRET}', 'UTF8'), gen_random_uuid(), now())`,
  )
  await expect(sweep(db.database)).rejects.toThrow('agent.idempotency_keys')
  await db.database.execute('TRUNCATE agent.idempotency_keys')
})

test('a log line and an error report that hold one fail the next sweep, and only that one', async () => {
  watchedLogger.error('failed', { error: new Error('outer', { cause: new Error(`with ${SECRET}`) }) })
  await expect(empty(db.database)).rejects.toThrow('log line')
  watchedReporter.report(new Error(SECRET), { tool: 'x' })
  await expect(sweep(db.database)).rejects.toThrow('error report')
  watchedLogger.info('fine', { tool: 'x' })
  await sweep(db.database)
})
