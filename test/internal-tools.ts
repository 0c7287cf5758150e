import { v7 as uuidv7 } from 'uuid'
import { crmTools, scopedCompanies, scopedLists, scopedPeople } from '../src/handlers/crm/index.ts'
import { intelligenceTools } from '../src/handlers/intelligence/index.ts'
import { memoryTools, scopedMemories } from '../src/handlers/memory/index.ts'
import type { Database } from '../src/storage/database.ts'
import { intelligenceStore } from '../src/storage/intelligence-store.ts'
import { scopedDb } from '../src/storage/scoped-db.ts'
import type { ToolDeclaration } from '../src/tools/declarations.ts'

/** Every internal tool there is, over one database. */
export function internalTools(database: Database): ToolDeclaration[] {
  const scoped = (organizationId: string) => scopedDb(database, organizationId)
  return [
    ...crmTools({
      people: scopedPeople(scoped),
      companies: scopedCompanies(scoped),
      lists: scopedLists(scoped),
    }),
    ...memoryTools({ memories: scopedMemories(scoped) }),
    ...intelligenceTools({ store: intelligenceStore(database) }),
  ]
}

/** Ids of one row of every kind, with the person on the list. */
export interface DomainRows {
  readonly person: string
  readonly company: string
  readonly list: string
  readonly memory: string
}

interface DomainSeed {
  readonly organizationId: string
  /** Part of every text of the rows. */
  readonly word: string
  readonly deleted?: boolean
  readonly trusted?: boolean
}

/** One row of every kind, as people and imports leave them: no run wrote any. */
export async function seedDomain({ kysely }: Database, seed: DomainSeed): Promise<DomainRows> {
  const { organizationId, word, deleted = false, trusted = true } = seed
  const rows = { person: uuidv7(), company: uuidv7(), list: uuidv7(), memory: uuidv7() }
  const all = { organization_id: organizationId, deleted_at: deleted ? new Date() : null, trusted }
  const company = { ...all, id: rows.company, domain: `${word}.test`, name: `company ${word}`, description: word }
  await kysely.insertInto('public.companies').values(company).execute()
  const person = { id: rows.person, email: `${word}@acme.test`, full_name: `person ${word}`, company_id: rows.company }
  await kysely
    .insertInto('public.people')
    .values({ ...all, ...person })
    .execute()
  const list = { ...all, id: rows.list, name: `list ${word}`, kind: 'person' as const }
  await kysely.insertInto('public.lists').values(list).execute()
  await kysely
    .insertInto('public.list_members')
    .values({ ...all, list_id: rows.list, member_id: rows.person })
    .execute()
  const memory = { id: rows.memory, kind: 'observation' as const, subject: word, text: `memory ${word}` }
  await kysely
    .insertInto('public.memories')
    .values({ ...all, ...memory, content_hash: Buffer.from(word) })
    .execute()
  return rows
}
