import { v7 as uuidv7 } from 'uuid'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { scopedDb } from '../../storage/scoped-db.ts'
import type { Provenance } from '../provenance.ts'
import type { PeopleStore, PersonUpdate, PersonUpsert } from './people.ts'
import { scopedPeople } from './scoped-people.ts'

let db: TestDatabase
let people: PeopleStore
beforeAll(async () => {
  db = await testDatabase()
  people = scopedPeople((organizationId) => scopedDb(db.database, organizationId))
})
afterAll(() => db.close())

const EMAIL = 'jo@acme.test'
const PROFILE = 'https://www.linkedin.com/in/jo-weber'

const provenance = (rootRunId = uuidv7()) => ({ runId: uuidv7(), rootRunId, tool: 'crm.upsert_person' })

const upsert = (organizationId: string, part: Partial<PersonUpsert>) =>
  people.upsert({ name: 'Jo Weber', provenance: provenance(), ...part, organizationId })

interface Target {
  readonly organizationId: string
  readonly id: string
  readonly by?: Provenance
}

const update = ({ organizationId, id, by = provenance() }: Target, changes: PersonUpdate['changes']) =>
  people.update({ organizationId, id, changes, provenance: by })

async function written(organizationId: string, part: Partial<PersonUpsert>): Promise<string> {
  const outcome = await upsert(organizationId, part)
  if (outcome.kind !== 'written') throw new Error(`the upsert was ${outcome.kind}`)
  return outcome.id
}

/** As an import or a person leaves a row: no run wrote it. */
async function imported(organizationId: string, part: { email?: string; linkedin_url?: string; company_id?: string }) {
  const id = uuidv7()
  const row = { id, organization_id: organizationId, full_name: 'Jo Weber', ...part }
  await db.database.kysely.insertInto('public.people').values(row).execute()
  return id
}

async function company(organizationId: string, deleted_at: Date | null = null): Promise<string> {
  const id = uuidv7()
  const row = { id, organization_id: organizationId, domain: `${id}.test`, name: 'Acme', deleted_at }
  await db.database.kysely.insertInto('public.companies').values(row).execute()
  return id
}

const rows = (organizationId: string) =>
  db.database.kysely
    .selectFrom('public.people')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('id')
    .execute()

async function knows(organizationId: string, email: string, exceptRootRun: string): Promise<boolean> {
  return (await people.known({ organizationId, emails: [email], exceptRootRun })).has(email)
}

describe('a person without an address', () => {
  test('is one row for one profile', async () => {
    const organizationId = uuidv7()
    const id = await written(organizationId, { linkedinUrl: PROFILE })
    expect(await upsert(organizationId, { linkedinUrl: PROFILE, title: 'Buyer' })).toEqual({
      kind: 'written',
      id,
      created: false,
    })
    expect(await rows(organizationId)).toMatchObject([{ email: null, linkedin_url: PROFILE, title: 'Buyer' }])
  })

  test('becomes the one with the address that is found for the profile', async () => {
    const organizationId = uuidv7()
    const id = await written(organizationId, { linkedinUrl: PROFILE })
    expect(await written(organizationId, { linkedinUrl: PROFILE, email: EMAIL })).toBe(id)
    expect(await written(organizationId, { email: 'JO@acme.test' })).toBe(id)
    expect(await rows(organizationId)).toMatchObject([{ email: EMAIL, linkedin_url: PROFILE }])
  })

  test('cannot be one without a profile either', async () => {
    await expect(imported(uuidv7(), {})).rejects.toMatchObject({ constraint: 'people_identified' })
  })
})

describe('two people', () => {
  test('are not made one by an upsert that names the address of one and the profile of the other', async () => {
    const organizationId = uuidv7()
    await written(organizationId, { email: EMAIL })
    const candidate = await written(organizationId, { linkedinUrl: PROFILE })
    const before = await rows(organizationId)
    expect(await upsert(organizationId, { email: EMAIL, linkedinUrl: PROFILE })).toEqual({
      kind: 'other_person',
      id: candidate,
    })
    expect(await upsert(organizationId, { email: 'sam@acme.test', linkedinUrl: PROFILE })).toMatchObject({
      kind: 'written',
      id: candidate,
    })
    expect(await upsert(organizationId, { email: 'mia@acme.test', linkedinUrl: PROFILE })).toEqual({
      kind: 'other_person',
      id: candidate,
    })
    expect((await rows(organizationId))[0]).toEqual(before[0])
  })

  test('do not come to share an address or a profile by an update', async () => {
    const organizationId = uuidv7()
    const jo = await written(organizationId, { email: EMAIL, linkedinUrl: PROFILE })
    const sam = await written(organizationId, { email: 'sam@acme.test' })
    const before = await rows(organizationId)
    expect(await update({ organizationId, id: sam }, { email: 'Jo@ACME.test' })).toEqual({ kind: 'taken' })
    expect(await update({ organizationId, id: sam }, { linkedinUrl: PROFILE, title: 'Buyer' })).toEqual({
      kind: 'taken',
    })
    expect(await rows(organizationId)).toEqual(before)
    expect(await update({ organizationId, id: jo }, { email: EMAIL, linkedinUrl: PROFILE })).toEqual({
      kind: 'written',
    })
    expect(await rows(organizationId)).toEqual(before)
  })
})

describe('any number of runs at once make one row', () => {
  test.each([
    ['with an address', [{ email: EMAIL }]],
    ['with a profile', [{ linkedinUrl: PROFILE }]],
    ['with both', [{ email: EMAIL, linkedinUrl: PROFILE }]],
    ['with an address, some with a profile too', [{ email: EMAIL }, { email: 'JO@acme.test', linkedinUrl: PROFILE }]],
    ['with a profile, some with an address too', [{ linkedinUrl: PROFILE }, { email: EMAIL, linkedinUrl: PROFILE }]],
  ] as const)('%s', async (_how, parts) => {
    const organizationId = uuidv7()
    // The people of a mixed race are told to be one by the row that is there first.
    if (parts.length > 1) await written(organizationId, parts[0])
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, (_, at) => upsert(organizationId, parts[at % parts.length] ?? {})),
    )
    expect(outcomes.map(({ kind }) => kind)).toEqual(Array.from({ length: 8 }, () => 'written'))
    expect(await rows(organizationId)).toHaveLength(1)
    const created = outcomes.filter((outcome) => outcome.kind === 'written' && outcome.created)
    expect(created).toHaveLength(parts.length > 1 ? 0 : 1)
  })

  test('and each identity stays one row, whatever is written in which order', async () => {
    const email = fc.constantFrom('a@x.test', 'A@X.test', 'b@x.test', undefined)
    const linkedinUrl = fc
      .constantFrom('a', 'b', undefined)
      .map((name) => name && `https://www.linkedin.com/in/${name}`)
    const part = fc.record({ email, linkedinUrl }).filter((one) => (one.email ?? one.linkedinUrl) !== undefined)
    await fc.assert(
      fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 6 }), async (parts) => {
        const organizationId = uuidv7()
        for (const one of parts) {
          const outcome = await upsert(organizationId, one)
          const { email } = one
          if (outcome.kind !== 'written') continue
          const row = (await rows(organizationId)).find(({ id }) => id === outcome.id)
          if (email !== undefined) expect(row?.email).toBe(email.toLowerCase())
          if (one.linkedinUrl !== undefined) expect(row?.linkedin_url).toBe(one.linkedinUrl)
        }
        const found = await rows(organizationId)
        for (const key of ['email', 'linkedin_url'] as const) {
          const values = found.map((row) => row[key]).filter((value) => value !== null)
          expect(new Set(values).size).toBe(values.length)
        }
      }),
      { numRuns: 40 },
    )
  })
})

test('a person who got another address after being looked up is not turned into somebody else', async () => {
  const organizationId = uuidv7()
  const id = await written(organizationId, { linkedinUrl: PROFILE })
  let looked = false
  const overtaken = scopedPeople((organization) =>
    scopedDb(
      {
        ...db.database,
        query: async (statement, values) => {
          const result = await db.database.query(statement, values)
          if (!looked) {
            looked = true
            await written(organizationId, { email: EMAIL, linkedinUrl: PROFILE })
          }
          return result as never
        },
      },
      organization,
    ),
  )
  const sam = { organizationId, name: 'Sam', email: 'sam@acme.test', linkedinUrl: PROFILE, provenance: provenance() }
  expect(await overtaken.upsert(sam)).toEqual({ kind: 'other_person', id })
  expect(await rows(organizationId)).toMatchObject([{ email: EMAIL, full_name: 'Jo Weber' }])
})

describe('an address that a run gives somebody', () => {
  test('is not known to the run’s own tree, however the row came to be, and is known to every other', async () => {
    const organizationId = uuidv7()
    const root = uuidv7()
    const candidate = await imported(organizationId, { linkedin_url: PROFILE })
    await upsert(organizationId, { email: EMAIL, linkedinUrl: PROFILE, provenance: provenance(root) })
    expect(await knows(organizationId, EMAIL, root)).toBe(false)
    expect(await knows(organizationId, EMAIL, uuidv7())).toBe(true)
    await update({ organizationId, id: candidate, by: provenance(root) }, { email: 'new@acme.test' })
    expect(await knows(organizationId, 'new@acme.test', root)).toBe(false)
    expect(await knows(organizationId, EMAIL, uuidv7())).toBe(false)
  })

  test('stays somebody else’s when it is only spelled anew', async () => {
    const organizationId = uuidv7()
    const root = uuidv7()
    const id = await imported(organizationId, { email: 'Jo@Acme.test' })
    await update({ organizationId, id, by: provenance(root) }, { email: EMAIL, title: 'Buyer' })
    expect(await knows(organizationId, EMAIL, root)).toBe(true)
    expect(await rows(organizationId)).toMatchObject([{ email: 'Jo@Acme.test', trusted: false }])
  })
})

describe('an update', () => {
  test('sets what is given, empties what is null and leaves the rest', async () => {
    const organizationId = uuidv7()
    const id = await written(organizationId, { email: EMAIL, company: 'Acme', title: 'Buyer', location: 'Bern' })
    const by = { ...provenance(), tool: 'crm.update_person' }
    expect(await update({ organizationId, id, by }, { title: null, location: 'Basel', name: 'Jo W.' })).toEqual({
      kind: 'written',
    })
    expect(await rows(organizationId)).toMatchObject([
      {
        full_name: 'Jo W.',
        company: 'Acme',
        title: null,
        location: 'Basel',
        written_by_run: by.runId,
        written_by_root_run: by.rootRunId,
        written_by_tool: by.tool,
      },
    ])
  })

  test('that changes nothing keeps author and trust, and one that does takes both', async () => {
    const organizationId = uuidv7()
    const id = await imported(organizationId, { email: EMAIL })
    const before = await rows(organizationId)
    await update({ organizationId, id }, { name: 'Jo Weber', title: null, email: EMAIL })
    expect(await rows(organizationId)).toEqual(before)
    await update({ organizationId, id }, { title: 'Buyer' })
    expect(await rows(organizationId)).toMatchObject([{ trusted: false, created_by_root_run: null }])
    await update({ organizationId, id }, { title: 'Buyer' })
    expect(await rows(organizationId)).toMatchObject([{ trusted: false }])
  })

  test('of a person who is not there, or no longer, is not found', async () => {
    const organizationId = uuidv7()
    const id = await written(organizationId, { email: EMAIL })
    await db.database.kysely.updateTable('public.people').set({ deleted_at: new Date() }).where('id', '=', id).execute()
    const before = await rows(organizationId)
    expect(await update({ organizationId, id }, { title: 'x' })).toEqual({ kind: 'not_found' })
    expect(await update({ organizationId, id: uuidv7() }, { title: 'x' })).toEqual({ kind: 'not_found' })
    expect(await people.get({ organizationId, id })).toBeNull()
    expect(await rows(organizationId)).toEqual(before)
  })
})

describe('a company of a person', () => {
  test('is one of the same organization that is there', async () => {
    const [ours, theirs] = [uuidv7(), uuidv7()]
    const acme = await company(ours)
    const id = await written(ours, { email: EMAIL, companyId: acme })
    expect(await people.get({ organizationId: ours, id })).toMatchObject({ companyId: acme })
    for (const companyId of [await company(theirs), await company(ours, new Date()), uuidv7()]) {
      expect(await upsert(ours, { email: EMAIL, companyId })).toEqual({ kind: 'no_company' })
      expect(await update({ organizationId: ours, id }, { companyId })).toEqual({ kind: 'no_company' })
    }
    expect(await people.get({ organizationId: ours, id })).toMatchObject({ companyId: acme })
    expect(await update({ organizationId: ours, id }, { companyId: null })).toEqual({ kind: 'written' })
    expect(await people.get({ organizationId: ours, id })).toMatchObject({ companyId: null })
  })

  test('cannot be one of another organization even for the service path', async () => {
    const theirs = await company(uuidv7())
    await expect(imported(uuidv7(), { email: EMAIL, company_id: theirs })).rejects.toMatchObject({
      constraint: 'people_company_fkey',
    })
  })

  test('is not named once it was deleted', async () => {
    const organizationId = uuidv7()
    const acme = await company(organizationId)
    const id = await written(organizationId, { email: EMAIL, companyId: acme })
    await db.database.kysely
      .updateTable('public.companies')
      .set({ deleted_at: new Date() })
      .where('id', '=', acme)
      .execute()
    expect(await people.get({ organizationId, id })).toMatchObject({ companyId: null })
  })
})
