import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { v7 as uuidv7 } from 'uuid'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { empty, type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { envKeyProvider } from '../connections/vault/env-keys.ts'
import { vaultOver } from '../connections/vault/vault.ts'
import { connectionStore } from '../storage/connection-store.ts'
import { vaultFor, vaultKeyFile } from './vault-key.ts'

const KEY = randomBytes(32).toString('base64')
const PROVIDERS = [
  { name: 'mail', title: 'Mail', auth: { kind: 'secret', fields: [{ name: 'pass', title: 'Password' }] } },
] as const

let db: TestDatabase
let dataDir: string

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  dataDir = await mkdtemp(join(tmpdir(), 'bailiff-vault-'))
  onTestFinished(() => rm(dataDir, { recursive: true }))
})

interface Wanted {
  readonly vaultKey?: string
  readonly demo?: boolean
  readonly providers?: typeof PROVIDERS
}

const start = ({ vaultKey, demo = false, providers }: Wanted) =>
  vaultFor({
    settings: { dataDir, vaultKey: vaultKey ?? null },
    demo,
    parts: providers === undefined ? {} : { providers },
    database: db.database,
  })

async function storeSecret(key: string): Promise<void> {
  const organizationId = uuidv7()
  const organization = { id: organizationId, slug: organizationId, name: 'Test' }
  await db.database.kysely.insertInto('agent.organizations').values(organization).execute()
  const id = uuidv7()
  const secrets = await vaultOver(envKeyProvider(key)).sealAll({ organizationId, connectionId: id }, { pass: 'x' })
  await connectionStore(db.database).create({
    id,
    organizationId,
    provider: 'mail',
    label: 'main',
    settings: {},
    credentials: { auth: 'secret', secrets, account: null, scope: null, expiresAt: null },
    by: { kind: 'system', id: 'test', name: 'test' },
  })
}

test('without providers and without stored secrets no key is needed', async () => {
  expect(await start({})).toBeNull()
})

test('a server that lets people connect accounts does not start without a key, and says how to make one', async () => {
  const starting = start({ providers: PROVIDERS })
  await expect(starting).rejects.toMatchObject({
    name: 'VaultKeyMissing',
    message: expect.stringMatching(/mail.*openssl rand -base64 32.*BAILIFF_VAULT_KEY/),
  })
})

test('nor does one on a database with stored secrets, whatever its config offers', async () => {
  await storeSecret(KEY)
  await expect(start({})).rejects.toThrow('secrets of connections are stored')
  expect((await start({ vaultKey: KEY }))?.keys.currentId).toBe(envKeyProvider(KEY).currentId)
})

test('a key that cannot open what is stored is found out at the start', async () => {
  await storeSecret(`lost:${KEY}`)
  const other = randomBytes(32).toString('base64')
  await expect(start({ vaultKey: other })).rejects.toThrow('lost (1 stored)')
  expect(await start({ vaultKey: `${other},lost:${KEY}` })).not.toBeNull()
})

test('a demo makes a key that only its owner reads, says so, and keeps it', async () => {
  const first = await start({ demo: true, providers: PROVIDERS })
  expect(first?.notices.join()).toContain(vaultKeyFile(dataDir))
  expect((await stat(vaultKeyFile(dataDir))).mode & 0o777).toBe(0o600)
  expect(first?.notices.join()).not.toContain((await readFile(vaultKeyFile(dataDir), 'utf8')).trim())
  const second = await start({ demo: true, providers: PROVIDERS })
  expect(second?.keys.currentId).toBe(first?.keys.currentId)
})

test('a key of the environment comes before the file, and makes none', async () => {
  expect((await start({ demo: true, vaultKey: KEY }))?.notices).toEqual([])
  await expect(stat(vaultKeyFile(dataDir))).rejects.toMatchObject({ code: 'ENOENT' })
})

test('a file that holds no key is named, and never replaced', async () => {
  await writeFile(vaultKeyFile(dataDir), 'hunter2')
  const error = await start({ demo: true }).catch((raised: unknown) => raised)
  expect(error).toMatchObject({ name: 'VaultKeyMissing', message: expect.stringContaining(vaultKeyFile(dataDir)) })
  expect(String(error)).not.toContain('hunter2')
  expect(await readFile(vaultKeyFile(dataDir), 'utf8')).toBe('hunter2')
})
