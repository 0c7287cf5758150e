import { randomUUID } from 'node:crypto'
import type { Kysely } from 'kysely'
import type { Queryable } from '../../src/storage/database.ts'
import type { ScopedSchema } from '../../src/storage/scoped-db.ts'
import type { TestDatabase } from './database.ts'

export const OURS = '0192f0c1-0000-7000-8000-00000000000a'
export const THEIRS = '0192f0c1-0000-7000-8000-00000000000b'
export const ROOT = '0192f0c1-0000-7000-8000-0000000000ff'

/** Id of row n of an organization. */
export function rowId(organization: string, n: number): string {
  return `${organization.slice(0, -4)}${n}${n}${n}${organization.slice(-1)}`
}

/**
 * Three people, usage rows and spans each, alike in all but their names: `ours 1` and `theirs 1` share email, company,
 * run and provider, so that a query that mixes the organizations shows.
 */
export async function seedTwoOrganizations(db: TestDatabase): Promise<void> {
  await db.database.execute('TRUNCATE public.people, public.ai_usage_log, agent.spans')
  await seedOrganization(db.database, { organization: OURS, owner: 'ours' })
  await seedOrganization(db.database, { organization: THEIRS, owner: 'theirs' })
}

async function seedOrganization({ kysely }: Queryable, of: { organization: string; owner: string }): Promise<void> {
  for (const n of [1, 2, 3]) {
    const row = { id: rowId(of.organization, n), organization_id: of.organization }
    const name = `${of.owner} ${n}`
    const person = { ...row, email: `${n}@example.com`, full_name: name, company: 'c' }
    await kysely.insertInto('public.people').values(person).execute()
    const usage = { ...row, root_run_id: ROOT, run_id: ROOT, kind: 'tool' as const, provider: 'p', item: name }
    await kysely
      .insertInto('public.ai_usage_log')
      .values({ ...usage, quantity: '{"credits":1}', cost_cents: n })
      .execute()
    const span = { ...row, run_id: ROOT, kind: 'tool' as const, name, status: 'ok' as const }
    await kysely
      .insertInto('agent.spans')
      .values({ ...span, started_at: new Date(0), attributes: '{"a":{"b":1}}' })
      .execute()
  }
}

/** Names of an organization's people by email, read without any scope. */
export async function peopleOf(db: TestDatabase, organization: string): Promise<Record<string, string>> {
  const rows = await db.database.kysely
    .selectFrom('public.people')
    .where('organization_id', '=', organization)
    .orderBy('email')
    .select(['email', 'full_name'])
    .execute()
  return Object.fromEntries(rows.map((row) => [row.email, row.full_name]))
}

export const THEIR_PEOPLE = { '1@example.com': 'theirs 1', '2@example.com': 'theirs 2', '3@example.com': 'theirs 3' }

/** Runs work in a transaction and takes it back. */
export async function takenBack<T>(db: TestDatabase, work: (tx: Queryable) => Promise<T>): Promise<T> {
  const answers: T[] = []
  const stop = new Error(randomUUID())
  await db.database
    .transaction(async (tx) => {
      answers.push(await work(tx))
      throw stop
    })
    .catch((error: unknown) => {
      if (error !== stop) throw error
    })
  return answers[0] as T
}

/** What work answers without a scope on a database that holds our rows only: what a perfect scope would answer. */
export function alone<T>(db: TestDatabase, work: (kysely: Kysely<ScopedSchema>) => Promise<T>): Promise<T> {
  return takenBack(db, async ({ kysely }) => {
    for (const table of ['public.people', 'public.ai_usage_log', 'agent.spans'] as const) {
      await kysely.deleteFrom(table).where('organization_id', '=', THEIRS).execute()
    }
    return work(kysely)
  })
}

/** Rows as text, in an order of their own. */
export function sorted(rows: readonly unknown[]): string[] {
  return rows.map((row) => JSON.stringify(row)).sort()
}
