import type { Kysely } from 'kysely'
import type { ScopedSchema } from '../../storage/scoped-db.ts'
import { authored } from '../provenance.ts'
import type { AddOutcome, MemberKind, MembershipChange, RemoveOutcome } from './lists.ts'

type Db = Kysely<ScopedSchema>

/** Membership is a set: the statement that adds takes ids of what is there, and leaves members as they are. */
export async function addMembers(db: Db, change: MembershipChange): Promise<AddOutcome> {
  const ids = distinct(change.memberIds)
  const kind = await kindOf(db, change.listId)
  if (kind === null) return { kind: 'no_list' }
  const there = new Set((await liveIds(db, kind, ids).execute()).map(({ member_id }) => member_id))
  const added = await put(db, { ...change, kind, ids })
  // Nobody new: they are on it already, or the list was deleted meanwhile.
  if (added === 0 && (await kindOf(db, change.listId)) === null) return { kind: 'no_list' }
  return { kind: 'done', added, missing: ids.filter((id) => !there.has(id)) }
}

/** A member that was taken off is put on again by whoever does so now. */
async function put(db: Db, change: MembershipChange & { readonly kind: MemberKind; readonly ids: readonly string[] }) {
  const by = authored(change.provenance)
  const rows = await db
    .insertInto('public.list_members')
    .columns([
      'member_id',
      'list_id',
      'written_by_run',
      'written_by_root_run',
      'written_by_tool',
      'created_by_root_run',
      'trusted',
    ])
    .expression((eb) =>
      liveIds(db, change.kind, change.ids)
        .innerJoin('public.lists as l', (join) => join.on('l.id', '=', change.listId).on('l.deleted_at', 'is', null))
        .select([
          'l.id as list_id',
          eb.cast<string>(eb.val(by.written_by_run), 'uuid').as('written_by_run'),
          eb.cast<string>(eb.val(by.written_by_root_run), 'uuid').as('written_by_root_run'),
          eb.cast<string>(eb.val(by.written_by_tool), 'text').as('written_by_tool'),
          eb.cast<string>(eb.val(by.created_by_root_run), 'uuid').as('created_by_root_run'),
          eb.lit(by.trusted).as('trusted'),
        ])
        // One order for every batch: two that overlap wait for each other and do not deadlock.
        .orderBy('member_id'),
    )
    .onConflict((conflict) =>
      conflict
        .columns(['organization_id', 'list_id', 'member_id'])
        .doUpdateSet((eb) => ({ ...by, deleted_at: null, updated_at: eb.fn<Date>('now') }))
        .where('public.list_members.deleted_at', 'is not', null),
    )
    .returning('member_id')
    .execute()
  return rows.length
}

export async function removeMembers(db: Db, change: MembershipChange): Promise<RemoveOutcome> {
  if ((await kindOf(db, change.listId)) === null) return { kind: 'no_list' }
  const removed = await db
    .updateTable('public.list_members')
    .set((eb) => ({ deleted_at: eb.fn<Date>('now'), updated_at: eb.fn<Date>('now') }))
    .where('list_id', '=', change.listId)
    .where('member_id', 'in', distinct(change.memberIds))
    .where('deleted_at', 'is', null)
    .returning('member_id')
    .execute()
  return { kind: 'done', removed: removed.length }
}

async function kindOf(db: Db, listId: string): Promise<MemberKind | null> {
  const list = await db
    .selectFrom('public.lists')
    .select('kind')
    .where('id', '=', listId)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  return list?.kind ?? null
}

/** The ones of `ids` that name something that is there. */
function liveIds(db: Db, kind: MemberKind, ids: readonly string[]) {
  const table = kind === 'person' ? 'public.people as member' : 'public.companies as member'
  // What is named of either table here, both have.
  const members = db.selectFrom(table as 'public.people as member')
  return members.select('member.id as member_id').where('member.id', 'in', ids).where('member.deleted_at', 'is', null)
}

/** As the database spells them. */
function distinct(ids: readonly string[]): string[] {
  return [...new Set(ids.map((id) => id.toLowerCase()))]
}
