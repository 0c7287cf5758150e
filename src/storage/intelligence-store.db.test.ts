import { v7 as uuidv7 } from 'uuid'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { OURS, takenBack } from '../../test/setup/two-organizations.ts'
import { callHandler, testRun } from '../../test/handler-call.ts'
import { intelligenceTools } from '../handlers/intelligence/index.ts'
import type { Observation } from '../handlers/intelligence/intelligence.ts'
import type { Database, Queryable } from './database.ts'
import { ScopeRefused } from './errors.ts'
import { intelligenceStore } from './intelligence-store.ts'
import { SCOPED_TABLES } from './scope/tables.ts'
import { scopedDb } from './scoped-db.ts'
import { unnamed } from './statement.ts'

const TABLES = ['public.intel_companies', 'public.intel_observations'] as const

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => db.database.execute('TRUNCATE public.intel_companies CASCADE'))
afterAll(() => db.close())

const FACT: Observation = {
  domain: 'acme.test',
  attribute: 'industry',
  value: 'Bearings',
  source: 'https://acme.test/about',
}

const store = () => intelligenceStore(db.database)

async function facts(words: readonly string[], limit = 20) {
  const found = await store().search({ words, limit })
  return found.map(({ domain, facts }) => [domain, ...facts.map(({ attribute, value }) => `${attribute}: ${value}`)])
}

const rows = async (table: (typeof TABLES)[number]) =>
  (await db.database.query(unnamed(`SELECT * FROM ${table} ORDER BY 1`))).rows

describe('an observation', () => {
  test('made again is one row, and any number at once make one', async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => store().record(FACT)))
    expect(answers.filter(({ created }) => created)).toHaveLength(1)
    expect(await store().record({ ...FACT, value: ' Bearings\n' })).toEqual({ created: false })
    expect([await rows(TABLES[0]), await rows(TABLES[1])].map(({ length }) => length)).toEqual([1, 1])
  })

  test('of another value, attribute or source stands beside it, and the newest of a source counts', async () => {
    await store().record(FACT)
    await db.database.execute(`UPDATE public.intel_observations SET observed_at = now() - interval '1 day'`)
    await store().record({ ...FACT, value: 'Tools' })
    await store().record({ ...FACT, attribute: 'employees', value: '51-200' })
    await store().record({ ...FACT, value: 'Bearings and tools', source: 'https://news.test/acme' })
    expect((await facts(['acme']))[0]?.toSorted()).toEqual([
      'acme.test',
      'employees: 51-200',
      'industry: Bearings and tools',
      'industry: Tools',
    ])
  })

  test('made again is the newest again', async () => {
    await store().record(FACT)
    await store().record({ ...FACT, value: 'Tools' })
    await db.database.execute(`UPDATE public.intel_observations SET observed_at = now() - interval '1 day'`)
    await store().record(FACT)
    expect(await facts(['acme'])).toEqual([['acme.test', 'industry: Bearings']])
  })

  test('of a company comes with at most twenty others', async () => {
    for (let at = 0; at < 25; at += 1) {
      await store().record({ ...FACT, attribute: 'news', value: `item ${at}`, source: `https://news.test/${at}` })
    }
    const [company] = await store().search({ words: ['acme'], limit: 1 })
    expect(company?.facts).toHaveLength(20)
    expect(company?.facts[0]).toMatchObject({ value: 'item 24', source: 'https://news.test/24' })
  })
})

describe('a search', () => {
  beforeEach(async () => {
    await store().record(FACT)
    await store().record({ ...FACT, attribute: 'location', value: 'Bern 100%' })
    await store().record({ ...FACT, domain: 'other.test' })
  })

  test('finds companies whose domain or facts have every word, in any case, by domain', async () => {
    const domains = async (...words: string[]) => (await facts(words)).map(([domain]) => domain)
    expect(await domains('BEARINGS')).toEqual(['acme.test', 'other.test'])
    expect(await domains('bearings', 'bern')).toEqual(['acme.test'])
    expect(await domains('acme', 'bearings')).toEqual(['acme.test'])
    expect(await domains('acme', 'nowhere')).toEqual([])
    expect(await domains()).toEqual([])
    expect(await domains('%')).toEqual(['acme.test'])
    expect(await domains('_')).toEqual([])
    expect((await facts(['test'], 1)).map(([domain]) => domain)).toEqual(['acme.test'])
  })
})

describe('R26 data of all organizations', () => {
  test('is written by statements and in rows that name no organization and no run', async () => {
    const sent: { text: string; values: readonly unknown[] }[] = []
    const watched: Database = {
      ...db.database,
      query: (statement, values) => {
        sent.push({ text: statement.text, values: values ?? [] })
        return db.database.query(statement, values)
      },
    }
    const run = testRun()
    const record = intelligenceTools({ store: intelligenceStore(watched) }).find(
      ({ spec }) => spec.sideEffects === 'write',
    )
    if (record === undefined) throw new Error('nothing writes')
    await callHandler(record, { run, args: { ...FACT } })
    expect(sent).toHaveLength(1)
    expect(sent[0]?.text).toMatch(/INSERT INTO public\.intel_observations/)
    expect(sent[0]?.text).not.toMatch(/organization/i)
    const own = [run.organizationId, run.runId, run.rootRunId]
    expect(JSON.stringify(sent[0]?.values)).not.toMatch(new RegExp(own.join('|')))
    const written = [...(await rows(TABLES[0])), ...(await rows(TABLES[1]))]
    expect(written.map((row) => Object.keys(row))).toEqual([
      ['domain', 'first_observed_at', 'last_observed_at'],
      ['id', 'domain', 'attribute', 'value', 'source', 'content_hash', 'observed_at'],
    ])
    expect(JSON.stringify(written)).not.toMatch(new RegExp(own.join('|')))
  })

  test('is out of reach of a handle that is scoped to an organization', async () => {
    expect(TABLES.filter((table) => (SCOPED_TABLES as readonly string[]).includes(table))).toEqual([])
    for (const table of TABLES) {
      const scoped = scopedDb(db.database, OURS)
      const name = table as never
      await expect(scoped.selectFrom(name).selectAll().execute()).rejects.toBeInstanceOf(ScopeRefused)
      await expect(
        scoped
          .insertInto(name)
          .values({ domain: 'a.test' } as never)
          .execute(),
      ).rejects.toBeInstanceOf(ScopeRefused)
      await expect(scoped.deleteFrom(name).execute()).rejects.toBeInstanceOf(ScopeRefused)
    }
  })

  const asMember = <T>(work: (tx: Queryable) => Promise<T>, grant = false): Promise<T> =>
    takenBack(db, async (tx) => {
      if (grant) await tx.query(unnamed(`GRANT ALL ON ${TABLES.join(', ')} TO bailiff_member`))
      await tx.query(unnamed('SET LOCAL ROLE bailiff_member'))
      await tx.query(unnamed(`SELECT set_config('app.organization_id', $1, true)`), [OURS])
      return work(tx)
    })

  const INSERTS = [
    `INSERT INTO public.intel_companies (domain) VALUES ('evil.test')`,
    `INSERT INTO public.intel_observations (id, domain, attribute, value, source, content_hash)
     VALUES ('${uuidv7()}', 'acme.test', 'name', 'x', 'y', '')`,
  ]

  test('is neither read nor written by a member', async () => {
    await store().record(FACT)
    for (const text of [...TABLES.map((table) => `SELECT * FROM ${table}`), ...INSERTS]) {
      await expect(asMember((tx) => tx.query(unnamed(text)))).rejects.toMatchObject({ code: '42501' })
    }
  })

  test('is hidden by row-level security alone from a member who was given every right on it', async () => {
    await store().record(FACT)
    for (const table of TABLES) {
      const seen = await asMember((tx) => tx.query(unnamed(`SELECT * FROM ${table}`)), true)
      expect(seen.rows).toEqual([])
      const removed = await asMember((tx) => tx.query(unnamed(`DELETE FROM ${table}`)), true)
      expect(removed.affected).toBe(0)
    }
    for (const text of INSERTS) {
      await expect(asMember((tx) => tx.query(unnamed(text)), true)).rejects.toMatchObject({ code: '42501' })
    }
  })
})
