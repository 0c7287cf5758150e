import type { ExpressionBuilder, Kysely, OnConflictDatabase, OnConflictTables } from 'kysely'
import { v7 as uuidv7 } from 'uuid'
import type { ScopedSchema } from '../../storage/scoped-db.ts'
import { authored, type Provenance, reauthored } from '../provenance.ts'
import { searchPatterns } from '../search-words.ts'
import type { CompanyStore, CompanyUpdate } from './companies.ts'
import { givenColumns } from './given-columns.ts'

type Db = Kysely<ScopedSchema>
type Scoped = (organizationId: string) => Db

const SEARCHED = ['domain', 'name', 'industry', 'location', 'description'] as const

/** Companies through a handle that can only see the organization it was made for. */
export function scopedCompanies(scoped: Scoped): CompanyStore {
  return {
    async search({ organizationId, text, limit }) {
      const patterns = searchPatterns(text)
      if (patterns.length === 0) return []
      return liveCompanies(scoped(organizationId))
        .where((eb) =>
          eb.and(patterns.map((pattern) => eb.or(SEARCHED.map((column) => eb(`c.${column}`, 'ilike', pattern))))),
        )
        .orderBy('c.name')
        .orderBy('c.id')
        .limit(limit)
        .execute()
    },

    async get({ organizationId, id }) {
      return (await liveCompanies(scoped(organizationId)).where('c.id', '=', id).executeTakeFirst()) ?? null
    },

    async upsert({ organizationId, domain, name, provenance, ...details }) {
      const id = uuidv7()
      const row = await scoped(organizationId)
        .insertInto('public.companies')
        .values({ id, domain, name, ...givenColumns(detailsOf(details)), ...authored(provenance) })
        .onConflict((conflict) =>
          conflict
            .columns(['organization_id', 'domain'])
            .where('deleted_at', 'is', null)
            .doUpdateSet((eb) => changed(eb, { name, ...details }, provenance)),
        )
        .returning('id')
        .executeTakeFirstOrThrow()
      return { id: row.id, created: row.id === id }
    },

    async update({ organizationId, id, changes, provenance }) {
      const row = await scoped(organizationId)
        .updateTable('public.companies')
        .set((eb) => changed(eb, changes, provenance))
        .where('id', '=', id)
        .where('deleted_at', 'is', null)
        .returning('id')
        .executeTakeFirst()
      return row === undefined ? 'not_found' : 'written'
    },
  }
}

/** The columns that leave, of the rows that are there. */
export function liveCompanies(db: Db) {
  return db
    .selectFrom('public.companies as c')
    .select(['c.id', 'c.domain', 'c.name', 'c.industry', 'c.employees', 'c.location', 'c.description', 'c.trusted'])
    .where('c.deleted_at', 'is', null)
}

function detailsOf({ industry, employees, location, description }: CompanyUpdate['changes']) {
  return { industry, employees, location, description }
}

type Conflicting = ExpressionBuilder<
  OnConflictDatabase<ScopedSchema, 'public.companies'>,
  OnConflictTables<'public.companies'>
>
type Companies = ExpressionBuilder<ScopedSchema, 'public.companies'> | Conflicting

/** Columns to set for what is given, with the provenance that follows from it. */
function changed(builder: Companies, changes: CompanyUpdate['changes'], by: Provenance) {
  // Columns are named with their table in both kinds of statement: beside `excluded` a bare name is ambiguous.
  const eb = builder as ExpressionBuilder<ScopedSchema, 'public.companies'>
  const given = givenColumns({ name: changes.name, ...detailsOf(changes) })
  const columns = Object.keys(given) as (keyof typeof given)[]
  const unchanged = eb.and(
    columns.map((column) => eb(`public.companies.${column}`, 'is not distinct from', given[column] ?? null)),
  )
  return { ...given, ...reauthored(eb, { table: 'companies', unchanged, by }) }
}
