import { v7 as uuidv7 } from 'uuid'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { callHandler, type TestRun, testRun } from '../../../test/handler-call.ts'
import { scopedDb } from '../../storage/scoped-db.ts'
import type { ToolDeclaration } from '../../tools/declarations.ts'
import { NotFoundError, ValidationError } from '../../tools/errors.ts'
import type { JsonObject } from '../../tools/json.ts'
import { companyTools } from './company-tools.ts'
import { scopedCompanies } from './scoped-companies.ts'

let db: TestDatabase
let tools: ToolDeclaration[]
beforeAll(async () => {
  db = await testDatabase()
  tools = companyTools(scopedCompanies((organizationId) => scopedDb(db.database, organizationId)))
})
afterAll(() => db.close())

const ACME = { domain: 'acme.test', name: 'Acme', industry: 'Bearings', employees: '51-200' }

function call(name: string, run: TestRun, args: JsonObject) {
  const tool = tools.find(({ spec }) => spec.name === `crm.${name}`)
  if (tool === undefined) throw new Error(`there is no ${name}`)
  return callHandler(tool, { run, args })
}

async function upsert(run: TestRun, args: JsonObject) {
  return (await call('upsert_company', run, args)).data as { id: string; domain: string; created: boolean }
}

/** As an import or a person leaves a row: no run wrote it. */
async function imported(organizationId: string, part: { domain?: string; deleted_at?: Date } = {}): Promise<string> {
  const row = { id: uuidv7(), organization_id: organizationId, ...ACME, ...part }
  await db.database.kysely.insertInto('public.companies').values(row).execute()
  return row.id
}

const rows = (organizationId: string) =>
  db.database.kysely
    .selectFrom('public.companies')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .orderBy('domain')
    .orderBy('id')
    .execute()

describe('an upsert', () => {
  test('makes a company that is found and read, with who wrote it', async () => {
    const run = testRun()
    const { id, created, domain } = await upsert(run, { ...ACME, domain: 'https://www.ACME.test/about' })
    expect([created, domain]).toEqual([true, 'acme.test'])
    const company = { id, ...ACME, location: null, description: null, trusted: false }
    expect(await call('get_company', run, { id })).toMatchObject({ data: company, meta: { untrusted: true } })
    expect(await call('search_companies', run, { query: 'bearings ACME' })).toMatchObject({
      data: [company],
      meta: { untrusted: true },
    })
    expect(await rows(run.organizationId)).toMatchObject([
      {
        written_by_run: run.runId,
        written_by_root_run: run.rootRunId,
        written_by_tool: 'crm.upsert_company',
        created_by_root_run: run.rootRunId,
        trusted: false,
      },
    ])
  })

  test('finds the company by any spelling of its domain, and leaves out what was not given', async () => {
    const run = testRun()
    const { id } = await upsert(run, { ...ACME, location: 'Bern' })
    for (const domain of ['ACME.TEST', 'www.acme.test', 'http://acme.test:80/x?y#z', '//acme.test/']) {
      expect(await upsert(run, { domain, name: 'Acme AG' })).toEqual({ id, domain: 'acme.test', created: false })
    }
    expect(await rows(run.organizationId)).toMatchObject([{ name: 'Acme AG', industry: 'Bearings', location: 'Bern' }])
  })

  test('of what is there already keeps author and trust; other content takes both', async () => {
    const run = testRun()
    await imported(run.organizationId)
    const before = await rows(run.organizationId)
    await upsert(run, ACME)
    await upsert(run, { domain: 'acme.test', name: 'Acme' })
    expect(await rows(run.organizationId)).toEqual(before)
    expect(await call('search_companies', run, { query: 'acme' })).toMatchObject({ meta: { untrusted: false } })
    await upsert(run, { ...ACME, industry: 'Tools' })
    expect(await rows(run.organizationId)).toMatchObject([
      { industry: 'Tools', written_by_run: run.runId, created_by_root_run: null, trusted: false },
    ])
  })

  test('eight at once make one row, and one of them created it', async () => {
    const run = testRun()
    const spellings = ['acme.test', 'WWW.acme.test', 'https://acme.test', 'acme.test/x']
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, at) => upsert(run, { ...ACME, domain: spellings[at % 4] ?? '' })),
    )
    expect(new Set(answers.map(({ id }) => id))).toHaveLength(1)
    expect(answers.filter(({ created }) => created)).toHaveLength(1)
    expect(await rows(run.organizationId)).toHaveLength(1)
  })

  test('one row for each domain, whatever is written in which order', async () => {
    const spelled = fc.tuple(fc.constantFrom('', 'www.', 'https://'), fc.constantFrom('a.test', 'B.test', 'b.test'))
    await fc.assert(
      fc.asyncProperty(fc.array(spelled, { minLength: 1, maxLength: 6 }), async (written) => {
        const run = testRun()
        for (const [before, domain] of written) await upsert(run, { domain: before + domain, name: 'x' })
        const domains = new Set(written.map(([, domain]) => domain.toLowerCase()))
        expect((await rows(run.organizationId)).map(({ domain }) => domain)).toEqual([...domains].toSorted())
      }),
      { numRuns: 30 },
    )
  })

  test('a deleted company stays deleted, and its domain is free for a new one', async () => {
    const run = testRun()
    const gone = await imported(run.organizationId, { deleted_at: new Date() })
    const { id, created } = await upsert(run, { ...ACME, name: 'Another' })
    expect([created, id === gone]).toEqual([true, false])
    expect((await rows(run.organizationId)).find((row) => row.id === gone)?.name).toBe('Acme')
  })

  test.each(['acme', 'jo@acme.test', '127.0.0.1', 'https://'])(
    'R27 for %j, which is no domain, is invalid input',
    async (domain) => {
      const refused = await call('upsert_company', testRun(), { ...ACME, domain }).catch((error: unknown) => error)
      expect((refused as Error).constructor).toBe(ValidationError)
    },
  )

  test.each(['', 'many', '51 - 200', '-5', '5-', '1000000000000'])(
    'with %j employees is refused',
    async (employees) => {
      await expect(upsert(testRun(), { ...ACME, employees })).rejects.toThrow(/employees/)
    },
  )
})

describe('an update', () => {
  test('sets what is given and empties what is null', async () => {
    const run = testRun()
    const id = await imported(run.organizationId)
    await call('update_company', run, { id, industry: null, description: 'Makes\nbearings.' })
    expect(await rows(run.organizationId)).toMatchObject([
      { name: 'Acme', industry: null, description: 'Makes\nbearings.', employees: '51-200', trusted: false },
    ])
    expect(await rows(run.organizationId)).toMatchObject([{ written_by_tool: 'crm.update_company' }])
  })

  test('that changes nothing keeps author and trust', async () => {
    const run = testRun()
    const id = await imported(run.organizationId)
    const before = await rows(run.organizationId)
    await call('update_company', run, { id, name: 'Acme', location: null })
    expect(await rows(run.organizationId)).toEqual(before)
  })

  test('R27 of nothing is invalid input, and of a company that is not there not found', async () => {
    const run = testRun()
    const gone = await imported(run.organizationId, { deleted_at: new Date() })
    const failure = async (args: JsonObject) =>
      ((await call('update_company', run, args).catch((error: unknown) => error)) as Error).constructor
    expect(await failure({ id: gone })).toBe(ValidationError)
    expect(await failure({ id: gone, name: 'x' })).toBe(NotFoundError)
    expect(await failure({ id: uuidv7(), name: 'x' })).toBe(NotFoundError)
    expect((await rows(run.organizationId))[0]?.name).toBe('Acme')
  })
})

test('an answer is untrusted as soon as one company of it is', async () => {
  const run = testRun()
  await imported(run.organizationId, { domain: 'other.test' })
  await upsert(run, ACME)
  expect(await call('search_companies', run, { query: 'other' })).toMatchObject({ meta: { untrusted: false } })
  expect(await call('search_companies', run, { query: 'acme' })).toMatchObject({ meta: { untrusted: true } })
})
