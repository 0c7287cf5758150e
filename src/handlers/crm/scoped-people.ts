import {
  ColumnNode,
  type Expression,
  type ExpressionBuilder,
  FunctionNode,
  type Kysely,
  OnConflictBuilder,
  type OnConflictDatabase,
  OnConflictNode,
  type OnConflictTables,
  type OperationNode,
  ReferenceNode,
  type SqlBool,
} from 'kysely'
import { v7 as uuidv7 } from 'uuid'
import type { ScopedSchema } from '../../storage/scoped-db.ts'
import type { PeopleStore, PersonUpsert } from './people.ts'

type Scoped = (organizationId: string) => Kysely<ScopedSchema>

const SEARCHED = ['full_name', 'company', 'title', 'email'] as const

/** People through a handle that can only see the organization it was made for. */
export function scopedPeople(scoped: Scoped): PeopleStore {
  return {
    async search({ organizationId, text, limit }) {
      const words = text.split(/\s+/).filter((word) => word !== '')
      if (words.length === 0) return []
      return scoped(organizationId)
        .selectFrom('public.people')
        .select(['id', 'full_name as name', 'email', 'company', 'title', 'trusted'])
        .where('deleted_at', 'is', null)
        .where((eb) =>
          eb.and(words.map((word) => eb.or(SEARCHED.map((column) => eb(column, 'ilike', `%${literally(word)}%`))))),
        )
        .orderBy('full_name')
        .orderBy('id')
        .limit(limit)
        .execute()
    },

    async upsert(person) {
      const id = uuidv7()
      const row = await scoped(person.organizationId)
        .insertInto('public.people')
        .values(rowOf(person, id))
        .onConflict(() => samePerson().where('deleted_at', 'is', null).doUpdateSet(merged))
        .returning('id')
        .executeTakeFirstOrThrow()
      return { id: row.id, created: row.id === id }
    },

    async known({ organizationId, emails, exceptRootRun }) {
      if (emails.length === 0) return new Set()
      const wanted = emails.map((email) => email.toLowerCase())
      const rows = await scoped(organizationId)
        .selectFrom('public.people')
        .select((eb) => eb.fn<string>('lower', ['email']).as('email'))
        .where('deleted_at', 'is', null)
        .where((eb) => eb(eb.fn<string>('lower', ['email']), 'in', wanted))
        .where('created_by_root_run', 'is distinct from', exceptRootRun)
        .execute()
      return new Set(rows.map(({ email }) => email))
    },
  }
}

/** The text itself: `%`, `_` and the escape character mean nothing in a search for them. */
function literally(word: string): string {
  return word.replace(/[\\%_]/g, String.raw`\$&`)
}

/**
 * A run's words are a model's words: they may repeat what a web page or a mail told it, and nobody has looked at them.
 * So a row that a tool writes is never trusted; rows of an import or of a person in the console are.
 */
function rowOf({ email, name, company, title, provenance }: PersonUpsert, id: string) {
  return {
    id,
    email: email.toLowerCase(),
    full_name: name,
    company: company ?? null,
    title: title ?? null,
    written_by_run: provenance.runId,
    written_by_root_run: provenance.rootRunId,
    written_by_tool: provenance.tool,
    created_by_root_run: provenance.rootRunId,
    trusted: false,
  }
}

type People = OnConflictDatabase<ScopedSchema, 'public.people'>
type PeopleTables = OnConflictTables<'public.people'>

/** The unique index is over a column and an expression; the builder takes columns or one expression. */
function samePerson(): OnConflictBuilder<ScopedSchema, 'public.people'> {
  const email: OperationNode = FunctionNode.create('lower', [ReferenceNode.create(ColumnNode.create('email'))])
  const columns = [ColumnNode.create('organization_id'), email as ColumnNode]
  return new OnConflictBuilder({ onConflictNode: OnConflictNode.cloneWith(OnConflictNode.create(), { columns }) })
}

/** Content that is already there keeps its provenance and its trust: who repeats it has not written it. */
function merged(eb: ExpressionBuilder<People, PeopleTables>) {
  const company = eb.fn.coalesce('excluded.company', 'public.people.company')
  const title = eb.fn.coalesce('excluded.title', 'public.people.title')
  const unchanged = eb.and([
    eb('excluded.full_name', '=', eb.ref('public.people.full_name')),
    eb(company, 'is not distinct from', eb.ref('public.people.company')),
    eb(title, 'is not distinct from', eb.ref('public.people.title')),
  ])
  const kept = <T>(old: Expression<T>, given: Expression<T>) => eb.case().when(unchanged).then(old).else(given).end()
  return {
    full_name: eb.ref('excluded.full_name'),
    company,
    title,
    trusted: eb.and([eb.ref('public.people.trusted') as Expression<SqlBool>, unchanged]) as Expression<boolean>,
    written_by_run: kept(eb.ref('public.people.written_by_run'), eb.ref('excluded.written_by_run')),
    written_by_root_run: kept(eb.ref('public.people.written_by_root_run'), eb.ref('excluded.written_by_root_run')),
    written_by_tool: kept(eb.ref('public.people.written_by_tool'), eb.ref('excluded.written_by_tool')),
    updated_at: kept(eb.ref('public.people.updated_at'), eb.fn<Date>('now')),
  }
}
