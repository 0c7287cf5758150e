import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import {
  OURS,
  peopleOf,
  ROOT,
  rowId,
  seedTwoOrganizations,
  takenBack,
  THEIR_PEOPLE,
  THEIRS,
} from '../../test/setup/two-organizations.ts'
import type { Queryable } from './database.ts'
import { SCOPED_TABLES } from './scope/tables.ts'
import { unnamed } from './statement.ts'

/** Owned, and for the service path alone. */
const CREDENTIALS = [
  'agent.api_keys',
  'agent.console_sessions',
  'agent.connection_authorizations',
  'agent.connection_secrets',
  'agent.erasures',
  'agent.provider_job_results',
]

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
  await seedTwoOrganizations(db)
})
afterAll(() => db.close())

/** Work as the role that has no rights of its own, for one organization or, without one, for none. */
function asMember<T>(organization: string | null, work: (tx: Queryable) => Promise<T>): Promise<T> {
  return takenBack(db, async (tx) => {
    await tx.query(unnamed('SET LOCAL ROLE bailiff_member'))
    if (organization !== null)
      await tx.query(unnamed(`SELECT set_config('app.organization_id', $1, true)`), [organization])
    return work(tx)
  })
}

async function names(tx: Queryable): Promise<string[]> {
  const { rows } = await tx.query<{ name: string }>(
    unnamed('SELECT full_name AS name FROM public.people UNION SELECT name FROM agent.spans ORDER BY name'),
  )
  return rows.map(({ name }) => name)
}

// Plain SQL without a condition: what stands between the organizations here is the database alone.
describe('without the scope, row-level security', () => {
  test('shows an organization its own rows', async () => {
    expect(await asMember(OURS, names)).toStrictEqual(['ours 1', 'ours 2', 'ours 3'])
    expect(await asMember(THEIRS, names)).toStrictEqual(['theirs 1', 'theirs 2', 'theirs 3'])
  })

  test('shows nothing where no organization is set, or an empty one', async () => {
    expect(await asMember(null, names)).toStrictEqual([])
    expect(await asMember('', names)).toStrictEqual([])
  })

  test('changes and deletes own rows only', async () => {
    const affected = await asMember(OURS, async (tx) => {
      const updated = await tx.query(unnamed(`UPDATE public.people SET full_name = 'x'`))
      const deleted = await tx.query(unnamed('DELETE FROM agent.spans'))
      return [updated.affected, deleted.affected]
    })
    expect(affected).toStrictEqual([3, 3])
    expect(await peopleOf(db, THEIRS)).toStrictEqual(THEIR_PEOPLE)
  })

  test('refuses a row for another organization, inserted or moved', async () => {
    const insert = unnamed(
      `INSERT INTO public.people (id, organization_id, email, full_name) VALUES ($1, $2, 'e', 'n')`,
    )
    await expect(asMember(OURS, (tx) => tx.query(insert, [ROOT, THEIRS]))).rejects.toMatchObject({ code: '42501' })
    await expect(asMember(null, (tx) => tx.query(insert, [ROOT, OURS]))).rejects.toMatchObject({ code: '42501' })
    const move = unnamed('UPDATE public.people SET organization_id = $1 WHERE id = $2')
    await expect(asMember(OURS, (tx) => tx.query(move, [THEIRS, rowId(OURS, 1)]))).rejects.toMatchObject({
      code: '42501',
    })
    await expect(asMember(OURS, (tx) => tx.query(insert, [ROOT, OURS]))).resolves.toMatchObject({ affected: 1 })
  })

  test.each([...CREDENTIALS, 'agent.users', 'agent.tools', 'public.agent_migrations'])(
    '%s is out of reach',
    async (table) => {
      const read = asMember(OURS, (tx) => tx.query(unnamed(`SELECT * FROM ${table}`)))
      await expect(read).rejects.toMatchObject({ code: '42501' })
    },
  )

  test('guards every table that has an owner', async () => {
    const { rows } = await db.database.query<{ name: string; guarded: boolean; policies: number }>(
      unnamed(`SELECT c.relnamespace::regnamespace || '.' || c.relname AS name, c.relrowsecurity AS guarded,
                      (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid) AS policies
               FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'organization_id'
               WHERE c.relkind = 'r' AND NOT a.attisdropped ORDER BY name`),
    )
    expect(rows.filter(({ guarded, policies }) => !guarded || policies !== 1)).toStrictEqual([])
    expect(rows.map(({ name }) => name)).toStrictEqual([...SCOPED_TABLES, ...CREDENTIALS].sort())
  })

  test('lets an organization read itself and no other', async () => {
    const { kysely } = db.database
    await kysely
      .insertInto('agent.organizations')
      .values([OURS, THEIRS].map((id) => ({ id, slug: id, name: id })))
      .execute()
    const read = unnamed('SELECT id FROM agent.organizations')
    expect((await asMember(OURS, (tx) => tx.query(read))).rows).toStrictEqual([{ id: OURS }])
    const rename = unnamed(`UPDATE agent.organizations SET name = 'x'`)
    await expect(asMember(OURS, (tx) => tx.query(rename))).rejects.toMatchObject({ code: '42501' })
  })
})
