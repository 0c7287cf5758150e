import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { v7 as uuidv7 } from 'uuid'
import { empty, type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { identityStore, type IdentityStore } from './identity-store.ts'
import { organizationStore } from './organization-store.ts'

let db: TestDatabase
let identities: IdentityStore
let organizationId: string
let otherId: string

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  const organizations = organizationStore(db.database)
  organizationId = (await organizations.ensure({ id: uuidv7(), slug: 'acme', name: 'Acme' })).id
  otherId = (await organizations.ensure({ id: uuidv7(), slug: 'other', name: 'Other' })).id
  identities = identityStore(db.database)
})

const OLGA = { email: 'olga@acme.test', name: 'Olga' }

test('a key answers for its organization with the rights of its kind', async () => {
  const expected = { run: ['member'], approve: ['approver'], admin: ['owner', 'approver'] }
  for (const kind of ['run', 'approve', 'admin'] as const) {
    const { id, secret } = await identities.createApiKey({ organizationId, kind, name: 'CI' })
    expect(secret).toMatch(/^bk_[\w-]{43}$/)
    expect(await identities.authenticateKey(secret)).toStrictEqual({
      organizationId,
      kind,
      roles: expected[kind],
      actor: { kind: 'api_key', id, name: 'CI' },
    })
  }
})

test('no secret is stored', async () => {
  const { secret } = await identities.createApiKey({ organizationId, kind: 'run', name: 'CI' })
  const { user } = await identities.ensureOwner({ organizationId, ...OLGA })
  const token = await identities.createSignInToken({ organizationId, userId: user.id, ttlS: 60 })
  const session = await identities.useSignInToken(token, 60)
  const stored = JSON.stringify([
    await db.database.kysely.selectFrom('agent.api_keys').selectAll().execute(),
    await db.database.kysely.selectFrom('agent.console_sessions').selectAll().execute(),
  ])
  for (const text of [secret, token, session?.token ?? '?']) expect(stored).not.toContain(text)
})

test.for(['', 'bk_', 'bk_unknown', 'x'.repeat(10_000), 'bk_\u0000'])(
  'what is no key answers nothing: %#',
  async (secret) => {
    expect(await identities.authenticateKey(secret)).toBeNull()
    expect(await identities.authenticateSession(secret)).toBeNull()
    expect(await identities.useSignInToken(secret, 60)).toBeNull()
    expect(await identities.openKeySession(secret, 60)).toBeNull()
  },
)

test('a revoked key is nobody, and only its own organization revokes it', async () => {
  const { id, secret } = await identities.createApiKey({ organizationId, kind: 'run', name: 'CI' })
  expect(await identities.revokeApiKey(otherId, id)).toBe(false)
  expect(await identities.revokeApiKey(organizationId, id)).toBe(true)
  expect(await identities.revokeApiKey(organizationId, id)).toBe(false)
  expect(await identities.authenticateKey(secret)).toBeNull()
  expect(await identities.listApiKeys(organizationId)).toMatchObject([{ id, revokedAt: expect.any(Date) }])
})

test('a rotated key keeps who it is, loses its old secret, and comes back after it was retired', async () => {
  const request = { organizationId, kind: 'admin', name: 'command line' } as const
  const first = await identities.rotateApiKey(request)
  const second = await identities.rotateApiKey(request)
  expect(second.id).toBe(first.id)
  expect(await identities.authenticateKey(first.secret)).toBeNull()
  await identities.retireSecret(first.secret)
  expect(await identities.authenticateKey(second.secret)).not.toBeNull()
  await identities.retireSecret(second.secret)
  expect(await identities.authenticateKey(second.secret)).toBeNull()
  const third = await identities.rotateApiKey(request)
  expect(third.id).toBe(first.id)
  expect(await identities.authenticateKey(third.secret)).not.toBeNull()
})

test('the owner is made once, whoever else starts at the same time', async () => {
  const made = await Promise.all(Array.from({ length: 5 }, () => identities.ensureOwner({ organizationId, ...OLGA })))
  expect(made.filter(({ created }) => created)).toHaveLength(1)
  expect(new Set(made.map(({ user }) => user.id)).size).toBe(1)
})

test('one person may belong to two organizations, with a role in each', async () => {
  const owner = await identities.setMember({ organizationId, ...OLGA, role: 'owner' })
  const viewer = await identities.setMember({
    organizationId: otherId,
    email: 'OLGA@acme.test',
    name: 'Olga',
    role: 'viewer',
  })
  expect(viewer.id).toBe(owner.id)
  const session = async (organization: string) => {
    const token = await identities.createSignInToken({ organizationId: organization, userId: owner.id, ttlS: 60 })
    return identities.authenticateSession((await identities.useSignInToken(token, 60))?.token ?? '')
  }
  expect(await session(organizationId)).toMatchObject({ organizationId, kind: 'admin', roles: ['owner', 'approver'] })
  expect(await session(otherId)).toMatchObject({ organizationId: otherId, kind: 'view', roles: ['viewer'] })
})

test('a sign-in token opens one session, of many tries at once', async () => {
  const { user } = await identities.ensureOwner({ organizationId, ...OLGA })
  const token = await identities.createSignInToken({ organizationId, userId: user.id, ttlS: 60 })
  const opened = await Promise.all(Array.from({ length: 10 }, () => identities.useSignInToken(token, 60)))
  const sessions = opened.filter((session) => session !== null)
  expect(sessions).toHaveLength(1)
  expect(await identities.authenticateSession(sessions[0]?.token ?? '')).toMatchObject({
    actor: { kind: 'user', id: user.id, name: 'Olga' },
  })
  // A link is no session, and a session is no link.
  expect(await identities.authenticateSession(token)).toBeNull()
  expect(await identities.useSignInToken(sessions[0]?.token ?? '', 60)).toBeNull()
})

test('links and sessions end with their time, and are removed', async () => {
  const { user } = await identities.ensureOwner({ organizationId, ...OLGA })
  const late = await identities.createSignInToken({ organizationId, userId: user.id, ttlS: -1 })
  expect(await identities.useSignInToken(late, 60)).toBeNull()
  const token = await identities.createSignInToken({ organizationId, userId: user.id, ttlS: 60 })
  const session = await identities.useSignInToken(token, -1)
  expect(await identities.authenticateSession(session?.token ?? '')).toBeNull()
  expect(await identities.removeExpired()).toBe(2)
})

test('a session ends with the membership or the key behind it', async () => {
  const { user } = await identities.ensureOwner({ organizationId, ...OLGA })
  const token = await identities.createSignInToken({ organizationId, userId: user.id, ttlS: 60 })
  const person = (await identities.useSignInToken(token, 60))?.token ?? ''
  const key = await identities.createApiKey({ organizationId, kind: 'approve', name: 'phone' })
  const machine = (await identities.openKeySession(key.secret, 60))?.token ?? ''
  expect(await identities.authenticateSession(machine)).toMatchObject({
    kind: 'approve',
    actor: { kind: 'api_key', id: key.id },
  })
  expect(await identities.removeMember(organizationId, user.id)).toBe(true)
  await identities.revokeApiKey(organizationId, key.id)
  expect(await identities.authenticateSession(person)).toBeNull()
  expect(await identities.authenticateSession(machine)).toBeNull()
})
