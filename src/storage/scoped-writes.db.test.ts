import { type Kysely } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import {
  OURS,
  peopleOf,
  rowId,
  seedTwoOrganizations,
  THEIR_PEOPLE,
  THEIRS,
} from '../../test/setup/two-organizations.ts'
import { ScopeRefused } from './errors.ts'
import { type ScopedSchema, scopedDb } from './scoped-db.ts'

let db: TestDatabase
let scoped: Kysely<ScopedSchema>
beforeAll(async () => {
  db = await testDatabase()
  scoped = scopedDb(db.database, OURS)
})
beforeEach(() => seedTwoOrganizations(db))
afterAll(() => db.close())

interface Executable {
  execute(): Promise<unknown[]>
}

describe('a scoped write touches its organization alone', () => {
  test('an update of everything', async () => {
    const { numUpdatedRows } = await scoped
      .updateTable('public.people')
      .set({ full_name: 'new' })
      .executeTakeFirstOrThrow()
    expect(numUpdatedRows).toBe(3n)
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('an update whose condition holds for others', async () => {
    const updated = await scoped
      .updateTable('public.people as p')
      .set((eb) => ({
        full_name: eb.fn('upper', ['p.full_name']),
        title: eb.selectFrom('agent.spans').select((sub) => sub.fn.max('name').as('m')),
      }))
      .where((eb) =>
        eb.or([
          eb('p.id', '=', rowId(THEIRS, 1)),
          eb('p.id', '=', rowId(OURS, 1)),
          eb('p.organization_id', '=', THEIRS),
        ]),
      )
      .returning(['p.full_name', 'p.title'])
      .execute()
    expect(updated).toStrictEqual([{ full_name: 'OURS 1', title: 'ours 3' }])
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('an update from another table', async () => {
    const updated = await scoped
      .updateTable('public.people')
      .from('agent.spans as s')
      .innerJoin('public.ai_usage_log as u', 'u.item', 's.name')
      .set((eb) => ({ title: eb.ref('s.name') }))
      .whereRef('s.run_id', '=', 's.run_id')
      .returning('title')
      .execute()
    expect(updated).toHaveLength(3)
    expect(JSON.stringify(updated)).not.toContain('theirs')
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('a delete of everything', async () => {
    const { numDeletedRows } = await scoped.deleteFrom('public.people').executeTakeFirstOrThrow()
    expect(numDeletedRows).toBe(3n)
    expect(await peopleOf(db, OURS)).toStrictEqual({})
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('a delete using another table', async () => {
    const gone = await scoped
      .deleteFrom('public.people as p')
      .using('agent.spans as s')
      .whereRef('p.full_name', '=', 's.name')
      .where('s.name', 'in', ['theirs 1', 'ours 2'])
      .returning('p.full_name')
      .execute()
    expect(gone).toStrictEqual([{ full_name: 'ours 2' }])
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('a write in a common table expression', async () => {
    const moved = await scoped
      .with('gone', (cte) => cte.deleteFrom('public.people').returning(['email', 'full_name']))
      .with('touched', (cte) => cte.updateTable('agent.spans').set({ name: 'touched' }).returning('id'))
      .selectFrom('gone')
      .crossJoin('touched')
      .select(['gone.full_name', 'touched.id'])
      .execute()
    expect(moved).toHaveLength(9)
    expect(JSON.stringify(moved)).not.toContain('theirs')
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('inside a transaction it takes part in it', async () => {
    const work = db.database.transaction(async (tx) => {
      await scopedDb(tx, OURS).deleteFrom('public.people').execute()
      expect(await scopedDb(tx, OURS).selectFrom('public.people').selectAll().execute()).toStrictEqual([])
      throw new Error('taken back')
    })
    await expect(work).rejects.toThrow('taken back')
    expect(Object.keys(await peopleOf(db, OURS))).toHaveLength(3)
  })
})

describe('a scoped insert is stamped', () => {
  const row = { id: rowId(OURS, 9), email: 'new@example.com', full_name: 'new' }

  test('when it says nothing about the organization', async () => {
    await scoped.insertInto('public.people').values(row).execute()
    expect(await peopleOf(db, OURS)).toMatchObject({ 'new@example.com': 'new' })
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('when it names its own organization, in some rows or all, beside values and expressions', async () => {
    const inserted = await scoped
      .insertInto('public.people')
      .values((eb) => [
        { ...row, organization_id: OURS },
        {
          ...row,
          id: rowId(OURS, 8),
          email: 'other@example.com',
          full_name: eb.fn<string>('lower', [eb.val('OTHER')]),
        },
      ])
      .returning(['organization_id', 'full_name'])
      .execute()
    expect(inserted).toStrictEqual([
      { organization_id: OURS, full_name: 'new' },
      { organization_id: OURS, full_name: 'other' },
    ])
  })

  test.each<[string, (db: Kysely<ScopedSchema>) => Executable]>([
    ['a value', (db) => db.insertInto('public.people').values({ ...row, organization_id: THEIRS })],
    [
      'a value among others',
      (db) =>
        db.insertInto('public.people').values([
          { ...row, organization_id: OURS },
          { ...row, organization_id: THEIRS },
        ]),
    ],
    [
      'an expression',
      (db) =>
        db
          .insertInto('public.people')
          .values((eb) => ({ ...row, organization_id: eb.cast<string>(eb.val(OURS), 'uuid') })),
    ],
    ['no organization', (db) => db.insertInto('public.people').values({ ...row, organization_id: null as never })],
    [
      'a select',
      (db) =>
        db
          .insertInto('public.people')
          .columns(['id', 'email', 'full_name', 'organization_id'])
          .expression((eb) => eb.selectFrom('public.people').select(['id', 'email', 'full_name', 'organization_id'])),
    ],
  ])('and refuses another organization given as %s', async (_, insert) => {
    await expect(insert(scoped).execute()).rejects.toBeInstanceOf(ScopeRefused)
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('from a select, which sees its own organization', async () => {
    const inserted = await scoped
      .insertInto('public.ai_usage_log')
      .columns(['id', 'root_run_id', 'run_id', 'kind', 'provider', 'item', 'quantity', 'cost_cents'])
      .expression((eb) =>
        eb
          .selectFrom('public.people as p')
          .innerJoin('public.ai_usage_log as u', 'u.item', 'p.full_name')
          .select((sub) => [
            sub.fn<string>('gen_random_uuid', []).as('id'),
            'u.root_run_id',
            'u.run_id',
            'u.kind',
            'u.provider',
            'p.full_name',
            'u.quantity',
            'u.cost_cents',
          ]),
      )
      .returning(['organization_id', 'item'])
      .execute()
    expect(inserted.map(({ item }) => item).sort()).toStrictEqual(['ours 1', 'ours 2', 'ours 3'])
    expect(new Set(inserted.map((usage) => usage.organization_id))).toStrictEqual(new Set([OURS]))
  })

  test('and an upsert never changes the row of another organization that is in the way', async () => {
    const taken = { ...row, id: rowId(THEIRS, 1) }
    const upsert = scoped
      .insertInto('public.people')
      .values(taken)
      .onConflict((oc) => oc.column('id').doUpdateSet({ full_name: 'stolen' }))
    expect(await upsert.returningAll().execute()).toStrictEqual([])
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('and an upsert changes its own row, also under a condition of its own', async () => {
    const upsert = (condition: string) =>
      scoped
        .insertInto('public.people')
        .values({ ...row, id: rowId(OURS, 1) })
        .onConflict((oc) =>
          oc
            .column('id')
            .doUpdateSet((eb) => ({ full_name: eb.ref('excluded.full_name'), organization_id: eb.val(OURS) as never }))
            .where((eb) =>
              eb.or([eb('public.people.company', '=', condition), eb('public.people.title', '=', 'none')]),
            ),
        )
        .returning('full_name')
        .execute()
    expect(await upsert('another')).toStrictEqual([])
    expect(await upsert('c')).toStrictEqual([{ full_name: 'new' }])
  })

  test('and does nothing on a conflict, if asked', async () => {
    const insert = scoped
      .insertInto('public.people')
      .values({ ...row, id: rowId(THEIRS, 1) })
      .onConflict((oc) => oc.doNothing())
    expect((await insert.executeTakeFirstOrThrow()).numInsertedOrUpdatedRows).toBe(0n)
  })
})
