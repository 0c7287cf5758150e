import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { DataFolderInUse, HandleMisused } from '../errors.ts'
import { unnamed } from '../statement.ts'
import { type PgliteDatabase, pgliteDatabase } from './driver.ts'

const one = unnamed('SELECT 1 AS n')
let image: Blob
let database: PgliteDatabase
beforeAll(async () => {
  image = new Blob([await readFile(inject('pgliteImage'))])
  database = await pgliteDatabase({ image, maintenanceMs: 0 })
  await database.execute('CREATE TABLE notes (id int PRIMARY KEY)')
})
afterEach(() => database.execute('TRUNCATE notes'))
afterAll(() => database.close())

async function newFolder(): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), 'bailiff-test-'))
  onTestFinished(() => rm(parent, { recursive: true, force: true }))
  return join(parent, 'data', 'db')
}

describe('the root handle inside its own transaction', () => {
  test('throws instead of waiting for itself', async () => {
    await database.transaction(async (tx) => {
      const uses = [
        () => database.query(one),
        () => database.execute('SELECT 1'),
        () => database.transaction(async () => {}),
        () => database.kysely.selectFrom('agent.runs').selectAll().execute(),
        () => database.raw.query('SELECT 1'),
        () => database.raw.exec('SELECT 1'),
        () => database.image(),
        () => database.close(),
      ]
      for (const use of uses) await expect(use()).rejects.toBeInstanceOf(HandleMisused)
      expect((await tx.query(one)).rows).toStrictEqual([{ n: 1 }])
    })
  })

  test('works again in what a transaction started and left behind', async () => {
    let goOn = (): void => {}
    const afterwards = await database.transaction(async () => {
      const ended = new Promise<void>((resolve) => (goOn = resolve))
      return { later: ended.then(() => database.query(one)) }
    })
    goOn()
    expect((await afterwards.later).rows).toStrictEqual([{ n: 1 }])
  })

  test('waits its turn when another call chain is in a transaction', async () => {
    let inside = (): void => {}
    const started = new Promise<void>((resolve) => (inside = resolve))
    let finish = (): void => {}
    const held = new Promise<void>((resolve) => (finish = resolve))
    const transaction = database.transaction(async (tx) => {
      inside()
      await held
      await tx.query(unnamed('INSERT INTO notes VALUES (1)'))
    })
    await started
    const count = database.query(unnamed('SELECT count(*) AS n FROM notes'))
    finish()
    await transaction
    expect((await count).rows).toStrictEqual([{ n: 1 }])
  })
})

describe('the event loop', () => {
  /** Runs queries until a timer is heard. Without a yield after each it never is: queries settle as microtasks. */
  async function timerIsHeard(query: () => Promise<unknown>): Promise<boolean> {
    const timer = { fired: false }
    setTimeout(() => (timer.fired = true), 0)
    for (let n = 0; n < 100_000 && !timer.fired; n += 1) await query()
    return timer.fired
  }

  test('is served between queries', async () => {
    expect(await timerIsHeard(() => database.query(one))).toBe(true)
  })

  test('is served between the statements of a transaction and of other libraries', async () => {
    await database.transaction(async (tx) => {
      expect(await timerIsHeard(() => tx.query(one))).toBe(true)
    })
    expect(await timerIsHeard(() => database.raw.query('SELECT 1'))).toBe(true)
  })
})

describe('the raw handle', () => {
  test('answers each statement of a script', async () => {
    const results = await database.raw.exec('INSERT INTO notes VALUES (1), (2); SELECT id FROM notes ORDER BY id')
    expect(results.map(({ rows }) => rows)).toStrictEqual([[], [{ id: 1 }, { id: 2 }]])
    expect((await database.raw.query('SELECT id FROM notes WHERE id = $1', [2])).rows).toStrictEqual([{ id: 2 }])
  })

  test('a script that fails in its own transaction poisons no statement behind it', async () => {
    const script = database.raw.exec('BEGIN; INSERT INTO notes VALUES (1); SELECT 1 / 0; COMMIT')
    const next = database.query(unnamed('SELECT count(*) AS n FROM notes'))
    await expect(script).rejects.toMatchObject({ code: '22012' })
    expect((await next).rows).toStrictEqual([{ n: 0 }])
  })

  test('hears notifications until it stops listening', async () => {
    const heard: string[] = []
    const stop = await database.raw.listen('news', (payload) => heard.push(payload))
    await database.query(unnamed(`SELECT pg_notify('news', 'first')`))
    await stop()
    await database.query(unnamed(`SELECT pg_notify('news', 'second')`))
    expect(heard).toStrictEqual(['first'])
  })
})

describe('a data folder', () => {
  test('keeps its data, and starts from the image only when it is new', async () => {
    const dataDir = await newFolder()
    const first = await pgliteDatabase({ dataDir, image, maintenanceMs: 0 })
    await first.execute('CREATE TABLE kept (id int); INSERT INTO kept VALUES (7)')
    await first.close()
    const second = await pgliteDatabase({ dataDir, image, maintenanceMs: 0 })
    expect((await second.query(unnamed('SELECT id FROM kept'))).rows).toStrictEqual([{ id: 7 }])
    expect((await second.query(unnamed('SELECT count(*) AS n FROM agent.runs'))).rows).toStrictEqual([{ n: 0 }])
    await second.close()
  })

  test('has one owner, also when it is reached through another path', async () => {
    const dataDir = await newFolder()
    const owner = await pgliteDatabase({ dataDir, image, maintenanceMs: 0 })
    const error: unknown = await pgliteDatabase({ dataDir: `${dataDir}/../db` }).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(DataFolderInUse)
    expect(error).toMatchObject({ pid: process.pid, message: expect.stringContaining(String(process.pid)) })
    await owner.close()
  })

  test('is free again when opening it failed', async () => {
    const dataDir = await newFolder()
    await expect(pgliteDatabase({ dataDir, image: new Blob(['not a tar']) })).rejects.toThrow(/./)
    await rm(dataDir, { recursive: true, force: true })
    await (await pgliteDatabase({ dataDir, image, maintenanceMs: 0 })).close()
  })
})

describe('maintenance', () => {
  test('removes dead rows, which nothing else does', async () => {
    await database.execute(
      'CREATE TABLE churn (id int); INSERT INTO churn SELECT generate_series(1, 1000); DELETE FROM churn',
    )
    const pages = unnamed(`SELECT pg_relation_size('churn') AS bytes`)
    expect((await database.query<{ bytes: number }>(pages)).rows[0]?.bytes).toBeGreaterThan(0)
    await database.maintain()
    expect((await database.query<{ bytes: number }>(pages)).rows[0]?.bytes).toBe(0)
  })

  test('ticks by itself and reports what failed', async () => {
    const { promise, resolve } = Promise.withResolvers<unknown>()
    const ticking = await pgliteDatabase({ image, maintenanceMs: 1, onError: resolve })
    // VACUUM cannot run in a transaction block that somebody left open on the only session.
    await ticking.raw.query('BEGIN')
    expect(await promise).toMatchObject({ code: '25001' })
    await ticking.close()
  })

  test('is over once the database is closed', async () => {
    const closing = await pgliteDatabase({ image, maintenanceMs: 0 })
    await closing.close()
    await closing.close()
    await expect(closing.query(one)).rejects.toBeInstanceOf(HandleMisused)
    await closing.maintain()
  })
})
