import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../../../test/setup/database.ts'
import { transactionPooler, type TransactionPooler } from '../../../test/setup/transaction-pooler.ts'
import type { Context } from '../context.ts'
import { doctor, type Finding } from './doctor.ts'

let db: TestDatabase
let pooler: TransactionPooler
let folder: string
let direct: string
beforeEach(async () => {
  db = await testDatabase()
  direct = db.url ?? ''
  pooler = await transactionPooler(direct)
  folder = await mkdtemp(join(tmpdir(), 'bailiff-doctor-'))
})
afterEach(async () => {
  await pooler.close()
  await Promise.all([db.close(), rm(folder, { recursive: true })])
})

/** What the doctor finds about the database and what is in front of it. */
async function findings(environment: Readonly<Record<string, string>>): Promise<readonly Finding[]> {
  let answered: readonly Finding[] = []
  const context: Context = {
    environment: { BAILIFF_DATA_DIR: folder, BAILIFF_PORT: '0', ...environment },
    json: true,
    url: null,
    interactive: false,
    out: () => undefined,
    note: () => undefined,
    answer: (value) => {
      answered = (value as { findings: Finding[] }).findings
    },
    confirm: () => Promise.resolve(false),
  }
  await doctor(context, {}).catch(() => undefined)
  return answered.filter(({ check }) => check === 'database' || check === 'pooler')
}

const answers = { check: 'database', state: 'ok', message: expect.stringContaining('answers') }

test('a direct address has no pooler to speak of', async () => {
  expect(await findings({ DATABASE_URL: direct })).toStrictEqual([answers])
})

test('a transaction pooler alone is a fault that says what to set', async () => {
  expect(await findings({ DATABASE_URL: pooler.url })).toStrictEqual([
    answers,
    { check: 'pooler', state: 'fault', message: expect.stringContaining('set DATABASE_URL_DIRECT') },
  ])
})

test('with an address past it all is well, but for statements that this pooler loses', async () => {
  expect(await findings({ DATABASE_URL: pooler.url, DATABASE_URL_DIRECT: direct })).toStrictEqual([
    answers,
    { check: 'pooler', state: 'warning', message: expect.stringContaining('max_prepared_statements') },
  ])
})

test('an address past it that is a pooler too is a fault', async () => {
  expect(await findings({ DATABASE_URL: pooler.url, DATABASE_URL_DIRECT: pooler.url })).toStrictEqual([
    answers,
    { check: 'pooler', state: 'fault', message: expect.stringContaining('DATABASE_URL_DIRECT leads through') },
  ])
})

test('a server that does not answer is one fault, not two', async () => {
  expect(await findings({ DATABASE_URL: 'postgres://u:p@127.0.0.1:1/d' })).toMatchObject([
    { check: 'database', state: 'fault' },
  ])
})
