import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { expect, inject, onTestFinished, test } from 'vitest'
import { serverApp } from '../../test/server-app.ts'
import { TEMPLATE } from '../../test/setup/provided.ts'
import type { Database } from '../storage/database.ts'
import { holdOpenRuns, inInstallation } from '../storage/installation-store.ts'
import { pgDatabase } from '../storage/pg/index.ts'
import { unnamed } from '../storage/statement.ts'
import { installationFilePath } from './installation-file.ts'
import { examineRestore, watchForRestore, type RestoreWatch } from './restore-watch.ts'

const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

async function newDataDir(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bailiff-restore-'))
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
  return dataDir
}

async function administer(sql: string): Promise<void> {
  const admin = new Client({ connectionString: `${inject('postgresUrl')}postgres` })
  await admin.connect()
  await admin.query(sql)
  await admin.end()
}

async function copyOf(template: string): Promise<string> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await administer(`CREATE DATABASE ${name} TEMPLATE ${template}`)
  onTestFinished(() => administer(`DROP DATABASE ${name} WITH (FORCE)`))
  return name
}

/** One start and stop of a server on the database. */
async function session<T>(
  name: string,
  work: (database: Database, watch: RestoreWatch) => Promise<T>,
  dataDir?: string,
): Promise<T> {
  const database = await pgDatabase({ connectionString: `${inject('postgresUrl')}${name}` })
  try {
    const folder = dataDir ?? (await newDataDir())
    const watch = await watchForRestore({ database, dataDir: folder, logger })
    return await work(database, watch)
  } finally {
    await database.close()
  }
}

async function withARun(): Promise<string> {
  const name = await copyOf(TEMPLATE)
  await session(name, async (database) => void (await (await serverApp(database)).startRun({ notes: ['a'] })))
  return name
}

test('the same database in the same cluster holds nothing, whichever process opens it, with any data folder', async () => {
  const name = await withARun()
  const dataDir = await newDataDir()
  for (const folder of [dataDir, undefined, dataDir])
    await session(name, async (_, watch) => expect(watch).toMatchObject({ restored: null, held: 0 }), folder)
})

test('a database that is restored beside itself holds every run that had not ended', async () => {
  const restored = await copyOf(await withARun())
  await session(restored, async (_, watch) => {
    expect(watch).toMatchObject({ restored: 'it is another database of the same cluster', held: 1 })
    expect(watch.notices.join()).toContain('RESTORED')
  })
  await session(restored, async (_, watch) => expect(watch).toMatchObject({ restored: null, held: 0 }))
})

test.each([
  [1, 'it stands in another cluster'],
  [2, 'its cluster has gone from timeline 0 to 1'],
])('a database whose cluster is another one by part %i holds its runs', async (part, reason) => {
  const name = await withARun()
  const database = await pgDatabase({ connectionString: `${inject('postgresUrl')}${name}` })
  const { rows } = await database.query<{ identity: string }>(unnamed('SELECT identity FROM agent.installation'))
  const parts = rows[0]?.identity.split(':') ?? []
  expect(parts).toStrictEqual(['pg', expect.stringMatching(/^\d+$/), '1', expect.stringMatching(/^\d+$/)])
  parts[part] = '0'
  await database.query(unnamed('UPDATE agent.installation SET identity = $1'), [parts.join(':')])
  expect(await examineRestore({ database, dataDir: await newDataDir() })).toStrictEqual({ kind: 'restored', reason })
  await database.close()
  await session(name, async (_, watch) => expect(watch).toMatchObject({ restored: reason, held: 1 }))
})

test('a database that knows less than this data folder saw holds its runs', async () => {
  const name = await withARun()
  const dataDir = await newDataDir()
  await session(
    name,
    async (database, watch) => {
      for (let minute = 0; minute < 3; minute += 1) await watch.tick()
      const seen = JSON.parse(await readFile(installationFilePath(dataDir), 'utf8')) as { generation: number }
      await database.query(unnamed('UPDATE agent.installation SET generation = $1'), [seen.generation - 1])
    },
    dataDir,
  )
  await session(name, async (_, watch) => expect(watch.restored).toMatch(/gone back from generation/), dataDir)
})

test('of many processes that start at once on a restored database, one holds', async () => {
  const restored = await copyOf(await withARun())
  const watches = await Promise.all(
    Array.from({ length: 5 }, () => session(restored, (_, watch) => Promise.resolve(watch))),
  )
  expect(watches.filter(({ held }) => held > 0)).toHaveLength(1)
})

test('a role that may not ask the cluster goes by the database alone', async () => {
  const name = await withARun()
  const role = `blind_${randomBytes(6).toString('hex')}`
  const owner = await pgDatabase({ connectionString: `${inject('postgresUrl')}${name}` })
  await owner.execute(`CREATE ROLE ${role} LOGIN PASSWORD 'test' IN ROLE bailiff_member;
    REVOKE EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint() FROM PUBLIC;
    GRANT SELECT, INSERT, UPDATE ON agent.installation TO ${role}`)
  const url = new URL(`${inject('postgresUrl')}${name}`)
  url.username = role
  const blind = await pgDatabase({ connectionString: url.href })
  const watch = await watchForRestore({ database: blind, dataDir: await newDataDir(), logger })
  expect(watch.restored).toBeNull()
  const { rows } = await owner.query(unnamed('SELECT identity FROM agent.installation'))
  expect(rows).toStrictEqual([{ identity: expect.stringMatching(/^pg:\?:\?:\d+$/) }])
  await blind.close()
  await owner.execute(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  await owner.close()
})

test('a hold by hand names its reason and leaves runs that are held or ended alone', async () => {
  const name = await withARun()
  await session(name, async (database) => {
    expect(await inInstallation(database, (tx) => holdOpenRuns(tx, 'by hand'))).toBe(1)
    expect(await inInstallation(database, (tx) => holdOpenRuns(tx, 'again'))).toBe(0)
    const { rows } = await database.query(unnamed('SELECT held_reason FROM agent.runs'))
    expect(rows).toStrictEqual([{ held_reason: 'by hand' }])
  })
})
