import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import type { Queryable } from './database.ts'
import { HandleMisused, isUniqueViolation, sqlState, TransactionAborted } from './errors.ts'
import { statement, unnamed } from './statement.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
  await db.database.execute(
    'CREATE TABLE public.notes (id int PRIMARY KEY, body text); CREATE TABLE public.other (id int)',
  )
})
beforeEach(() => db.database.execute('TRUNCATE public.notes'))
afterAll(() => db.close())

const insert = statement('test.insert', 'INSERT INTO public.notes (id, body) VALUES ($1, $2)')
const selectIds = statement('test.ids', 'SELECT id FROM public.notes ORDER BY id')

async function ids(handle: Queryable = db.database): Promise<number[]> {
  return (await handle.query<{ id: number }>(selectIds)).rows.map(({ id }) => id)
}

describe('statements', () => {
  test('say how many rows they read or wrote', async () => {
    expect((await db.database.query(insert, [1, 'a'])).affected).toBe(1)
    expect((await db.database.query(insert, [2, 'b'])).affected).toBe(1)
    expect((await db.database.query(selectIds)).affected).toBe(2)
    const update = unnamed('UPDATE public.notes SET body = $1 WHERE id > $2')
    expect((await db.database.query(update, ['c', 0])).affected).toBe(2)
    expect((await db.database.query(update, ['c', 9])).affected).toBe(0)
    const chained = unnamed('WITH gone AS (DELETE FROM public.notes RETURNING id) SELECT id FROM gone WHERE id = 1')
    expect(await db.database.query(chained)).toStrictEqual({ rows: [{ id: 1 }], affected: 1 })
  })

  test('a refused one names its SQLSTATE and constraint, and no values', async () => {
    await db.database.query(insert, [1, 'secret'])
    const error: unknown = await db.database.query(insert, [1, 'secret']).catch((error: unknown) => error)
    expect(sqlState(error)).toBe('23505')
    expect(isUniqueViolation(error, 'notes_pkey')).toBe(true)
    expect(isUniqueViolation(error, 'another')).toBe(false)
    expect(isUniqueViolation(new Error('no'))).toBe(false)
    expect(JSON.stringify(error)).not.toContain('secret')
  })

  test('a refused one does not touch those of other callers', async () => {
    const calls = Array.from({ length: 20 }, (_, n) => db.database.query(insert, [n % 10, 'x']))
    const results = await Promise.allSettled(calls)
    expect(results.filter(({ status }) => status === 'rejected')).toHaveLength(10)
    expect(await ids()).toStrictEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  })
})

describe('a script', () => {
  test('takes effect whole or not at all', async () => {
    const script = `INSERT INTO public.notes VALUES (1, 'a'); INSERT INTO public.notes VALUES (1, 'b')`
    await expect(db.database.execute(script)).rejects.toMatchObject({ code: '23505' })
    expect(await ids()).toStrictEqual([])
  })

  test('that fails inside its own BEGIN leaves nothing behind for the next statement', async () => {
    const script = db.database.execute('BEGIN; SELECT 1 / 0; COMMIT')
    const next = ids()
    await expect(script).rejects.toMatchObject({ code: '22012' })
    expect(await next).toStrictEqual([])
    await db.database.query(insert, [1, 'a'])
    expect(await ids()).toStrictEqual([1])
  })
})

describe('a transaction', () => {
  test('commits when its work resolves, and answers what the work answered', async () => {
    expect(await db.database.transaction(async (tx) => (await tx.query(insert, [1, 'a'])).affected)).toBe(1)
    expect(await ids()).toStrictEqual([1])
  })

  test('rolls back when its work rejects', async () => {
    const work = db.database.transaction(async (tx) => {
      await tx.query(insert, [1, 'a'])
      await tx.execute(`INSERT INTO public.notes VALUES (2, 'b'); INSERT INTO public.notes VALUES (3, 'c')`)
      expect(await ids(tx)).toStrictEqual([1, 2, 3])
      throw new Error('changed my mind')
    })
    await expect(work).rejects.toThrow('changed my mind')
    expect(await ids()).toStrictEqual([])
  })

  test('cannot pretend to have committed after one of its statements failed', async () => {
    const work = db.database.transaction(async (tx) => {
      await tx.query(insert, [1, 'a'])
      await tx.query(insert, [1, 'b']).catch(() => {})
    })
    await expect(work).rejects.toBeInstanceOf(TransactionAborted)
    expect(await ids()).toStrictEqual([])
  })

  test('that failed leaves a handle that works', async () => {
    for (let attempt = 0; attempt < 12; attempt += 1) {
      const failing = db.database.transaction((tx) => tx.query(unnamed('SELECT 1 / 0')))
      await expect(failing).rejects.toMatchObject({ code: '22012' })
    }
    expect(await ids()).toStrictEqual([])
  })

  test('runs statements that were sent at once one after the other', async () => {
    await db.database.transaction(async (tx) => {
      await Promise.all([1, 2, 3].map((id) => tx.query(insert, [id, 'x'])))
      await Promise.all([tx.query(insert, [4, 'x']), tx.kysely.selectFrom('agent.runs').selectAll().execute()])
    })
    expect(await ids()).toStrictEqual([1, 2, 3, 4])
  })

  test('refuses statements after its end', async () => {
    const tx = await db.database.transaction(async (tx) => tx)
    await expect(tx.query(selectIds)).rejects.toBeInstanceOf(HandleMisused)
    await expect(tx.execute('SELECT 1')).rejects.toBeInstanceOf(HandleMisused)
    await expect(tx.kysely.selectFrom('agent.runs').selectAll().execute()).rejects.toBeInstanceOf(HandleMisused)
  })

  test('isolates its writes from a second one until it commits', async () => {
    const transfers = Array.from({ length: 8 }, (_, n) =>
      db.database.transaction(async (tx) => {
        await tx.query(insert, [n, 'x'])
        if (n % 2 === 1) throw new Error('odd')
      }),
    )
    await Promise.allSettled(transfers)
    expect(await ids()).toStrictEqual([0, 2, 4, 6])
  })
})

describe('typed queries', () => {
  const user = { id: '0192f0c1-2345-7abc-8def-0123456789ab', email: 'a@example.com', name: 'A' }

  test('take part in the transaction they came from', async () => {
    const work = db.database.transaction(async (tx) => {
      const inserted = await tx.kysely.insertInto('agent.users').values(user).executeTakeFirstOrThrow()
      expect(inserted.numInsertedOrUpdatedRows).toBe(1n)
      expect(await tx.kysely.selectFrom('agent.users as u').select('u.email').execute()).toStrictEqual([
        { email: user.email },
      ])
      throw new Error('changed my mind')
    })
    await expect(work).rejects.toThrow('changed my mind')
    expect(await db.database.kysely.selectFrom('agent.users').selectAll().execute()).toStrictEqual([])
  })

  test('cannot open a transaction behind the handle', async () => {
    const work = db.database.kysely.transaction().execute(async () => {})
    await expect(work).rejects.toBeInstanceOf(HandleMisused)
  })
})
