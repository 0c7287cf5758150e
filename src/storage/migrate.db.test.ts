import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { MigrationRefused } from './errors.ts'
import { migrate, pendingMigrations } from './migrate.ts'
import { unnamed } from './statement.ts'

let db: TestDatabase
let directory: URL
beforeEach(async () => {
  db = await testDatabase()
  const folder = await mkdtemp(join(tmpdir(), 'bailiff-migrations-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  directory = pathToFileURL(`${folder}/`)
})
afterEach(() => db.close())

async function startEmpty(): Promise<void> {
  await db.database.execute('DROP SCHEMA agent CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public')
}

async function write(files: Readonly<Record<string, string>>): Promise<void> {
  for (const [file, sql] of Object.entries(files)) await writeFile(new URL(file, directory), sql)
}

const FIRST = 'CREATE TABLE public.first (id int);\nINSERT INTO public.first VALUES (1);\n'
const SECOND = 'ALTER TABLE public.first ADD COLUMN name text;\nCREATE TABLE public.second (id int);\n'

describe('the package’s own migrations', () => {
  test('are all applied to a test database, and again change nothing', async () => {
    expect(await pendingMigrations(db.database)).toStrictEqual([])
    expect(await migrate(db.database)).toStrictEqual({ applied: [] })
  })

  test('apply to an empty database', async () => {
    await startEmpty()
    expect(await pendingMigrations(db.database)).toContain('0001_init')
    const { applied } = await migrate(db.database)
    expect(applied[0]).toBe('0001_init')
    expect(await db.database.kysely.selectFrom('agent.runs').selectAll().execute()).toStrictEqual([])
  })
})

describe('migrations', () => {
  beforeEach(startEmpty)

  test('apply in order, and only what is missing', async () => {
    await write({ '0001_first.sql': FIRST })
    expect(await pendingMigrations(db.database, { directory })).toStrictEqual(['0001_first'])
    expect(await migrate(db.database, { directory })).toStrictEqual({ applied: ['0001_first'] })
    await write({ '0002_second.sql': SECOND })
    expect(await pendingMigrations(db.database, { directory })).toStrictEqual(['0002_second'])
    expect(await migrate(db.database, { directory })).toStrictEqual({ applied: ['0002_second'] })
    expect((await db.database.query(unnamed('SELECT * FROM public.first'))).rows).toStrictEqual([{ id: 1, name: null }])
  })

  test('of many that start at once each file is applied once, and all of them succeed', async () => {
    await write({ '0001_first.sql': FIRST, '0002_second.sql': SECOND })
    const handles = await Promise.all(Array.from({ length: 5 }, () => db.another()))
    const outcomes = await Promise.all(handles.map((handle) => migrate(handle, { directory })))
    expect(outcomes.flatMap(({ applied }) => applied).sort()).toStrictEqual(['0001_first', '0002_second'])
    expect((await db.database.query(unnamed('SELECT id FROM public.first'))).rows).toStrictEqual([{ id: 1 }])
  })

  test('one that fails leaves nothing of itself, and what came before', async () => {
    await write({ '0001_first.sql': FIRST, '0002_second.sql': 'CREATE TABLE public.half (id int); SELECT 1 / 0;' })
    await expect(migrate(db.database, { directory })).rejects.toMatchObject({ code: '22012' })
    expect(await pendingMigrations(db.database, { directory })).toStrictEqual(['0002_second'])
    await write({ '0002_second.sql': SECOND })
    expect(await migrate(db.database, { directory })).toStrictEqual({ applied: ['0002_second'] })
  })

  test('a file that changed after it was applied is refused, before anything else happens', async () => {
    await write({ '0001_first.sql': FIRST })
    await migrate(db.database, { directory })
    await write({ '0001_first.sql': `${FIRST}-- afterthought\n`, '0002_second.sql': SECOND })
    await expect(migrate(db.database, { directory })).rejects.toThrow(MigrationRefused)
    await expect(migrate(db.database, { directory })).rejects.toThrow(/0001_first is not the file/)
    await expect(pendingMigrations(db.database, { directory })).rejects.toMatchObject({ reason: 'changed' })
    expect((await db.database.query(unnamed(`SELECT to_regclass('public.second') AS t`))).rows).toStrictEqual([
      { t: null },
    ])
  })

  test('line ends are no change', async () => {
    await write({ '0001_first.sql': FIRST })
    await migrate(db.database, { directory })
    await write({ '0001_first.sql': FIRST.replaceAll('\n', '\r\n') })
    expect(await migrate(db.database, { directory })).toStrictEqual({ applied: [] })
  })

  test('a database that is newer than the code is refused', async () => {
    await write({ '0001_first.sql': FIRST, '0002_second.sql': SECOND })
    await migrate(db.database, { directory })
    await rm(new URL('0002_second.sql', directory))
    await expect(migrate(db.database, { directory })).rejects.toMatchObject({ reason: 'newer_database' })
    await expect(migrate(db.database, { directory })).rejects.toThrow(/0002_second/)
  })

  test('a file that was slipped in before an applied one is refused', async () => {
    await write({ '0001_first.sql': FIRST, '0002_second.sql': SECOND })
    await migrate(db.database, { directory })
    await db.database.execute(`DELETE FROM public.agent_migrations WHERE name = '0001_first'`)
    await expect(migrate(db.database, { directory })).rejects.toMatchObject({ reason: 'out_of_order' })
  })

  test.each([['1_first.sql'], ['0001_First.sql'], ['0002_second.sql']])(
    'a file named %s alone is refused',
    async (file) => {
      await write({ [file]: FIRST })
      await expect(migrate(db.database, { directory })).rejects.toMatchObject({ reason: 'bad_name' })
    },
  )
})
