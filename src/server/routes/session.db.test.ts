import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type RequestOptions, type ServerApp, serverApp } from '../../../test/server-app.ts'
import { empty, type TestDatabase, testDatabase } from '../../../test/setup/database.ts'

let db: TestDatabase
let server: ServerApp

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  server = await serverApp(db.database)
})

const HERE = { 'sec-fetch-site': 'same-origin' }

async function signInLink(): Promise<string> {
  const { user } = await server.identities.ensureOwner({
    organizationId: server.organizationId,
    email: 'owner@acme.test',
    name: 'Olga',
  })
  return server.identities.createSignInToken({ organizationId: server.organizationId, userId: user.id, ttlS: 60 })
}

function signIn(body: object, headers: Record<string, string> = HERE) {
  return server.request('/api/v1/session', { method: 'POST', body, headers })
}

async function cookie(body: object): Promise<string> {
  const response = await signIn(body)
  expect(response.status).toBe(200)
  return response.headers.get('set-cookie')?.split(';')[0] ?? ''
}

function withCookie(value: string, options: RequestOptions = {}): RequestOptions {
  return { ...options, headers: { cookie: value, ...options.headers } }
}

describe('signing in', () => {
  test('a link works once, and the session it opens is the person', async () => {
    const token = await signInLink()
    const response = await signIn({ token })
    expect(response.headers.get('set-cookie')).toMatch(/^session=[\w-]{43}; .*HttpOnly; SameSite=Strict$/)
    expect(await response.json()).toMatchObject({
      actor: { kind: 'user', name: 'Olga' },
      kind: 'admin',
      roles: ['owner', 'approver'],
      organization: { slug: 'acme', selfApproval: false },
      server: { scripted: true },
    })
    expect((await signIn({ token })).status).toBe(401)
  })

  test('of many uses of one link at once, one wins', async () => {
    const token = await signInLink()
    const answers = await Promise.all(Array.from({ length: 8 }, () => signIn({ token })))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  })

  test('opening the page with a link does not use it up', async () => {
    const token = await signInLink()
    const page = await server.request(`/?token=${token}`)
    expect(page.headers.get('content-type')).toContain('text/html')
    expect(page.headers.get('set-cookie')).toBeNull()
    expect((await signIn({ token })).status).toBe(200)
  })

  test('a session opened with a key has the authority of the key, and ends with it', async () => {
    const session = await cookie({ apiKey: server.keys.approve })
    expect((await server.json('/api/v1/session', withCookie(session))).body).toMatchObject({
      actor: { kind: 'api_key', id: server.keyIds.approve },
      kind: 'approve',
    })
    expect((await server.request('/api/v1/rules', withCookie(session))).status).toBe(403)
    await server.identities.revokeApiKey(server.organizationId, server.keyIds.approve)
    expect((await server.request('/api/v1/session', withCookie(session))).status).toBe(401)
  })

  test('signing out ends the session itself, not only the cookie', async () => {
    const session = await cookie({ token: await signInLink() })
    expect(
      (await server.request('/api/v1/session', withCookie(session, { method: 'DELETE', headers: HERE }))).status,
    ).toBe(200)
    expect((await server.request('/api/v1/session', withCookie(session))).status).toBe(401)
  })

  test('a foreign page cannot sign its visitor in', async () => {
    const token = await signInLink()
    expect((await signIn({ token }, { origin: 'https://evil.example' })).status).toBe(403)
    expect((await signIn({ token }, { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await signIn({ token })).status).toBe(200)
  })

  test('guessing is stopped, for links, keys in the body and keys in the header', async () => {
    for (let attempt = 0; attempt < 5; attempt += 1) {
      expect((await signIn({ token: `guess-${attempt}` })).status).toBe(401)
      expect((await server.request('/api/v1/runs', { as: `bk_guess${attempt}` })).status).toBe(401)
    }
    const refused = await signIn({ token: await signInLink() })
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await server.request('/api/v1/runs', { as: 'bk_guess' })).status).toBe(429)
    // Who has a valid key is not locked out by somebody else's guesses.
    expect((await server.request('/api/v1/runs', { as: server.keys.run })).status).toBe(200)
  })
})

describe('what a session may change', () => {
  test('a change needs proof that our own page asked for it', async () => {
    const session = await cookie({ token: await signInLink() })
    const change = (headers: Record<string, string>) =>
      server.request('/api/v1/tools/notes.write/disable', withCookie(session, { method: 'POST', headers }))
    expect((await change({})).status).toBe(403)
    expect((await change({ origin: 'https://evil.example' })).status).toBe(403)
    expect((await change({ origin: 'null' })).status).toBe(403)
    expect((await change({ 'sec-fetch-site': 'same-site' })).status).toBe(403)
    expect((await change({ 'sec-fetch-site': 'same-origin', origin: 'https://evil.example' })).status).toBe(403)
    expect((await change({ origin: 'http://localhost' })).status).toBe(200)
    expect((await change(HERE)).status).toBe(200)
  })

  test('reading needs none', async () => {
    const session = await cookie({ token: await signInLink() })
    expect((await server.request('/api/v1/runs', withCookie(session))).status).toBe(200)
  })

  test('a run started in the console says so', async () => {
    const session = await cookie({ token: await signInLink() })
    const { body } = await server.json(
      '/api/v1/runs',
      withCookie(session, { method: 'POST', body: { definition: 'notes', input: { notes: [] } }, headers: HERE }),
    )
    expect(body).toMatchObject({ source: 'console', startedBy: { kind: 'user', name: 'Olga' } })
  })

  test('a viewer reads everything and changes nothing; a removed member is out at once', async () => {
    const member = { organizationId: server.organizationId, email: 'vera@acme.test', name: 'Vera' }
    const { id } = await server.identities.setMember({ ...member, role: 'viewer' })
    const token = await server.identities.createSignInToken({
      organizationId: server.organizationId,
      userId: id,
      ttlS: 60,
    })
    const session = await cookie({ token })
    for (const path of ['runs', 'approvals', 'tools', 'definitions', 'rules', 'grants', 'usage']) {
      expect((await server.request(`/api/v1/${path}`, withCookie(session))).status).toBe(200)
    }
    expect(
      (
        await server.request(
          '/api/v1/tools/notes.write/disable',
          withCookie(session, { method: 'POST', headers: HERE }),
        )
      ).status,
    ).toBe(403)
    await server.identities.removeMember(server.organizationId, id)
    expect((await server.request('/api/v1/runs', withCookie(session))).status).toBe(401)
  })
})
