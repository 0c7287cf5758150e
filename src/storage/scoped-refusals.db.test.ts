import { CompiledQuery, type Kysely, sql } from 'kysely'
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
import { HandleMisused, ScopeRefused } from './errors.ts'
import { type ScopedSchema, scopedDb } from './scoped-db.ts'

let db: TestDatabase
let scoped: Kysely<ScopedSchema>
beforeAll(async () => {
  db = await testDatabase()
  scoped = scopedDb(db.database, OURS)
})
beforeEach(() => seedTwoOrganizations(db))
afterAll(() => db.close())

describe('a scoped handle refuses', () => {
  const row = { id: rowId(OURS, 9), email: 'new@example.com', full_name: 'new' }
  const untyped = (db: Kysely<ScopedSchema>): Kysely<Record<string, Record<string, unknown>>> => db as never
  const refusals: Record<string, (db: Kysely<ScopedSchema>) => { execute(): Promise<unknown> }> = {
    'a table it does not know': (db) => untyped(db).selectFrom('agent.users').selectAll(),
    'credentials of the platform': (db) => untyped(db).selectFrom('agent.api_keys').selectAll(),
    'a table of the catalogue': (db) => untyped(db).selectFrom('pg_catalog.pg_authid').selectAll(),
    'a table without its schema': (db) => untyped(db).selectFrom('people').selectAll(),
    'a table without its schema, in a join': (db) =>
      untyped(db).selectFrom('public.people as p').innerJoin('people as q', 'p.id', 'q.id').selectAll(),
    'a table without its schema, in a subselect': (db) =>
      untyped(db)
        .selectFrom('public.people')
        .selectAll()
        .where('id', 'in', untyped(db.withoutPlugins()).selectFrom('people').select('id')),
    'an inherited property as a table': (db) => untyped(db).selectFrom('constructor').selectAll(),
    'a foreign schema by withSchema': (db) => untyped(db).withSchema('agent').selectFrom('api_keys').selectAll(),
    'a common table expression that hides a table': (db) =>
      untyped(db)
        .with('people', (cte) => cte.selectFrom('people').selectAll())
        .selectFrom('people')
        .selectAll(),
    'a common table expression that is named like a table': (db) =>
      untyped(db)
        .with('people', (cte) => cte.selectFrom('public.people').selectAll())
        .selectFrom('people')
        .selectAll(),
    'a common table expression that reads itself without being recursive': (db) =>
      untyped(db)
        .with('pg_authid', (cte) => cte.selectFrom('pg_authid').selectAll())
        .selectFrom('pg_authid')
        .selectAll(),
    'a common table expression used before it is there': (db) =>
      untyped(db)
        .with('one', (cte) => cte.selectFrom('two').selectAll())
        .with('two', (cte) => cte.selectFrom('public.people').selectAll())
        .selectFrom('one')
        .selectAll(),
    'a common table expression of another query': (db) => {
      const inner = untyped(db)
        .with('x', (cte) => cte.selectFrom('public.people').selectAll())
        .selectFrom('x')
        .selectAll()
      return untyped(db).selectFrom(inner.as('a')).innerJoin('x', 'x.id', 'a.id').selectAll()
    },
    'a raw query': (db) => ({ execute: () => sql`select * from public.people`.execute(db) }),
    'a raw query that is all values': (db) => ({ execute: () => sql`${sql.lit(1)}`.execute(db) }),
    'a raw table': (db) => db.selectFrom(sql<{ full_name: string }>`public.people`.as('p')).selectAll(),
    'sql.table': (db) => db.selectFrom(sql.table('public.people').as('p')).selectAll(),
    'a raw join': (db) =>
      db
        .selectFrom('agent.spans as s')
        .innerJoin(sql<{ id: string }>`public.people`.as('p'), 'p.id', 's.id')
        .selectAll(),
    'a raw subselect': (db) =>
      db.selectFrom('public.people').select(sql<string>`(select max(full_name) from public.people)`.as('x')),
    'a raw condition': (db) =>
      db
        .selectFrom('public.people')
        .selectAll()
        .where(sql<boolean>`true) or (true`),
    'raw text around a value': (db) =>
      db
        .selectFrom('public.people')
        .selectAll()
        .where(sql<boolean>`full_name = ${'theirs 1'}`),
    'two nodes side by side': (db) =>
      db.selectFrom('public.people').select(sql<string>`${sql.ref('id')}${sql.ref('email')}`.as('x')),
    'a raw alias': (db) => db.selectFrom('public.people').select((eb) => eb.ref('email').as(sql`x from public.people`)),
    'a raw order': (db) =>
      db
        .selectFrom('public.people')
        .selectAll()
        .orderBy(sql`(select 1)`),
    'a raw limit': (db) =>
      db
        .selectFrom('public.people')
        .selectAll()
        .limit(sql<number>`(select 1)`),
    'a raw end': (db) =>
      db
        .selectFrom('public.people')
        .selectAll()
        .modifyEnd(sql`union select * from public.people`),
    'a raw insert source': (db) =>
      db
        .insertInto('public.people')
        .columns(['id'])
        .expression(sql`select id from public.people`),
    'a raw set': (db) => db.updateTable('public.people').set(sql`organization_id`, THEIRS),
    'a raw common table expression': (db) =>
      db
        .with('x', () => sql<{ id: string }>`(select * from public.people)`)
        .selectFrom('x')
        .selectAll(),
    'a function that reads what it is told': (db) =>
      db.selectFrom('public.people').select((eb) => eb.fn('query_to_xml', [eb.val('select 1')]).as('x')),
    'a function with text in its name': (db) =>
      db.selectFrom('public.people').select((eb) => eb.fn("lower('x') from public.people --", []).as('x')),
    'an aggregate that is none': (db) =>
      db.selectFrom('public.people').select((eb) => eb.fn.agg('pg_sleep', [eb.lit(1)]).as('x')),
    'a function as a table': (db) => db.selectFrom((eb) => eb.fn<{ id: string }>('now', []).as('x')).selectAll(),
    'a cast to a raw type': (db) =>
      db.selectFrom('public.people').select((eb) => eb.cast('email', sql`regclass`).as('x')),
    'moving a row to another organization': (db) =>
      db.updateTable('public.people').set({ organization_id: THEIRS } as never),
    'moving a row by an expression': (db) =>
      untyped(db)
        .updateTable('agent.spans')
        .set((eb) => ({ organization_id: eb.ref('run_id') })),
    'moving a row in an upsert': (db) =>
      db
        .insertInto('public.people')
        .values(row)
        .onConflict((oc) => oc.column('id').doUpdateSet({ organization_id: THEIRS } as never)),
    'an insert without columns': (db) =>
      db.insertInto('public.people').expression((eb) => eb.selectFrom('public.people').selectAll() as never),
    'an insert of default values': (db) => db.insertInto('public.people').defaultValues(),
    'a write to a common table expression': (db) =>
      untyped(db)
        .with('x', (cte) => cte.selectFrom('public.people').selectAll())
        .deleteFrom('x'),
    'a write to a table without its schema': (db) => untyped(db).updateTable('people').set({ full_name: 'x' }),
    'a delete from two tables': (db) => db.deleteFrom(['public.people', 'agent.spans'] as never),
    'an update of two tables': (db) =>
      db.updateTable(['public.people', 'agent.spans'] as never).set({ name: 'x' } as never),
    'a merge': (db) =>
      db.mergeInto('public.people as p').using('agent.spans as s', 'p.id', 's.id').whenMatched().thenDelete(),
    'an explain': (db) => ({ execute: () => db.selectFrom('public.people').selectAll().explain() }),
    'a change of the schema': (db) => db.schema.dropTable('public.people'),
    'the catalogue': (db) => ({ execute: () => db.introspection.getTables() }),
    'compiled SQL': (db) => ({
      execute: () => db.executeQuery(CompiledQuery.raw('select * from public.people')),
    }),
    'a query compiled elsewhere': (db) => ({
      execute: () => db.executeQuery(db.withoutPlugins().selectFrom('public.people').selectAll().compile()),
    }),
    'a query of another handle': (db) => ({
      execute: () => db.executeQuery(scopedDb(elsewhere(), THEIRS).selectFrom('public.people').selectAll().compile()),
    }),
    'leaving the scope': (db) => db.withoutPlugins().selectFrom('public.people').selectAll(),
    'a plugin that rewrites what was scoped': (db) =>
      db
        .withPlugin({ transformQuery: ({ node }) => ({ ...node }), transformResult: async ({ result }) => result })
        .selectFrom('public.people')
        .selectAll(),
  }
  const elsewhere = (): TestDatabase['database'] => db.database

  test.each(Object.entries(refusals))('%s', async (_, refused) => {
    // Some are refused while they are built, most when they run.
    await expect((async () => refused(scoped).execute())()).rejects.toThrow(ScopeRefused)
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
    expect(Object.keys(await peopleOf(db, OURS))).toHaveLength(3)
  })

  test('transactions and streams of its own', async () => {
    await expect(scoped.transaction().execute(async () => {})).rejects.toBeInstanceOf(HandleMisused)
    await expect(scoped.selectFrom('public.people').selectAll().stream().next()).rejects.toBeInstanceOf(HandleMisused)
  })

  test.each(['', 'theirs', OURS.toUpperCase(), `${OURS} `, `${OURS}' or true`])(
    '%j as an organization',
    (organization) => {
      expect(() => scopedDb(db.database, organization)).toThrow(ScopeRefused)
    },
  )

  test('nothing of what is known to be a node of a query, but is not', async () => {
    const forged = { toOperationNode: () => ({ kind: 'SelectionNode', selection: 'public.people' }) }
    const query = scoped.selectFrom('public.people').select(forged as never)
    await expect(query.execute()).rejects.toThrow(ScopeRefused)
  })
})
