import { cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, inject, onTestFinished, test } from 'vitest'
import { serverApp } from '../../test/server-app.ts'
import { type PgliteDatabase, pgliteDatabase } from '../storage/pglite/index.ts'
import { installationFilePath } from './installation-file.ts'
import { databaseFolder } from './open-database.ts'
import { examineRestore, watchForRestore, type RestoreWatch } from './restore-watch.ts'

async function newDataDir(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'bailiff-restore-'))
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
  return dataDir
}

async function open(dataDir: string): Promise<PgliteDatabase> {
  const image = new Blob([await readFile(inject('pgliteImage'))])
  return pgliteDatabase({ dataDir: databaseFolder(dataDir), image, maintenanceMs: 0 })
}

/** One start and stop of a server on the folder, with what it did to it in between. */
async function session<T>(
  dataDir: string,
  work: (database: PgliteDatabase, watch: RestoreWatch) => Promise<T>,
): Promise<T> {
  const errors: string[] = []
  const database = await open(dataDir)
  const logger = { info: () => undefined, warn: () => undefined, error: (text: string) => void errors.push(text) }
  const watch = await watchForRestore({ database, dataDir, logger })
  expect(errors).toHaveLength(watch.held > 0 ? 1 : 0)
  const answer = await work(database, watch)
  await watch.tick()
  await database.close()
  return answer
}

async function statuses(database: PgliteDatabase): Promise<readonly object[]> {
  return database.kysely.selectFrom('agent.runs').select(['status', 'held_reason']).orderBy('id').execute()
}

test('a database folder that is copied back holds every run that had not ended', async () => {
  const dataDir = await newDataDir()
  await session(dataDir, async (database) => {
    const server = await serverApp(database)
    await server.startRun({ notes: ['parks'] })
    await server.startRun({ notes: [] })
    await server.engine.settle()
    await server.startRun({ notes: ['queued'] })
  })
  const backup = join(dataDir, 'backup')
  await cp(databaseFolder(dataDir), backup, { recursive: true })
  await session(dataDir, async (_database, watch) => {
    expect(watch).toMatchObject({ restored: null, held: 0, notices: [] })
  })

  await rm(databaseFolder(dataDir), { recursive: true })
  await cp(backup, databaseFolder(dataDir), { recursive: true })
  await session(dataDir, async (database, watch) => {
    expect(watch.held).toBe(2)
    expect(watch.notices.join()).toMatch(/^RESTORED: this database came back from a backup \(it has gone back/)
    const held = { held_reason: expect.stringContaining('gone back') }
    expect(await statuses(database)).toStrictEqual([
      { status: 'parked', ...held },
      { status: 'completed', held_reason: null },
      { status: 'queued', ...held },
    ])
  })
  await session(dataDir, async (_database, watch) => {
    expect(watch).toMatchObject({ restored: null, held: 0 })
    expect(watch.notices.join()).toMatch(/^held: 2 runs are held/)
  })
})

test('a database folder that is carried to another data folder holds its runs', async () => {
  const [first, second] = [await newDataDir(), await newDataDir()]
  await session(first, async (database) => void (await (await serverApp(database)).startRun({ notes: ['a'] })))
  await cp(databaseFolder(first), databaseFolder(second), { recursive: true })
  await session(second, async (_database, watch) => {
    expect(watch.restored).toBe('the file that belongs to it is not in the data folder')
    expect(watch.held).toBe(1)
  })
  // Carried with its file, it is the same installation in another place.
  const third = await newDataDir()
  await cp(first, third, { recursive: true })
  await session(third, async (_database, watch) => expect(watch.restored).toBeNull())
})

test('a process that was killed holds nothing, and looking changes nothing', async () => {
  const dataDir = await newDataDir()
  await session(dataDir, async (database) => void (await (await serverApp(database)).startRun({ notes: ['a'] })))
  const file = await readFile(installationFilePath(dataDir), 'utf8')
  const database = await open(dataDir)
  expect(await examineRestore({ database, dataDir })).toStrictEqual({ kind: 'same' })
  expect(await examineRestore({ database, dataDir })).toStrictEqual({ kind: 'same' })
  expect(await readFile(installationFilePath(dataDir), 'utf8')).toBe(file)
  await database.close()
  // As a process leaves it that dies between the two notes.
  const later = await open(dataDir)
  await later.execute('UPDATE agent.installation SET generation = generation + 1')
  await later.close()
  await session(dataDir, async (_database, watch) => expect(watch).toMatchObject({ restored: null, held: 0 }))
})
