import type { Kysely } from 'kysely'
import { v7 as uuidv7 } from 'uuid'
import type { ScopedSchema } from '../../storage/scoped-db.ts'
import { authored } from '../provenance.ts'
import { searchPatterns } from '../search-words.ts'
import type { ListContent, ListCreation, ListCreationOutcome, ListPage, ListStore, MemberKind } from './lists.ts'
import { addMembers, removeMembers } from './scoped-list-members.ts'
import { liveCompanies } from './scoped-companies.ts'
import { livePeople } from './scoped-people.ts'

type Db = Kysely<ScopedSchema>
type Scoped = (organizationId: string) => Db

/** A round ends without an answer when the list was deleted between two statements. */
const ROUNDS = 5

/** Lists through a handle that can only see the organization it was made for. */
export function scopedLists(scoped: Scoped): ListStore {
  return {
    async search({ organizationId, text, limit }) {
      const patterns = searchPatterns(text ?? '')
      if (text !== null && patterns.length === 0) return []
      return liveLists(scoped(organizationId))
        .where((eb) =>
          eb.and(
            patterns.map((pattern) => eb.or([eb('l.name', 'ilike', pattern), eb('l.description', 'ilike', pattern)])),
          ),
        )
        .orderBy('l.name')
        .orderBy('l.id')
        .limit(limit)
        .execute()
    },

    create: (list) => create(scoped(list.organizationId), list),
    get: (page) => contentOf(scoped(page.organizationId), page),
    add: (change) => addMembers(scoped(change.organizationId), change),
    remove: (change) => removeMembers(scoped(change.organizationId), change),
  }
}

function liveLists(db: Db) {
  return db
    .selectFrom('public.lists as l')
    .select(['l.id', 'l.name', 'l.kind', 'l.description', 'l.trusted'])
    .where('l.deleted_at', 'is', null)
}

/** The unique index keeps two writers that both found no list from making two. */
async function create(db: Db, list: ListCreation): Promise<ListCreationOutcome> {
  const { name, kind, description = null, provenance } = list
  for (let round = 0; round < ROUNDS; round += 1) {
    const there = await liveLists(db)
      .where((eb) => eb(eb.fn<string>('lower', ['l.name']), '=', eb.fn<string>('lower', [eb.val(name)])))
      .executeTakeFirst()
    if (there !== undefined)
      return there.kind === kind
        ? { kind: 'there', id: there.id, created: false }
        : { kind: 'other_kind', id: there.id }
    const made = await db
      .insertInto('public.lists')
      .values({ id: uuidv7(), name, kind, description, ...authored(provenance) })
      .onConflict((conflict) => conflict.doNothing())
      .returning('id')
      .executeTakeFirst()
    if (made !== undefined) return { kind: 'there', id: made.id, created: true }
  }
  throw new Error('the list was made and deleted by somebody else each time it was to be made')
}

async function contentOf(db: Db, page: ListPage): Promise<ListContent | null> {
  const list = await liveLists(db).where('l.id', '=', page.id).executeTakeFirst()
  if (list === undefined) return null
  const size = await sizeOf(db, list)
  if (list.kind === 'person') {
    const { items, next } = pageOf(await peopleOn(db, page), page.limit)
    return { ...list, size, people: items, companies: [], next }
  }
  const { items, next } = pageOf(await companiesOn(db, page), page.limit)
  return { ...list, size, people: [], companies: items, next }
}

async function sizeOf(db: Db, { id, kind }: { readonly id: string; readonly kind: MemberKind }): Promise<number> {
  const members = db
    .selectFrom('public.list_members as m')
    .select((eb) => eb.fn.countAll<number>().as('size'))
    .where('m.list_id', '=', id)
    .where('m.deleted_at', 'is', null)
  const counted =
    kind === 'person'
      ? members.innerJoin('public.people as p', 'p.id', 'm.member_id').where('p.deleted_at', 'is', null)
      : members.innerJoin('public.companies as c', 'c.id', 'm.member_id').where('c.deleted_at', 'is', null)
  return (await counted.executeTakeFirstOrThrow()).size
}

/** One more than the page holds, to tell whether it is the last. */
function peopleOn(db: Db, { id, after, limit }: ListPage) {
  return livePeople(db)
    .innerJoin('public.list_members as m', 'm.member_id', 'p.id')
    .select('m.trusted as placedTrusted')
    .where('m.list_id', '=', id)
    .where('m.deleted_at', 'is', null)
    .$if(after !== null, (query) => query.where('p.id', '>', after))
    .orderBy('p.id')
    .limit(limit + 1)
    .execute()
}

function companiesOn(db: Db, { id, after, limit }: ListPage) {
  return liveCompanies(db)
    .innerJoin('public.list_members as m', 'm.member_id', 'c.id')
    .select('m.trusted as placedTrusted')
    .where('m.list_id', '=', id)
    .where('m.deleted_at', 'is', null)
    .$if(after !== null, (query) => query.where('c.id', '>', after))
    .orderBy('c.id')
    .limit(limit + 1)
    .execute()
}

interface Placed {
  readonly id: string
  readonly trusted: boolean
  readonly placedTrusted: boolean
}

function pageOf<Row extends Placed>(rows: readonly Row[], limit: number) {
  const items = rows
    .slice(0, limit)
    .map(({ placedTrusted, ...row }) => ({ ...row, trusted: row.trusted && placedTrusted }))
  return { items, next: rows.length > limit ? (items.at(-1)?.id ?? null) : null }
}
