import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Insertable } from 'kysely'
import { v7 as uuidv7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import type { DatabaseSchema } from '../../storage/schema.ts'
import { scopedDb } from '../../storage/scoped-db.ts'
import type { PeopleStore, PersonUpsert } from './people.ts'
import { scopedPeople } from './scoped-people.ts'

let db: TestDatabase
let people: PeopleStore
beforeAll(async () => {
  db = await testDatabase()
  people = scopedPeople((organizationId) => scopedDb(db.database, organizationId))
})
afterAll(() => db.close())

const JO = { email: 'jo@acme.test', name: 'Jo Weber', company: 'Acme', title: 'Buyer' }

function provenance() {
  return { runId: uuidv7(), rootRunId: uuidv7(), tool: 'crm.upsert_person' }
}

async function upsert(organizationId: string, part: Partial<PersonUpsert> = {}) {
  const outcome = await people.upsert({ ...JO, provenance: provenance(), ...part, organizationId })
  if (outcome.kind !== 'written') throw new Error(`the upsert was ${outcome.kind}`)
  return { id: outcome.id, created: outcome.created }
}

/** As an import or a person leaves a row: no run wrote it. */
async function imported(organizationId: string, part: Partial<Insertable<DatabaseSchema['public.people']>> = {}) {
  const row = {
    id: uuidv7(),
    organization_id: organizationId,
    email: 'jo@acme.test',
    full_name: 'Jo Weber',
    company: 'Acme',
    title: 'Buyer',
    ...part,
  }
  await db.database.kysely.insertInto('public.people').values(row).execute()
  return row.id
}

async function rows(organizationId: string) {
  return db.database.kysely
    .selectFrom('public.people')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('email')
    .execute()
}

async function names(organizationId: string, text: string, limit = 50): Promise<string[]> {
  return (await people.search({ organizationId, text, limit })).map(({ name }) => name)
}

describe('search', () => {
  test('matches name, company, title and address in any case, and answers these columns only', async () => {
    const organizationId = uuidv7()
    const id = await imported(organizationId)
    const found = {
      id,
      name: 'Jo Weber',
      email: 'jo@acme.test',
      linkedinUrl: null,
      company: 'Acme',
      companyId: null,
      title: 'Buyer',
      location: null,
      trusted: true,
    }
    const hits = await Promise.all(
      ['WEBER', 'acm', 'buy', 'jo@ACME'].map((text) => people.search({ organizationId, text, limit: 5 })),
    )
    expect(hits).toEqual([[found], [found], [found], [found]])
  })

  test('every word has to match, wherever it stands', async () => {
    const organizationId = uuidv7()
    await imported(organizationId)
    await imported(organizationId, { email: 'jo@other.test', full_name: 'Jo Other' })
    expect(await names(organizationId, ' weber  acme ')).toEqual(['Jo Weber'])
    expect(await names(organizationId, 'weber nobody')).toEqual([])
    expect(await names(organizationId, '   ')).toEqual([])
  })

  test('signs that a pattern would read mean themselves', async () => {
    const organizationId = uuidv7()
    await imported(organizationId, { full_name: String.raw`100% _own\ed` })
    await imported(organizationId, { email: 'plain@acme.test', full_name: 'Plain' })
    expect(await names(organizationId, '%')).toEqual([String.raw`100% _own\ed`])
    expect(await names(organizationId, '_own')).toEqual([String.raw`100% _own\ed`])
    expect(await names(organizationId, '\\')).toEqual([String.raw`100% _own\ed`])
    expect(await names(organizationId, "'; DROP TABLE public.people; --")).toEqual([])
  })

  test('a deleted person is not there', async () => {
    const organizationId = uuidv7()
    await imported(organizationId, { deleted_at: new Date() })
    expect(await names(organizationId, 'jo')).toEqual([])
  })

  test('the answer is ordered by name and no longer than asked for', async () => {
    const organizationId = uuidv7()
    for (const name of ['C', 'A', 'B']) await imported(organizationId, { email: `${name}@acme.test`, full_name: name })
    expect(await names(organizationId, 'acme', 2)).toEqual(['A', 'B'])
  })
})

describe('upsert', () => {
  test('a new person is written with who wrote it, and what a run writes is not trusted', async () => {
    const organizationId = uuidv7()
    const by = provenance()
    const answer = await upsert(organizationId, { email: 'Jo@Acme.Test', provenance: by })
    expect(await rows(organizationId)).toMatchObject([
      {
        id: answer.id,
        email: 'jo@acme.test',
        full_name: 'Jo Weber',
        company: 'Acme',
        title: 'Buyer',
        written_by_run: by.runId,
        written_by_root_run: by.rootRunId,
        written_by_tool: by.tool,
        created_by_root_run: by.rootRunId,
        trusted: false,
        deleted_at: null,
      },
    ])
    expect(answer.created).toBe(true)
  })

  test('an address names one person in any case', async () => {
    const organizationId = uuidv7()
    const id = await imported(organizationId, { email: 'JO@acme.test' })
    expect(await upsert(organizationId, { email: 'jo@ACME.test' })).toEqual({ id, created: false })
    expect(await rows(organizationId)).toHaveLength(1)
  })

  test('changed content takes over the new provenance and loses its trust; who created the row stays', async () => {
    const organizationId = uuidv7()
    await imported(organizationId)
    const by = provenance()
    await upsert(organizationId, { title: 'Head of Buying', provenance: by })
    expect(await rows(organizationId)).toMatchObject([
      {
        title: 'Head of Buying',
        written_by_run: by.runId,
        written_by_root_run: by.rootRunId,
        written_by_tool: by.tool,
        created_by_root_run: null,
        trusted: false,
      },
    ])
  })

  test('repeating what is there changes neither provenance nor trust', async () => {
    const organizationId = uuidv7()
    await imported(organizationId)
    const before = await rows(organizationId)
    await upsert(organizationId)
    await upsert(organizationId, { company: undefined, title: undefined })
    expect(await rows(organizationId)).toEqual(before)
  })

  test('what is left out stays as it is', async () => {
    const organizationId = uuidv7()
    await imported(organizationId)
    await upsert(organizationId, { name: 'Jo Other', company: undefined, title: undefined })
    expect(await rows(organizationId)).toMatchObject([{ full_name: 'Jo Other', company: 'Acme', title: 'Buyer' }])
  })

  test('a deleted person stays deleted, and the address is free for a new one', async () => {
    const organizationId = uuidv7()
    const gone = await imported(organizationId, { deleted_at: new Date() })
    const { id, created } = await upsert(organizationId, { name: 'Somebody else' })
    expect(created).toBe(true)
    expect(new Map((await rows(organizationId)).map((row) => [row.id, row.full_name]))).toEqual(
      new Map([
        [gone, 'Jo Weber'],
        [id, 'Somebody else'],
      ]),
    )
  })

  test('runs that add one person at once make one row, and one of them created it', async () => {
    const organizationId = uuidv7()
    const answers = await Promise.all(Array.from({ length: 8 }, () => upsert(organizationId)))
    expect(new Set(answers.map(({ id }) => id))).toHaveLength(1)
    expect(answers.filter(({ created }) => created)).toHaveLength(1)
  })
})

describe('known addresses', () => {
  const known = async (organizationId: string, emails: string[], exceptRootRun = uuidv7()) =>
    [...(await people.known({ organizationId, emails, exceptRootRun }))].toSorted()

  test('are answered in lower case; unknown and deleted ones are left out', async () => {
    const organizationId = uuidv7()
    await imported(organizationId, { email: 'Jo@acme.test' })
    await imported(organizationId, { email: 'gone@acme.test', deleted_at: new Date() })
    expect(await known(organizationId, ['jo@ACME.test', 'gone@acme.test', 'new@acme.test'])).toEqual(['jo@acme.test'])
    expect(await known(organizationId, [])).toEqual([])
  })

  test('do not include people the run tree itself created, and do include those of another', async () => {
    const organizationId = uuidv7()
    const by = provenance()
    await upsert(organizationId, { provenance: by })
    expect(await known(organizationId, ['jo@acme.test'], by.rootRunId)).toEqual([])
    expect(await known(organizationId, ['jo@acme.test'])).toEqual(['jo@acme.test'])
  })

  test('include a person who was there before, however often the run writes it', async () => {
    const organizationId = uuidv7()
    await imported(organizationId)
    const by = provenance()
    await upsert(organizationId, { name: 'Renamed', provenance: by })
    expect(await known(organizationId, ['jo@acme.test'], by.rootRunId)).toEqual(['jo@acme.test'])
  })
})

describe('organization data is reached through a scoped handle', () => {
  test('R25 people of another organization are never found, changed or known', async () => {
    const [ours, theirs] = [uuidv7(), uuidv7()]
    await imported(theirs)
    const before = await rows(theirs)
    expect(await names(ours, 'jo')).toEqual([])
    expect(await people.known({ organizationId: ours, emails: ['jo@acme.test'], exceptRootRun: uuidv7() })).toEqual(
      new Set(),
    )
    expect(await upsert(ours, { name: 'Ours' })).toMatchObject({ created: true })
    expect(await rows(theirs)).toEqual(before)
    expect(await rows(ours)).toMatchObject([{ full_name: 'Ours' }])
  })

  test('R25 a handle without an organization is refused', async () => {
    await expect(people.search({ organizationId: '', text: 'jo', limit: 1 })).rejects.toThrow('is no organization')
  })

  test('R25 no handler imports anything of storage but the type of that handle', async () => {
    const handlers = join(import.meta.dirname, '..')
    const files = (await readdir(handlers, { recursive: true })).filter((name) => /(?<!\.test)\.ts$/.test(name))
    expect(files).toContain(join('crm', 'scoped-people.ts'))
    const imports = await Promise.all(
      files.map(
        async (name) =>
          (await readFile(join(handlers, name), 'utf8')).match(
            /^.*from '([^']*\/)?(storage|pg|pglite)(\/[^']*)?'$/gm,
          ) ?? [],
      ),
    )
    expect(new Set(imports.flat())).toEqual(new Set(["import type { ScopedSchema } from '../../storage/scoped-db.ts'"]))
  })
})

test('a database fault raises as it is and never reads as an empty answer', async () => {
  const broken = scopedPeople((organizationId) =>
    scopedDb({ ...db.database, query: async () => Promise.reject(new Error('down')) }, organizationId),
  )
  const organizationId = uuidv7()
  await expect(broken.search({ organizationId, text: 'jo', limit: 1 })).rejects.toThrow('down')
  await expect(broken.upsert({ ...JO, organizationId, provenance: provenance() })).rejects.toThrow('down')
  await expect(broken.known({ organizationId, emails: ['jo@acme.test'], exceptRootRun: uuidv7() })).rejects.toThrow(
    'down',
  )
})
