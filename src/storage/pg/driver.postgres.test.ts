import { expect, inject, onTestFinished, test } from 'vitest'
import { testDatabase } from '../../../test/setup/database.ts'
import type { Database } from '../database.ts'
import { DatabaseUnavailable, HandleMisused } from '../errors.ts'
import { statement, unnamed } from '../statement.ts'
import { type PgOptions, pgDatabase } from './driver.ts'

const url = new URL(inject('postgresUrl'))

async function refusal(change: (url: URL) => void): Promise<DatabaseUnavailable> {
  const changed = new URL(url)
  changed.pathname = 'postgres'
  change(changed)
  const outcome: unknown = await pgDatabase({ connectionString: changed.href }).catch((error: unknown) => error)
  if (!(outcome instanceof DatabaseUnavailable)) throw new Error(`expected a refusal, got ${String(outcome)}`)
  return outcome
}

async function open(options: Partial<PgOptions> = {}): Promise<Database> {
  const database = await pgDatabase({ connectionString: `${url.href}postgres`, ...options })
  onTestFinished(() => database.close())
  return database
}

const backend = unnamed('SELECT pg_backend_pid() AS pid')

async function backendOf(database: Database): Promise<number> {
  return (await database.query<{ pid: number }>(backend)).rows[0]?.pid ?? 0
}

test('a port where nothing listens', async () => {
  const error = await refusal((url) => (url.port = '1'))
  expect(error.reason).toBe('refused')
  expect(error.message).toBe(
    'PostgreSQL at 127.0.0.1:1/postgres refuses connections. Start the server, or correct host and port in the database URL.',
  )
})

test('a wrong password is not repeated', async () => {
  const error = await refusal((url) => (url.password = 'hunter2'))
  expect(error.reason).toBe('authentication')
  expect(error.message).not.toContain('hunter2')
  expect(error.message).toContain('user "postgres"')
})

test('no password at all', async () => {
  expect((await refusal((url) => (url.password = ''))).reason).toBe('authentication')
})

test('a database that is not there', async () => {
  const error = await refusal((url) => (url.pathname = 'nowhere'))
  expect(error.reason).toBe('unknown_database')
  expect(error.message).toContain('createdb nowhere')
})

test('a host name that does not resolve', async () => {
  expect((await refusal((url) => (url.hostname = 'host.invalid'))).reason).toBe('unknown_host')
})

test('a server without TLS that is asked for it', async () => {
  expect((await refusal((url) => url.searchParams.set('sslmode', 'verify-full'))).reason).toBe('tls')
})

test('says where the data is, without a password', async () => {
  const database = await open()
  expect(database.description).toBe(`PostgreSQL at 127.0.0.1:${url.port}/postgres`)
})

test('keeps the plan of a named statement on its connection, and none of an unnamed one', async () => {
  const database = await open({ max: 1 })
  const named = statement('test.kept', 'SELECT $1::int AS n')
  await database.query(named, [1])
  await database.query(named, [2])
  await database.query(unnamed('SELECT $1::text AS n'), ['x'])
  await database.kysely
    .selectFrom('agent.runs')
    .select('id')
    .execute()
    .catch(() => {})
  const { rows } = await database.query(unnamed('SELECT name FROM pg_prepared_statements'))
  expect(rows).toStrictEqual([{ name: 'test.kept' }])
})

test('a refused statement keeps its connection', async () => {
  const database = await open({ max: 1 })
  const before = await backendOf(database)
  await expect(database.query(unnamed('SELECT 1 / 0'))).rejects.toMatchObject({ code: '22012' })
  await expect(database.transaction((tx) => tx.query(unnamed('SELECT 1 / 0')))).rejects.toMatchObject({ code: '22012' })
  expect(await backendOf(database)).toBe(before)
})

test('a connection that breaks while idle is reported and replaced', async () => {
  const broken = Promise.withResolvers<Error>()
  const database = await open({ max: 1, onError: broken.resolve })
  const before = await backendOf(database)
  const other = await open()
  await other.query(unnamed('SELECT pg_terminate_backend($1)'), [before])
  expect(await broken.promise).toMatchObject({ code: '57P01' })
  expect(await backendOf(database)).not.toBe(before)
})

test('a connection that breaks inside a transaction fails that transaction alone', async () => {
  const database = await open({ max: 1 })
  const other = await open()
  const broken = database.transaction(async (tx) => {
    const { rows } = await tx.query<{ pid: number }>(backend)
    await other.query(unnamed('SELECT pg_terminate_backend($1, 5000)'), [rows[0]?.pid])
    await tx.query(backend)
  })
  await expect(broken).rejects.toThrow(/terminat|closed|not queryable/)
  expect(await backendOf(database)).toBeGreaterThan(0)
})

test('a closed database refuses statements, and closes once', async () => {
  const database = await open()
  await database.close()
  await database.close()
  await expect(database.query(backend)).rejects.toBeInstanceOf(HandleMisused)
})

test('a test database is a copy of its own', async () => {
  const [first, second] = [await testDatabase(), await testDatabase()]
  await first.database.execute('CREATE TABLE public.mine (id int)')
  const another = await first.another()
  expect((await another.query(unnamed('SELECT * FROM public.mine'))).rows).toStrictEqual([])
  await expect(second.database.query(unnamed('SELECT * FROM public.mine'))).rejects.toMatchObject({ code: '42P01' })
  await Promise.all([first.close(), second.close()])
})
