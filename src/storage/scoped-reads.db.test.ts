import { type Kysely, sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { alone, OURS, seedTwoOrganizations, sorted, THEIRS } from '../../test/setup/two-organizations.ts'
import { type ScopedSchema, scopedDb } from './scoped-db.ts'
import { SCOPED_TABLES } from './scope/tables.ts'
import { unnamed } from './statement.ts'

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

describe('a scoped read sees its organization alone', () => {
  const reads: Record<string, (db: Kysely<ScopedSchema>) => Executable> = {
    'select all': (db) => db.selectFrom('public.people').selectAll(),
    'select all of the table': (db) => db.selectFrom('public.people').selectAll('public.people'),
    'an alias': (db) =>
      db.selectFrom('public.people as p').select('p.full_name').where('p.email', 'like', '%@example.com'),
    'references with the schema': (db) =>
      db
        .selectFrom('public.people')
        .select('public.people.full_name')
        .where('public.people.company', '=', 'c')
        .orderBy('public.people.id', 'desc'),
    'an or that would undo a filter': (db) =>
      db
        .selectFrom('public.people')
        .selectAll()
        .where((eb) => eb.or([eb('company', '=', 'c'), eb.lit(true)])),
    'two wheres': (db) =>
      db.selectFrom('public.people').selectAll().where('company', '=', 'c').where('trusted', '=', true),
    'asking for the other organization': (db) =>
      db
        .selectFrom('public.people')
        .selectAll()
        .where((eb) => eb.or([eb('organization_id', '=', THEIRS), eb('organization_id', '=', OURS)])),
    'several tables': (db) =>
      db
        .selectFrom(['public.people as p', 'agent.spans as s'])
        .whereRef('p.full_name', '=', 's.name')
        .select(['p.full_name', 's.name']),
    'an inner join': (db) =>
      db
        .selectFrom('public.people as p')
        .innerJoin('agent.spans as s', 's.run_id', 's.run_id')
        .select(['p.full_name', 's.name']),
    'a left join': (db) =>
      db
        .selectFrom('public.people as p')
        .leftJoin('agent.spans as s', (join) => join.onTrue())
        .select(['p.full_name', 's.name']),
    'a right join': (db) =>
      db
        .selectFrom('public.people as p')
        .rightJoin('agent.spans as s', (join) => join.on('p.email', '=', 'none'))
        .select(['p.full_name', 's.name']),
    'a full join': (db) =>
      db
        .selectFrom('public.people as p')
        .fullJoin('agent.spans as s', 's.name', 'p.email')
        .select(['p.full_name', 's.name']),
    'a cross join': (db) =>
      db.selectFrom('public.people as p').crossJoin('agent.spans as s').select(['p.full_name', 's.name']),
    'a lateral join': (db) =>
      db
        .selectFrom('public.people as p')
        .leftJoinLateral(
          (eb) => eb.selectFrom('agent.spans').select('name').whereRef('name', '>=', 'p.full_name').as('s'),
          (join) => join.onTrue(),
        )
        .select(['p.full_name', 's.name']),
    'a self join': (db) =>
      db
        .selectFrom('public.people as p')
        .innerJoin('public.people as q', 'p.email', 'q.email')
        .select(['p.full_name', 'q.full_name as other']),
    'a subselect as a table': (db) =>
      db.selectFrom((eb) => eb.selectFrom('public.people').select(['full_name', 'email']).as('p')).selectAll('p'),
    'a scalar subselect': (db) =>
      db.selectFrom('public.people as p').select((eb) =>
        eb
          .selectFrom('agent.spans as s')
          .select((sub) => sub.fn.max('s.name').as('m'))
          .as('m'),
      ),
    'a correlated exists': (db) =>
      db
        .selectFrom('public.people as p')
        .select('p.full_name')
        .where((eb) =>
          eb.exists(eb.selectFrom('agent.spans as s').select('s.id').whereRef('s.name', '=', 'p.full_name')),
        ),
    'in a subselect': (db) =>
      db
        .selectFrom('public.people')
        .select('full_name')
        .where('full_name', 'in', (eb) => eb.selectFrom('agent.spans').select('name')),
    'any of a subselect': (db) =>
      db
        .selectFrom('public.people')
        .select('full_name')
        .where((eb) => eb('full_name', '=', eb.fn.any(eb.selectFrom('agent.spans').select('name')))),
    'a subselect in having and order by': (db) =>
      db
        .selectFrom('public.people as p')
        .select((eb) => ['p.full_name', eb.fn.countAll<number>().as('n')])
        .groupBy('p.full_name')
        .having((eb) =>
          eb(eb.fn.countAll(), '<=', eb.selectFrom('agent.spans').select(eb.fn.countAll<number>().as('n'))),
        )
        .orderBy(
          (eb) => eb.selectFrom('agent.spans as s').select('s.name').whereRef('s.name', '=', 'p.full_name').limit(1),
          'desc',
        ),
    'a common table expression': (db) =>
      db
        .with('mine', (cte) => cte.selectFrom('public.people').selectAll())
        .selectFrom('mine')
        .selectAll(),
    'a common table expression over another': (db) =>
      db
        .with('first', (cte) => cte.selectFrom('public.people').select('full_name'))
        .with('second(name)', (cte) => cte.selectFrom('first').select('full_name as name'))
        .selectFrom('second as s')
        .select('s.name'),
    'a common table expression in a subselect': (db) =>
      db
        .with(
          (name) => name('mine').materialized(),
          (cte) => cte.selectFrom('agent.spans').select('name'),
        )
        .selectFrom('public.people')
        .select('full_name')
        .where('full_name', 'in', (eb) => eb.selectFrom('mine').select('mine.name')),
    'a recursive common table expression': (db) =>
      db
        .withRecursive('chain', (cte) =>
          cte
            .selectFrom('public.people')
            .select(['email', 'full_name'])
            .where('email', '=', '1@example.com')
            .union((eb) =>
              eb
                .selectFrom('chain')
                .innerJoin('public.people as p', (join) => join.onRef('p.email', '>', 'chain.email'))
                .select(['p.email', 'p.full_name']),
            ),
        )
        .selectFrom('chain')
        .selectAll(),
    'a union': (db) =>
      db
        .selectFrom('public.people')
        .select('full_name')
        .union(db.selectFrom('agent.spans').select('name as full_name')),
    'a union in parentheses': (db) =>
      db
        .selectFrom('public.people')
        .select('full_name')
        .unionAll((eb) => eb.parens(eb.selectFrom('agent.spans').select('name as full_name').orderBy('name').limit(9))),
    'an except': (db) =>
      db
        .selectFrom('public.people')
        .select('full_name')
        .except(db.selectFrom('agent.spans').select('name as full_name').where('name', '=', 'none')),
    'distinct on': (db) =>
      db.selectFrom('public.people').distinctOn('email').select(['email', 'full_name']).orderBy('email'),
    'a window': (db) =>
      db.selectFrom('public.people').select((eb) => [
        'full_name',
        eb.fn
          .agg<number>('row_number')
          .over((over) => over.partitionBy('company').orderBy('email'))
          .as('n'),
      ]),
    'an aggregate with a filter': (db) =>
      db.selectFrom('public.people').select((eb) =>
        eb.fn
          .agg<string>('string_agg', ['full_name', sql.lit(',')])
          .filterWhere('trusted', '=', true)
          .as('names'),
      ),
    'rows as json': (db) => db.selectFrom('public.people as p').select((eb) => [eb.fn.toJson('p').as('row')]),
    'rows as a json array': (db) => db.selectFrom('public.people as p').select((eb) => eb.fn.jsonAgg('p').as('all')),
    'case and coalesce': (db) =>
      db
        .selectFrom('public.people')
        .select((eb) =>
          eb.case().when('title', 'is', null).then(eb.fn.coalesce('title', 'full_name')).else('x').end().as('name'),
        ),
    'a json path': (db) =>
      db.selectFrom('agent.spans').select((eb) => [
        'name',
        eb
          .ref('attributes', '->')
          .key('a' as never)
          .as('a'),
      ]),
    'a cast, a collation and nulls last': (db) =>
      db
        .selectFrom('public.people')
        .select((eb) => eb.cast<string>('full_name', 'varchar(99)').as('name'))
        .orderBy('title', (ob) => ob.desc().nullsLast())
        .orderBy('email', (ob) => ob.collate('C')),
    'row locks': (db) => db.selectFrom('public.people as p').select('p.full_name').forUpdate('p').skipLocked(),
    'limit and offset': (db) => db.selectFrom('public.people').select('full_name').orderBy('email').limit(2).offset(1),
    'safe raw words': (db) =>
      db
        .selectFrom('public.people')
        .select('full_name')
        .where('created_at', '<=', sql<Date>`now()`)
        .orderBy(sql.ref('email'), 'desc'),
    'a schema set beforehand': (db) =>
      db
        .withSchema('public')
        .selectFrom('people' as never)
        .selectAll(),
  }

  test.each(Object.entries(reads))('%s', async (_, read) => {
    const rows = await read(scoped).execute()
    const text = JSON.stringify(rows)
    expect(text).toContain('ours')
    expect(text).not.toContain('theirs')
    expect(text).not.toContain(THEIRS)
    // The same rows that the query finds where there is no other organization.
    const expected = await alone(db, (kysely) => read(kysely).execute())
    expect(sorted(rows)).toStrictEqual(sorted(expected))
  })

  test('a count counts its own rows', async () => {
    const { n } = await scoped
      .selectFrom('public.people')
      .select((eb) => eb.fn.countAll<number>().as('n'))
      .executeTakeFirstOrThrow()
    expect(n).toBe(3)
  })

  test('every scoped table can be read', async () => {
    for (const table of SCOPED_TABLES) {
      await expect(scoped.selectFrom(table).selectAll().execute()).resolves.toBeInstanceOf(Array)
    }
  })
})

test('the scoped tables are those that row-level security lets a member reach', async () => {
  const { rows } = await db.database.query<{ name: string }>(
    unnamed(`SELECT DISTINCT table_schema || '.' || table_name AS name FROM information_schema.role_table_grants
             WHERE grantee = 'bailiff_member' AND privilege_type = 'INSERT' ORDER BY name`),
  )
  expect(rows.map(({ name }) => name)).toStrictEqual([...SCOPED_TABLES].sort())
})
