import type { Kysely } from 'kysely'
import { v7 as uuidv7 } from 'uuid'
import type { ScopedSchema } from '../../storage/scoped-db.ts'
import { authored } from '../provenance.ts'
import { searchPatterns } from '../search-words.ts'
import type { MemoryStore } from './memories.ts'
import { contentHash, subjectKey } from './memory-identity.ts'

/** Memories through a handle that can only see the organization it was made for. */
export function scopedMemories(scoped: (organizationId: string) => Kysely<ScopedSchema>): MemoryStore {
  return {
    async remember({ organizationId, kind, subject, text, provenance }) {
      const id = uuidv7()
      const row = await scoped(organizationId)
        .insertInto('public.memories')
        .values({
          id,
          kind,
          subject: subjectKey(subject),
          text,
          content_hash: contentHash(kind, text),
          ...authored(provenance),
        })
        .onConflict((conflict) =>
          conflict
            .columns(['organization_id', 'subject', 'content_hash'])
            .where('deleted_at', 'is', null)
            // Changes nothing, so that the statement answers the row that is there: who repeats it has not written it.
            .doUpdateSet({ subject: (eb) => eb.ref('public.memories.subject') }),
        )
        .returning('id')
        .executeTakeFirstOrThrow()
      return { id: row.id, created: row.id === id }
    },

    async search({ organizationId, text, subject, kind, limit }) {
      const patterns = searchPatterns(text ?? '')
      if (text !== null && patterns.length === 0) return []
      return scoped(organizationId)
        .selectFrom('public.memories as m')
        .select(['m.id', 'm.kind', 'm.subject', 'm.text', 'm.created_at as rememberedAt', 'm.trusted'])
        .where('m.deleted_at', 'is', null)
        .where((eb) =>
          eb.and(patterns.map((pattern) => eb.or([eb('m.subject', 'ilike', pattern), eb('m.text', 'ilike', pattern)]))),
        )
        .$if(subject !== null, (query) => query.where('m.subject', '=', subjectKey(subject ?? '')))
        .$if(kind !== null, (query) => query.where('m.kind', '=', kind))
        .orderBy('m.id', 'desc')
        .limit(limit)
        .execute()
    },

    async forget({ organizationId, id }) {
      const row = await scoped(organizationId)
        .updateTable('public.memories')
        .set((eb) => ({ deleted_at: eb.fn<Date>('now'), updated_at: eb.fn<Date>('now') }))
        .where('id', '=', id)
        .where('deleted_at', 'is', null)
        .returning('id')
        .executeTakeFirst()
      return row === undefined ? 'not_found' : 'forgotten'
    },
  }
}
