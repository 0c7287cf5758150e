import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Queryable } from '../src/storage/database.ts'
import { unnamed } from '../src/storage/statement.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { ORGANIZATION } from './setup/provided.ts'
import { world } from './setup/world.ts'

// What the suites that run as a member rely on: statements that are wrong on purpose do not get through this handle.
let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())

const RIVAL = '0192f0c1-0000-7000-8000-0000000000bb'

const addPerson = (handle: Queryable, organizationId: string, name: string) =>
  handle.query(unnamed('INSERT INTO public.people (id, organization_id, email, full_name) VALUES ($1, $2, $3, $3)'), [
    randomUUID(),
    organizationId,
    name,
  ])

const names = async (handle: Queryable): Promise<unknown[]> => {
  const { rows } = await handle.query<{ name: string }>(
    unnamed('SELECT full_name AS name FROM public.people ORDER BY name'),
  )
  return rows.map(({ name }) => name)
}

describe('a statement', () => {
  beforeEach(async () => {
    await empty(db.admin)
    await addPerson(db.admin, ORGANIZATION, 'ours')
    await addPerson(db.admin, RIVAL, 'theirs')
  })

  test('without its organization in the condition reads no other’s rows, which the owner’s does', async () => {
    expect(await names(db.database)).toEqual(['ours'])
    expect(await names(await db.another())).toEqual(['ours'])
    expect(await names(db.admin)).toEqual(['ours', 'theirs'])
  })

  test('that names another organization finds nothing', async () => {
    const { rows } = await db.database.query(unnamed('SELECT id FROM public.people WHERE organization_id = $1'), [
      RIVAL,
    ])
    expect(rows).toEqual([])
  })

  test('that inserts for another organization is refused, and so is one that moves a row there', async () => {
    await expect(addPerson(db.database, RIVAL, 'new')).rejects.toMatchObject({ code: '42501' })
    const move = db.database.query(unnamed('UPDATE public.people SET organization_id = $1'), [RIVAL])
    await expect(move).rejects.toMatchObject({ code: '42501' })
    expect(await names(db.admin)).toEqual(['ours', 'theirs'])
  })

  test('that changes or deletes everything changes and deletes its own', async () => {
    await db.database.execute("UPDATE public.people SET full_name = 'changed'")
    expect(await names(db.admin)).toEqual(['changed', 'theirs'])
    await db.database.execute('DELETE FROM public.people')
    expect(await names(db.admin)).toEqual(['theirs'])
  })

  test('of no organization sees nothing and writes nothing', async () => {
    await db.database.transaction(async (tx) => {
      await tx.execute("SET LOCAL app.organization_id = ''")
      expect(await names(tx)).toEqual([])
    })
    const adding = db.database.transaction(async (tx) => {
      await tx.execute("SET LOCAL app.organization_id = ''")
      await addPerson(tx, ORGANIZATION, 'new')
    })
    await expect(adding).rejects.toMatchObject({ code: '42501' })
  })
})

test('another organization cannot be made through the handle, nor its runs seen', async () => {
  await empty(db.admin)
  const ours = await world({ database: db.database })
  await expect(world({ database: db.database, slug: 'rival' })).rejects.toMatchObject({ code: '42501' })
  const rival = await world({ database: db.admin, slug: 'rival' })
  const [own, theirs] = [await ours.start(), await rival.start()]
  expect(await ours.runtime.runs.get(rival.organizationId, theirs.id)).toBeNull()
  const { rows } = await db.database.query(unnamed('SELECT id FROM agent.runs'))
  expect(rows).toEqual([{ id: own.id }])
})

test('the role has no way around a policy, and every table of an organization forces its own', async () => {
  const { rows } = await db.database.query(
    unnamed(`SELECT rolsuper OR rolbypassrls OR rolcreaterole AS mighty,
        EXISTS (SELECT FROM pg_class WHERE relowner = pg_roles.oid) AS owner,
        pg_has_role('bailiff_member', 'USAGE') AS member
      FROM pg_roles WHERE rolname = current_user`),
  )
  expect(rows).toEqual([{ mighty: false, owner: false, member: true }])
  const { rows: unforced } = await db.database.query(
    unnamed(`SELECT relname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'organization_id'
      WHERE relkind = 'r' AND NOT (relrowsecurity AND relforcerowsecurity)`),
  )
  expect(unforced).toEqual([])
  await expect(db.database.execute('SET ROLE postgres')).rejects.toMatchObject({ code: '42501' })
})
