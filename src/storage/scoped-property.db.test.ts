import * as fc from 'fast-check'
import type { Expression, ExpressionBuilder, Kysely, SelectQueryBuilder, SqlBool } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { alone, OURS, seedTwoOrganizations, sorted, takenBack, THEIRS } from '../../test/setup/two-organizations.ts'
import { type ScopedSchema, scopedDb } from './scoped-db.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
  await seedTwoOrganizations(db)
})
afterAll(() => db.close())

/** Tables of three columns each, so that any two can be joined, united and compared. */
const TABLES = {
  people: { table: 'public.people', label: 'full_name', group: 'company' },
  usage: { table: 'public.ai_usage_log', label: 'item', group: 'provider' },
  spans: { table: 'agent.spans', label: 'name', group: 'kind' },
} as const
type TableKey = keyof typeof TABLES

type Tables = Record<string, Record<string, unknown>>
type Untyped = Kysely<Tables>
type Expressions = ExpressionBuilder<Tables, string>
type Labels = SelectQueryBuilder<Tables, string, { label: unknown }>
type Condition =
  | { kind: 'label'; at: number; operator: '=' | '<' | '>=' }
  | { kind: 'exists' | 'not exists' | 'in' | 'not in'; query: Query }
  | { kind: 'count'; query: Query }
  | { kind: 'and' | 'or'; left: Condition; right: Condition }
  | { kind: 'true' }
interface Query {
  from: TableKey
  join: { kind: 'inner' | 'left' | 'right' | 'full' | 'cross'; table: TableKey; on: 'label' | 'group' } | null
  where: Condition
  united: { kind: 'union' | 'except' | 'intersect'; query: Query } | null
  inside: 'plain' | 'subselect' | 'cte'
}

const tableKey = fc.constantFrom<TableKey>('people', 'usage', 'spans')
const { query } = fc.letrec<{ query: Query; condition: Condition }>((tie) => ({
  condition: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.record({ kind: fc.constant('true' as const) }),
    fc.record({
      kind: fc.constant('label' as const),
      at: fc.integer({ min: 0, max: 5 }),
      operator: fc.constantFrom('=' as const, '<' as const, '>=' as const),
    }),
    fc.record({
      kind: fc.constantFrom('exists' as const, 'not exists' as const, 'in' as const, 'not in' as const),
      query: tie('query'),
    }),
    fc.record({ kind: fc.constant('count' as const), query: tie('query') }),
    fc.record({
      kind: fc.constantFrom('and' as const, 'or' as const),
      left: tie('condition'),
      right: tie('condition'),
    }),
  ),
  query: fc.record({
    from: tableKey,
    join: fc.option(
      fc.record({
        kind: fc.constantFrom('inner' as const, 'left' as const, 'right' as const, 'full' as const, 'cross' as const),
        table: tableKey,
        on: fc.constantFrom('label' as const, 'group' as const),
      }),
    ),
    where: tie('condition'),
    united: fc.option(
      fc.record({
        kind: fc.constantFrom('union' as const, 'except' as const, 'intersect' as const),
        query: tie('query'),
      }),
      { depthSize: 'small', freq: 3 },
    ),
    inside: fc.constantFrom('plain' as const, 'subselect' as const, 'cte' as const),
  }),
}))

const LABELS = ['ours 1', 'ours 2', 'ours 3', 'theirs 1', 'theirs 2', 'theirs 3']

function condition(db: Untyped, given: { on: string; where: Condition }): (eb: Expressions) => Expression<SqlBool> {
  return (eb) => {
    const { on, where } = given
    switch (where.kind) {
      case 'true':
        return eb.lit(true)
      case 'label':
        return eb(on, where.operator, LABELS[where.at])
      case 'exists':
        return eb.exists(build(db, where.query))
      case 'not exists':
        return eb.not(eb.exists(build(db, where.query)))
      case 'in':
      case 'not in':
        return eb(on, where.kind, build(db, where.query))
      case 'count':
        return eb(
          db.selectFrom(build(db, where.query).as('c')).select((sub) => sub.fn.countAll().as('n')),
          '>',
          2,
        )
      case 'and':
      case 'or': {
        const sides = [where.left, where.right].map((side) => condition(db, { on, where: side })(eb))
        return where.kind === 'and' ? eb.and(sides) : eb.or(sides)
      }
      default:
        return where satisfies never
    }
  }
}

/** A query of one column, `label`. */
function build(db: Untyped, of: Query): Labels {
  const { label } = TABLES[of.from]
  let query = joined(db, of)
    .select(`a.${label} as label`)
    .where(condition(db, { on: `a.${label}`, where: of.where })) as Labels
  // Its own WITH may only stand in parentheses there.
  if (of.united !== null)
    query = query[of.united.kind](db.selectFrom(build(db, of.united.query).as('u')).select('u.label'))
  switch (of.inside) {
    case 'plain':
      return query
    case 'subselect':
      return db.selectFrom(query.as('s')).select('s.label') as Labels
    case 'cte':
      return db
        .with(`w_${of.from}`, () => query)
        .selectFrom(`w_${of.from} as w`)
        .select('w.label') as never
    default:
      return of.inside satisfies never
  }
}

function joined(db: Untyped, { from, join }: Query): SelectQueryBuilder<Tables, string, object> {
  const base = db.selectFrom(`${TABLES[from].table} as a`)
  if (join === null) return base
  const other = `${TABLES[join.table].table} as b`
  const [left, right] = [`a.${TABLES[from][join.on]}`, `b.${TABLES[join.table][join.on]}`]
  switch (join.kind) {
    case 'inner':
      return base.innerJoin(other, left, right) as never
    case 'left':
      return base.leftJoin(other, left, right) as never
    case 'right':
      return base.rightJoin(other, left, right) as never
    case 'full':
      return base.fullJoin(other, left, right) as never
    case 'cross':
      return base.crossJoin(other) as never
    default:
      return join.kind satisfies never
  }
}

async function everything(kysely: Untyped, organization: string): Promise<string[]> {
  const rows: unknown[] = []
  for (const { table } of Object.values(TABLES)) {
    rows.push(...(await kysely.selectFrom(table).selectAll().where('organization_id', '=', organization).execute()))
  }
  return sorted(rows)
}

const RUNS = { numRuns: 150 }

test('every scoped read finds what it would find if there were no other organization', async () => {
  const scoped = scopedDb(db.database, OURS) as never as Untyped
  await fc.assert(
    fc.asyncProperty(query, async (given) => {
      const found = await build(scoped, given).execute()
      const expected = await alone(db, (kysely: Kysely<ScopedSchema>) => build(kysely as never, given).execute())
      expect(sorted(found)).toStrictEqual(sorted(expected))
    }),
    RUNS,
  )
})

type Write = 'update' | 'update from' | 'delete' | 'delete using' | 'insert from select'

async function write(kysely: Untyped, { kind, given }: { kind: Write; given: Query }): Promise<unknown[]> {
  const { table, label } = TABLES[given.from]
  const where = condition(kysely, { on: `a.${label}`, where: given.where })
  const other = given.join?.table ?? 'spans'
  const [left, right] = [`a.${label}`, `b.${TABLES[other].label}`]
  const update = kysely.updateTable(`${table} as a`).set({ [label]: 'changed' })
  const remove = kysely.deleteFrom(`${table} as a`)
  switch (kind) {
    case 'update':
      return update.where(where).returning('a.id').execute()
    case 'update from':
      return update
        .from(`${TABLES[other].table} as b`)
        .whereRef(left, '<', right)
        .where(where)
        .returning('a.id')
        .execute()
    case 'delete':
      return remove.where(where).returning('a.id').execute()
    case 'delete using':
      return remove
        .using(`${TABLES[other].table} as b`)
        .whereRef(left, '<', right)
        .where(where)
        .returning('a.id')
        .execute()
    case 'insert from select':
      return kysely
        .insertInto('agent.run_control')
        .columns(['run_id', 'cancel_reason'])
        .expression((eb) =>
          eb
            .selectFrom(build(kysely, given).as('s'))
            .select((sub) => [sub.fn('gen_random_uuid', []).as('id'), 's.label']),
        )
        .returning('cancel_reason')
        .execute()
    default:
      return kind satisfies never
  }
}

test('every scoped write does what it would do if there were no other organization, and nothing to the other', async () => {
  const kind = fc.constantFrom<Write>('update', 'update from', 'delete', 'delete using', 'insert from select')
  await fc.assert(
    fc.asyncProperty(query, kind, async (given, kind) => {
      const before = await everything(db.database.kysely as never, THEIRS)
      const [answer, ours, theirs] = await takenBack(db, async (tx) => {
        const answer = await write(scopedDb(tx, OURS) as never, { kind, given })
        return [
          answer,
          await everything(tx.kysely as never, OURS),
          await everything(tx.kysely as never, THEIRS),
        ] as const
      })
      const [expected, left] = await alone(db, async (kysely) => {
        const untyped = kysely as never as Untyped
        if (kind === 'insert from select')
          return [await build(untyped, given).execute(), await everything(untyped, OURS)] as const
        return [await write(untyped, { kind, given }), await everything(untyped, OURS)] as const
      })
      const text = (rows: readonly unknown[]): string[] => sorted(rows.map((row) => Object.values(row as object)))
      expect(text(answer)).toStrictEqual(text(expected))
      expect(ours).toStrictEqual(left)
      expect(theirs).toStrictEqual(before)
    }),
    RUNS,
  )
})
