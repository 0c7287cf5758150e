import { afterEach, beforeEach, expect, test } from 'vitest'
import { type ServerApp, serverApp } from '../../test/server-app.ts'
import { testDatabase, type TestDatabase } from '../../test/setup/database.ts'
import type { RuntimeHealth } from '../runtime.ts'
import type { Database } from '../storage/database.ts'
import { type Readiness, readinessOf } from './readiness.ts'

const LOGGER = { info: () => undefined, warn: () => undefined, error: () => undefined }

let db: TestDatabase
let server: ServerApp
let readiness: Readiness
beforeEach(async () => {
  db = await testDatabase()
  server = await serverApp(db.database, {
    readiness: (runtime) =>
      (readiness = readinessOf({ database: db.database, engine: runtime.health, logger: LOGGER })),
  })
})
afterEach(() => db.close())

/** Readiness of a process whose database is not what it should be. */
function over(database: Database, state: RuntimeHealth['state'] = 'taking', withinMs = 30_000): Readiness {
  return readinessOf({ database, engine: () => ({ state, lastSweepAt: null }), logger: LOGGER, withinMs })
}

test('a started server is ready, and says that all is well', async () => {
  expect(await server.json('/readyz')).toStrictEqual({ status: 200, body: { status: 'ok', reasons: [] } })
})

test('from the moment a stop begins it is not ready, while it still answers', async () => {
  readiness.stopping()
  expect(await server.json('/readyz')).toMatchObject({
    status: 503,
    body: { code: 'unavailable', reasons: [{ check: 'stop', message: 'the server is stopping' }] },
  })
  expect(await server.json('/healthz')).toStrictEqual({ status: 200, body: { status: 'ok' } })
})

test('an engine that takes no work makes it unready', async () => {
  server.runtime.leave()
  expect(await server.json('/readyz')).toMatchObject({
    status: 503,
    body: { reasons: [{ check: 'engine', message: 'the engine takes no more work' }] },
  })
  expect(await over(db.database, 'idle').report()).toMatchObject({
    state: 'unready',
    reasons: [{ check: 'engine', message: 'the engine has not started' }],
  })
})

test('a database that does not answer in time makes it unready', async () => {
  const silent = new Proxy(db.database, {
    get: (target, name) => (name === 'query' ? () => new Promise(() => undefined) : Reflect.get(target, name)),
  })
  expect(await over(silent, 'taking', 50).report()).toStrictEqual({
    state: 'unready',
    reasons: [{ check: 'database', message: 'the database does not answer within 50 ms' }],
  })
})

test('a database that refuses makes it unready, without the words of the driver', async () => {
  const broken = new Proxy(db.database, {
    get: (target, name) =>
      name === 'query' ? () => Promise.reject(new Error('password hunter2')) : Reflect.get(target, name),
  })
  const report = await over(broken).report()
  expect(report).toMatchObject({ state: 'unready', reasons: [{ message: 'the database does not answer' }] })
  expect(JSON.stringify(report)).not.toContain('hunter2')
})

test('a database behind this build makes it unready; one ahead of it does not, as in a rolling deploy', async () => {
  const { rows } = await db.database.query<{ name: string }>({
    name: '',
    text: 'SELECT name FROM public.agent_migrations ORDER BY name DESC LIMIT 1',
  })
  const newest = rows[0]?.name ?? ''
  await db.database.execute(`INSERT INTO public.agent_migrations (name, sha256) VALUES ('9999_later', repeat('0', 64))`)
  expect(await over(db.database).report()).toMatchObject({ state: 'ok' })
  await db.database.execute(`DELETE FROM public.agent_migrations WHERE name IN ('9999_later', '${newest}')`)
  expect(await over(db.database).report()).toStrictEqual({
    state: 'unready',
    reasons: [{ check: 'migrations', message: `the database lacks ${newest}: run bailiff migrate` }],
  })
})

test('held runs leave it ready and degraded, until they are let go', async () => {
  const run = await server.startRun({ notes: ['one'] })
  await db.database.execute(`UPDATE agent.runs SET held_at = now(), held_reason = 'restored' WHERE id = '${run.id}'`)
  expect(await server.json('/readyz')).toStrictEqual({
    status: 200,
    body: {
      status: 'degraded',
      reasons: [{ check: 'runs', message: 'runs are held until an operator lets them go on' }],
    },
  })
  await db.database.execute(`UPDATE agent.runs SET held_at = NULL, held_reason = NULL WHERE id = '${run.id}'`)
  expect(await server.json('/readyz')).toMatchObject({ status: 200, body: { status: 'ok' } })
})
