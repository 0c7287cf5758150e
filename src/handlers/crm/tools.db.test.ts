import { v7 as uuidv7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { admitted, callHandler, type TestRun, testRun } from '../../../test/handler-call.ts'
import { scopedDb } from '../../storage/scoped-db.ts'
import type { ToolDeclaration } from '../../tools/declarations.ts'
import type { JsonObject } from '../../tools/json.ts'
import { buildRegistry } from '../../tools/registry.ts'
import { scopedPeople } from './scoped-people.ts'
import { crmTools } from './tools.ts'

let db: TestDatabase
let search: ToolDeclaration
let upsert: ToolDeclaration
let tools: ToolDeclaration[]
beforeAll(async () => {
  db = await testDatabase()
  tools = crmTools({ people: scopedPeople((organizationId) => scopedDb(db.database, organizationId)) })
  const named = (name: string) => tools.find(({ spec }) => spec.name === name)!
  search = named('crm.search_people')
  upsert = named('crm.upsert_person')
})
afterAll(() => db.close())

const JO = { email: 'jo@acme.test', name: 'Jo Weber', company: 'Acme', title: 'Buyer' }

async function imported(organizationId: string, email = 'jo@acme.test'): Promise<void> {
  const row = {
    id: uuidv7(),
    organization_id: organizationId,
    email,
    full_name: 'Jo Weber',
    company: 'Acme',
    title: null,
  }
  await db.database.kysely.insertInto('public.people').values(row).execute()
}

const searchFor = (run: TestRun, args: JsonObject) => callHandler(search, { run, args })
const write = (run: TestRun, args: JsonObject) => callHandler(upsert, { run, args })

test('both tools pass every check of the registry', async () => {
  const registry = await buildRegistry(tools)
  expect(registry.get('crm.search_people')).toMatchObject({
    kind: 'internal',
    sideEffects: 'read',
    itemKind: 'crm.person',
    maxResults: 50,
    repeatable: null,
  })
  expect(registry.get('crm.upsert_person')).toMatchObject({ kind: 'internal', sideEffects: 'write', repeatable: false })
})

describe('arguments', () => {
  test('a search asks for ten people unless it says otherwise', () => {
    expect(admitted(search, { query: 'jo' })).toEqual({ query: 'jo', limit: 10 })
  })

  test.each<JsonObject>([
    { query: '' },
    { query: '   ' },
    { query: 'a\u0000b' },
    { query: 'x'.repeat(101) },
    { query: 'jo', limit: 0 },
    { query: 'jo', limit: 51 },
    { query: 'jo', limit: 1.5 },
    { query: 'jo', sql: '1=1' },
  ])('a search with %j is refused', (args) => {
    expect(() => admitted(search, args)).toThrow(/./)
  })

  test.each<JsonObject>([
    { ...JO, email: 'jo@acme.test, x@evil.test' },
    { ...JO, email: 'jo' },
    { ...JO, name: ' ' },
    { ...JO, name: 'Jo\nWeber' },
    { ...JO, company: '' },
    { ...JO, title: 'x'.repeat(201) },
    { ...JO, trusted: true },
    { email: 'jo@acme.test' },
  ])('a person with %j is refused', (args) => {
    expect(() => admitted(upsert, args)).toThrow(/./)
  })
})

test('a person who was added is found, in the same run and in another', async () => {
  const run = testRun()
  const written = await write(run, JO)
  expect(written).toMatchObject({ ok: true, data: { created: true } })
  const other = testRun({ organizationId: run.organizationId })
  expect((await searchFor(other, { query: 'weber' })).data).toEqual([
    {
      id: (written.data as { id: string }).id,
      ...JO,
      linkedinUrl: null,
      companyId: null,
      location: null,
      trusted: false,
    },
  ])
  expect(await write(other, { ...JO, email: 'JO@acme.test' })).toMatchObject({ data: { created: false } })
})

test('an answer is untrusted as soon as one row of it is, in whichever run it is read', async () => {
  const run = testRun()
  await imported(run.organizationId, 'sam@acme.test')
  expect(await searchFor(run, { query: 'acme' })).toMatchObject({ meta: { untrusted: false } })
  await write(testRun({ organizationId: run.organizationId }), JO)
  expect(await searchFor(run, { query: 'acme' })).toMatchObject({ meta: { untrusted: true } })
  expect(await searchFor(run, { query: 'sam' })).toMatchObject({ meta: { untrusted: false } })
})

test('a row records the run, its root and the tool', async () => {
  const run = testRun()
  await write(run, JO)
  const row = await db.database.kysely
    .selectFrom('public.people')
    .select(['written_by_run', 'written_by_root_run', 'written_by_tool', 'created_by_root_run'])
    .where('organization_id', '=', run.organizationId)
    .executeTakeFirstOrThrow()
  expect(row).toEqual({
    written_by_run: run.runId,
    written_by_root_run: run.rootRunId,
    written_by_tool: 'crm.upsert_person',
    created_by_root_run: run.rootRunId,
  })
})
