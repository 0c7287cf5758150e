import { v7 as uuidv7 } from 'uuid'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { writeRows } from '../../test/upgrades/rows.ts'
import { scopedPeople } from '../handlers/crm/index.ts'
import { migrate } from './migrate.ts'
import { scopedDb } from './scoped-db.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await testDatabase()
})
afterEach(() => db.close())

test('people from before there were profiles keep their content, and who gave them their address', async () => {
  const [organizationId, root] = [uuidv7(), uuidv7()]
  const row = {
    organization_id: organizationId,
    full_name: 'Jo Weber',
    trusted: true,
    created_at: '2026-01-02T03:04:05Z',
    updated_at: '2026-01-02T03:04:05Z',
  }
  const rows = [
    { ...row, id: uuidv7(), email: 'Known@acme.test', created_by_root_run: null },
    { ...row, id: uuidv7(), email: 'added@acme.test', created_by_root_run: root },
  ]
  const recordedAt = new Date().toISOString()
  await writeRows(db.database, { migration: '0001_init', recordedAt, tables: { 'public.people': rows } })
  await migrate(db.database)
  const people = scopedPeople((id) => scopedDb(db.database, id))
  expect(await people.search({ organizationId, text: 'jo', limit: 5 })).toMatchObject(
    rows.map(({ id, email }) => ({ id, email, linkedinUrl: null, companyId: null, trusted: true })),
  )
  const emails = ['known@acme.test', 'added@acme.test']
  expect(await people.known({ organizationId, emails, exceptRootRun: root })).toEqual(new Set(['known@acme.test']))
  expect(await people.known({ organizationId, emails, exceptRootRun: uuidv7() })).toEqual(new Set(emails))
})
