import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../../test/setup/database.ts'
import { transactionPooler, type TransactionPooler } from '../../test/setup/transaction-pooler.ts'
import { world } from '../../test/setup/world.ts'
import { probePooler } from '../storage/pg/pooler.ts'
import { DatabasesDiffer, openDatabase, type OpenedDatabase } from './open-database.ts'

const LOGGER = { info: () => undefined, warn: () => undefined, error: () => undefined }

let db: TestDatabase
let other: TestDatabase
let pooler: TransactionPooler
let dataDir: string
const opened: OpenedDatabase[] = []
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'bailiff-open-'))
  ;[db, other] = [await testDatabase(), await testDatabase()]
  pooler = await transactionPooler(urlOf(db))
})
afterEach(async () => {
  for (const { database } of opened.splice(0)) await database.close()
  await pooler.close()
  await Promise.all([db.close(), other.close(), rm(dataDir, { recursive: true })])
})

function urlOf({ url }: TestDatabase): string {
  if (url === null) throw new Error('this test needs a server')
  return url
}

async function open(databaseUrl: string, databaseUrlDirect: string | null): Promise<OpenedDatabase> {
  const database = await openDatabase({ databaseUrl, databaseUrlDirect, dataDir }, LOGGER)
  opened.push(database)
  return database
}

interface EmptyDatabase {
  readonly owner: string
  /** A role that may connect and no more. */
  readonly reader: string
  readonly drop: () => Promise<void>
}

async function emptyDatabase(): Promise<EmptyDatabase> {
  const name = `empty_${randomBytes(8).toString('hex')}`
  await db.database.execute(`CREATE DATABASE ${name} TEMPLATE template0`)
  await db.database.execute(`CREATE ROLE ${name} LOGIN PASSWORD '${name}'`)
  const owner = new URL(urlOf(db))
  owner.pathname = `/${name}`
  const reader = new URL(owner)
  reader.username = name
  reader.password = name
  return {
    owner: owner.href,
    reader: reader.href,
    async drop() {
      await db.database.execute(`DROP DATABASE ${name} WITH (FORCE)`)
      await db.database.execute(`DROP ROLE ${name}`)
    },
  }
}

async function userOf({ database }: OpenedDatabase): Promise<unknown> {
  return (await database.query({ name: '', text: 'SELECT current_user AS name' })).rows[0]
}

describe('what each address is for', () => {
  test('statements take DATABASE_URL; migrations and the queue take DATABASE_URL_DIRECT', async () => {
    const { owner, reader, drop } = await emptyDatabase()
    try {
      // Alone, a role that may not make tables cannot migrate.
      await expect(open(reader, null)).rejects.toThrow(/permission denied/)
      const both = await open(reader, owner)
      expect(both.applied.length).toBeGreaterThan(0)
      expect(both.engine).toStrictEqual({ dialect: 'postgres', connectionString: owner })
      expect(await userOf(both)).toStrictEqual({ name: new URL(reader).username })
      expect((await open(reader, owner)).applied).toStrictEqual([])
    } finally {
      for (const { database } of opened.splice(0)) await database.close()
      await drop()
    }
  })

  test('two addresses of two databases are refused before anything is written through the first', async () => {
    await expect(open(urlOf(other), urlOf(db))).rejects.toThrow(DatabasesDiffer)
  })
})

describe('a transaction pooler', () => {
  test('is told from a direct address, and with it that named statements are lost', async () => {
    expect(await probePooler(urlOf(db))).toStrictEqual({ pooled: false, named: true })
    expect(await probePooler(pooler.url)).toStrictEqual({ pooled: true, named: false })
  })

  test('carries whole runs, with an approval, while the queue goes past it', async () => {
    const through = await open(pooler.url, urlOf(db))
    expect(through.engine).toStrictEqual({ dialect: 'postgres', connectionString: urlOf(db) })
    const w = await world({
      database: through.database,
      script: ({ turns }) =>
        turns.length === 0 ? { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] } : { text: 'sent' },
    })
    const runs = await Promise.all([w.start(), w.start(), w.start(), w.start()])
    await w.engine.settle()
    for (const run of runs) await w.approve(run.id)
    await w.engine.settle()
    for (const run of runs) expect(await w.run(run.id)).toMatchObject({ status: 'completed', output: 'sent' })
    expect(w.effects.sent).toHaveLength(4)
  })
})
