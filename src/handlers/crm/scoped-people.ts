import type { Expression, ExpressionBuilder, Kysely, SqlBool } from 'kysely'
import { v7 as uuidv7 } from 'uuid'
import type { ScopedSchema } from '../../storage/scoped-db.ts'
import { authored, type Provenance, reauthored } from '../provenance.ts'
import { searchPatterns } from '../search-words.ts'
import { givenColumns } from './given-columns.ts'
import type { PeopleStore, PersonUpdate, PersonUpdateOutcome, PersonUpsert, PersonUpsertOutcome } from './people.ts'
import { type IdentifiedPerson, matchPerson, type PersonIdentity } from './person-match.ts'

type Db = Kysely<ScopedSchema>
type Scoped = (organizationId: string) => Db

const SEARCHED = ['full_name', 'company', 'title', 'location', 'email', 'linkedin_url'] as const

/** Each round that ends without a write was overtaken by another writer of the same person. */
const ROUNDS = 5

/** People through a handle that can only see the organization it was made for. */
export function scopedPeople(scoped: Scoped): PeopleStore {
  return {
    async search({ organizationId, text, limit }) {
      const patterns = searchPatterns(text)
      if (patterns.length === 0) return []
      return livePeople(scoped(organizationId))
        .where((eb) =>
          eb.and(patterns.map((pattern) => eb.or(SEARCHED.map((column) => eb(`p.${column}`, 'ilike', pattern))))),
        )
        .orderBy('p.full_name')
        .orderBy('p.id')
        .limit(limit)
        .execute()
    },

    async get({ organizationId, id }) {
      const person = await livePeople(scoped(organizationId)).where('p.id', '=', id).executeTakeFirst()
      return person ?? null
    },

    upsert: (person) => upsert(scoped(person.organizationId), person),
    update: (change) => update(scoped(change.organizationId), change),

    async known({ organizationId, emails, exceptRootRun }) {
      if (emails.length === 0) return new Set()
      const wanted = emails.map((email) => email.toLowerCase())
      const rows = await scoped(organizationId)
        .selectFrom('public.people')
        .select((eb) => eb.fn<string>('lower', ['email']).as('email'))
        .where('deleted_at', 'is', null)
        .where((eb) => eb(eb.fn<string>('lower', ['email']), 'in', wanted))
        .where('email_by_root_run', 'is distinct from', exceptRootRun)
        .execute()
      return new Set(rows.map(({ email }) => email))
    },
  }
}

/** The columns that leave, of the rows that are there. */
export function livePeople(db: Db) {
  return db
    .selectFrom('public.people as p')
    .leftJoin('public.companies as c', (join) => join.onRef('c.id', '=', 'p.company_id').on('c.deleted_at', 'is', null))
    .select(['p.id', 'p.full_name as name', 'p.email', 'p.linkedin_url as linkedinUrl', 'p.company'])
    .select(['c.id as companyId', 'p.title', 'p.location', 'p.trusted'])
    .where('p.deleted_at', 'is', null)
}

/**
 * Reads, decides and writes what it decided under the condition that what it read still stands; the unique indexes keep
 * two writers that both found nobody from making two rows.
 */
async function upsert(db: Db, person: PersonUpsert): Promise<PersonUpsertOutcome> {
  if (!(await hasCompany(db, person.companyId))) return { kind: 'no_company' }
  const identity = { email: person.email?.toLowerCase() ?? null, linkedinUrl: person.linkedinUrl ?? null }
  for (let round = 0; round < ROUNDS; round += 1) {
    const match = matchPerson(await sharing(db, identity), identity)
    if (match.kind === 'conflict') return { kind: 'other_person', id: match.person.id }
    const id = match.kind === 'nobody' ? await insert(db, person) : await rewrite(db, match.person, person)
    if (id !== null) return { kind: 'written', id, created: match.kind === 'nobody' }
  }
  throw new Error('the person was changed by somebody else each time it was to be written')
}

function sharing(db: Db, { email, linkedinUrl }: PersonIdentity): Promise<IdentifiedPerson[]> {
  return db
    .selectFrom('public.people')
    .select(['id', 'email', 'linkedin_url as linkedinUrl'])
    .where('deleted_at', 'is', null)
    .where((eb) =>
      eb.or([
        ...(email === null ? [] : [eb(eb.fn<string>('lower', ['email']), '=', email)]),
        ...(linkedinUrl === null ? [] : [eb('linkedin_url', '=', linkedinUrl)]),
      ]),
    )
    .execute()
}

/** Null when somebody else made the row meanwhile. */
async function insert(db: Db, person: PersonUpsert): Promise<string | null> {
  const row = await db
    .insertInto('public.people')
    .values({
      id: uuidv7(),
      email: person.email?.toLowerCase() ?? null,
      linkedin_url: person.linkedinUrl ?? null,
      full_name: person.name,
      company: person.company ?? null,
      company_id: person.companyId ?? null,
      title: person.title ?? null,
      location: person.location ?? null,
      email_by_root_run: person.email === undefined ? null : person.provenance.rootRunId,
      ...authored(person.provenance),
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst()
  return row?.id ?? null
}

/** Null when the row is no longer the one that was found. */
async function rewrite(db: Db, found: IdentifiedPerson, person: PersonUpsert): Promise<string | null> {
  const row = await db
    .updateTable('public.people')
    .set((eb) => changed(eb, person, person.provenance))
    .where('id', '=', found.id)
    .where('deleted_at', 'is', null)
    .where('email', 'is not distinct from', found.email)
    .where('linkedin_url', 'is not distinct from', found.linkedinUrl)
    .returning('id')
    .executeTakeFirst()
  return row?.id ?? null
}

async function update(db: Db, change: PersonUpdate): Promise<PersonUpdateOutcome> {
  const { id, changes, provenance } = change
  if (!(await hasCompany(db, changes.companyId))) return { kind: 'no_company' }
  const row = await db
    .updateTable('public.people')
    .set((eb) => changed(eb, changes, provenance))
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .where((eb) => eb.not(eb.exists(takers(db, change))))
    .returning('id')
    .executeTakeFirst()
  if (row !== undefined) return { kind: 'written' }
  const there = await db
    .selectFrom('public.people')
    .select('id')
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  return { kind: there === undefined ? 'not_found' : 'taken' }
}

/** Other people with an identity that this one is to get. */
function takers(db: Db, { id, changes }: PersonUpdate) {
  const { linkedinUrl } = changes
  const email = changes.email?.toLowerCase()
  return db
    .selectFrom('public.people as other')
    .select('other.id')
    .where('other.id', '!=', id)
    .where('other.deleted_at', 'is', null)
    .where((eb) =>
      eb.or([
        ...(email === undefined ? [] : [eb(eb.fn<string>('lower', ['other.email']), '=', email)]),
        ...(linkedinUrl === undefined ? [] : [eb('other.linkedin_url', '=', linkedinUrl)]),
      ]),
    )
}

async function hasCompany(db: Db, id: string | null | undefined): Promise<boolean> {
  if (id === undefined || id === null) return true
  const company = await db
    .selectFrom('public.companies')
    .select('id')
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  return company !== undefined
}

type People = ExpressionBuilder<ScopedSchema, 'public.people'>

/** Columns to set for what is given, with the provenance that follows from it. */
function changed(eb: People, changes: PersonUpdate['changes'], by: Provenance) {
  const given = givenColumns({
    full_name: changes.name,
    linkedin_url: changes.linkedinUrl,
    company: changes.company,
    company_id: changes.companyId,
    title: changes.title,
    location: changes.location,
  })
  const columns = Object.keys(given) as (keyof typeof given)[]
  const same = columns.map((column) => eb(column, 'is not distinct from', given[column] ?? null))
  const email = changes.email?.toLowerCase()
  const mailbox = email === undefined ? [] : [eb(eb.fn<string>('lower', ['email']), 'is not distinct from', email)]
  const unchanged = eb.and([...same, ...mailbox])
  return {
    ...given,
    ...(email === undefined ? {} : addressed(eb, { email, same: eb.and(mailbox), by })),
    ...reauthored(eb, { table: 'people', unchanged, by }),
  }
}

interface Addressed {
  readonly email: string
  readonly same: Expression<SqlBool>
  readonly by: Provenance
}

/**
 * A run that gives somebody an address has not made the address known: `known` leaves it out for the run's own tree.
 * Another spelling of the same mailbox is the same address.
 */
function addressed(eb: People, { email, same, by }: Addressed) {
  return {
    email: eb.case().when(same).then(eb.ref('email')).else(email).end(),
    email_by_root_run: eb.case().when(same).then(eb.ref('email_by_root_run')).else(by.rootRunId).end(),
  }
}
