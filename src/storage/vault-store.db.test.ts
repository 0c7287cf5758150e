import { randomBytes } from 'node:crypto'
import { v7 as uuidv7 } from 'uuid'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { empty, type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { envKeyProvider, type EnvKeys } from '../connections/vault/env-keys.ts'
import { type KeyProvider, VaultFault } from '../connections/vault/key-provider.ts'
import { rotateSecrets, type SecretStore, vaultStatus } from '../connections/vault/rotation.ts'
import { vaultOver } from '../connections/vault/vault.ts'
import { connectionStore } from './connection-store.ts'
import { unnamed } from './statement.ts'
import { credentialStore, secretStore } from './vault-store.ts'

const [OLD, NEW] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')]
const old = envKeyProvider(`old:${OLD}`)
const both = envKeyProvider(`new:${NEW},old:${OLD}`)
const next = envKeyProvider(`new:${NEW}`)

let db: TestDatabase
let store: SecretStore
let organizationId: string

beforeAll(async () => {
  db = await testDatabase()
  store = secretStore(db.database)
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  organizationId = await organization()
})

async function organization(): Promise<string> {
  const id = uuidv7()
  await db.database.kysely.insertInto('agent.organizations').values({ id, slug: id, name: 'Test' }).execute()
  return id
}

async function connection(values: Readonly<Record<string, string>>, keys: KeyProvider = old): Promise<string> {
  const id = uuidv7()
  const secrets = await vaultOver(keys).sealAll({ organizationId, connectionId: id }, values)
  await connectionStore(db.database).create({
    id,
    organizationId,
    provider: 'mail',
    label: id,
    settings: {},
    credentials: { auth: 'secret', secrets, account: null, scope: null, expiresAt: null },
    by: { kind: 'system', id: 'test', name: 'test' },
  })
  return id
}

async function opened(connectionId: string, keys: EnvKeys): Promise<Readonly<Record<string, string>>> {
  const owner = { organizationId, connectionId }
  const stored = await credentialStore(db.database).read(owner)
  return vaultOver(keys).openAll(owner, stored?.secrets ?? [])
}

test('secrets come back for their own connection of their own organization alone', async () => {
  const id = await connection({ user: 'jo', pass: 'hunter2' })
  expect(await opened(id, old)).toEqual({ user: 'jo', pass: 'hunter2' })
  const stored = credentialStore(db.database)
  expect(await stored.read({ organizationId: await organization(), connectionId: id })).toBeNull()
  expect(await stored.read({ organizationId, connectionId: uuidv7() })).toBeNull()
})

test.each([
  ['to another field', `SET field = 'user'`],
  ['to another connection', `SET connection_id = (SELECT id FROM agent.connections WHERE label = 'target')`],
])('a row that somebody with the database moves %s does not open', async (_where, change) => {
  const id = await connection({ pass: 'hunter2' })
  const target = await connection({})
  await db.database.query(unnamed(`UPDATE agent.connections SET label = 'target' WHERE id = $1`), [target])
  const { affected } = await db.database.query(unnamed(`UPDATE agent.connection_secrets ${change}`))
  expect(affected).toBe(1)
  const read = (connectionId: string) => credentialStore(db.database).read({ organizationId, connectionId })
  const holder = (await read(target)) === null ? id : target
  await expect(opened(holder, old)).rejects.toThrow(VaultFault)
})

describe('rotation', () => {
  test('brings every secret under the first key, after which the old one can go', async () => {
    const ids = await Promise.all(Array.from({ length: 60 }, (_, n) => connection({ user: `u${n}`, pass: `p${n}` })))
    expect(await vaultStatus({ keys: both, store })).toEqual({
      currentKey: 'new',
      keys: [{ keyId: 'old', secrets: 120 }],
      remaining: 120,
    })
    const batches: number[] = []
    const report = await rotateSecrets({ keys: both, store }, ({ resealed }) => batches.push(resealed))
    expect(report).toEqual({ resealed: 120, unreadable: 0, remaining: 0 })
    expect(batches).toEqual([100, 120])
    expect(await opened(ids[17] ?? '', next)).toEqual({ user: 'u17', pass: 'p17' })
    expect(await rotateSecrets({ keys: both, store })).toEqual({ resealed: 0, unreadable: 0, remaining: 0 })
  })

  test('goes on where it was stopped, and everything can be read all the while', async () => {
    const ids = await Promise.all(Array.from({ length: 110 }, (_, n) => connection({ pass: `p${n}` })))
    const stopped = new Error('killed')
    const rotating = rotateSecrets({ keys: both, store }, () => {
      throw stopped
    })
    await expect(rotating).rejects.toBe(stopped)
    expect((await vaultStatus({ keys: both, store })).remaining).toBe(10)
    for (const [n, id] of ids.entries()) expect(await opened(id, both)).toEqual({ pass: `p${n}` })
    expect(await rotateSecrets({ keys: both, store })).toEqual({ resealed: 10, unreadable: 0, remaining: 0 })
  })

  test('leaves a secret that was replaced meanwhile as it is now', async () => {
    const id = await connection({ pass: 'before' })
    const [was] = await store.sealedOtherwise('new', { limit: 1, after: null })
    const secrets = await vaultOver(both).sealAll({ organizationId, connectionId: id }, { pass: 'after' })
    const credentials = { auth: 'secret', secrets, account: null, scope: null, expiresAt: null } as const
    const by = { kind: 'system', id: 'test', name: 'test' } as const
    await connectionStore(db.database).reconnect({ organizationId, connectionId: id, credentials, by })
    if (was === undefined) throw new Error('nothing was stored')
    expect(await store.replace(was, was)).toBe(false)
    expect(await opened(id, next)).toEqual({ pass: 'after' })
  })

  test('passes over what no key at hand opens, and says how much that is', async () => {
    const lost = envKeyProvider(`lost:${randomBytes(32).toString('base64')}`)
    await connection({ pass: 'x' }, lost)
    const id = await connection({ pass: 'hunter2' })
    expect(await rotateSecrets({ keys: both, store })).toEqual({ resealed: 1, unreadable: 1, remaining: 1 })
    expect(await opened(id, next)).toEqual({ pass: 'hunter2' })
  })
})
