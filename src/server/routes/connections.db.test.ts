import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startAuthorizationServer } from '../../../test/setup/authorization-server.ts'
import { findCanaries } from '../../../test/setup/canary.ts'
import { canarySecret } from '../../../test/setup/canary-sweep.ts'
import { empty, type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { type RequestOptions, type ServerApp, serverApp } from '../../../test/server-app.ts'
import type { ConnectionProvider } from '../../connections/provider.ts'

const SECRET = `${canarySecret('mail')}"quoted"/and+more`
const VAULT = { key: randomBytes(32).toString('base64') }
const MAIL: ConnectionProvider = {
  name: 'mail',
  title: 'Mail server',
  auth: {
    kind: 'secret',
    fields: [
      { name: 'pass', title: 'Password' },
      { name: 'totp', title: 'One-time secret', optional: true },
    ],
  },
  settings: z.strictObject({ host: z.string(), from: z.email() }),
  account: 'from',
}
const SETTINGS = { host: 'mail.acme.test', from: 'jo@acme.test' }

type Body = Record<string, unknown> & { readonly id: string; readonly items: readonly Record<string, unknown>[] }

let db: TestDatabase
let server: ServerApp

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  server = await serverApp(db.database, { providers: [MAIL], vault: VAULT })
})

const ask = (path: string, options: RequestOptions = {}) =>
  server.json<Body>(`/api/v1/connections${path}`, { as: server.keys.admin, ...options })

const post = (path: string, body?: object, as = server.keys.admin) => ask(path, { method: 'POST', body, as })

const connect = (part: object = {}) =>
  post('', { provider: 'mail', label: 'sales', settings: SETTINGS, secrets: { pass: SECRET }, ...part })

test('an account is connected with its secret, listed, connected again and uninstalled; the secret comes out nowhere', async () => {
  const made = await connect()
  expect(made).toMatchObject({
    status: 201,
    body: { provider: 'mail', label: 'sales', state: 'connected', auth: 'secret', account: 'jo@acme.test' },
  })
  const { id } = made.body
  await server.core.connections.markNeedsReauth(server.organizationId, id, 'password changed')
  const listed = await ask('')
  expect(listed.body.items).toMatchObject([{ id, state: 'needs_reauth', reauthReason: 'password changed' }])
  const again = await post(`/${id}/reconnect`, { secrets: { pass: `${SECRET}2` } })
  expect(again).toMatchObject({ status: 200, body: { connection: { id, state: 'connected', reauthReason: null } } })
  const shown = await ask(`/${id}`)
  expect(shown).toMatchObject({ status: 200, body: { settings: SETTINGS, changedBy: { kind: 'api_key' } } })
  const revoked = await post(`/${id}/revoke`)
  expect(revoked).toMatchObject({ status: 200, body: { id, state: 'revoked' } })
  expect(await post(`/${id}/reconnect`, { secrets: { pass: SECRET } })).toMatchObject({ status: 409 })
  const answers = [made, listed, again, shown, revoked].map(({ body }) => JSON.stringify(body))
  expect(await findCanaries(db.database, { secrets: [SECRET], texts: answers })).toEqual([])
})

test('several accounts of one provider stand side by side, each under its own label', async () => {
  await connect()
  const second = await connect({ label: 'support' })
  expect(second.status).toBe(201)
  expect(await connect()).toMatchObject({ status: 409, body: { code: 'conflict' } })
  expect((await ask('?provider=mail')).body.items).toHaveLength(2)
  expect((await ask('?provider=other')).body.items).toEqual([])
  await post(`/${second.body.id}/revoke`)
  expect((await ask('?state=revoked')).body.items).toMatchObject([{ label: 'support' }])
  expect((await connect({ label: 'support' })).status).toBe(201)
})

test('the providers say what they take', async () => {
  const { body } = await ask('/providers')
  expect(body.items).toMatchObject([
    {
      name: 'mail',
      auth: 'secret',
      fields: [
        { name: 'pass', title: 'Password', optional: false },
        { name: 'totp', optional: true },
      ],
      settings: { type: 'object', required: ['host', 'from'] },
    },
  ])
})

describe('what cannot be taken is named without being repeated', () => {
  test.each([
    ['no secret', { secrets: {} }, 'secrets.pass: Password is missing'],
    ['an empty secret', { secrets: { pass: '' } }, 'secrets.pass: Password is missing'],
    ['a field that is not there', { secrets: { pass: SECRET, [SECRET]: 'x' } }, 'pass, totp and nothing else'],
    ['a secret too long', { secrets: { pass: SECRET.repeat(900) } }, ''],
    ['a secret in the wrong place', { settings: { ...SETTINGS, from: SECRET } }, 'settings.from'],
    ['a setting that is not there', { settings: { ...SETTINGS, port: SECRET } }, 'settings'],
    ['a label of nothing', { label: '  ' }, 'label'],
    ['a label with an invisible character', { label: 'sa\u200Bles' }, 'label'],
    ['a provider that is not there', { provider: 'fax' }, 'no such provider'],
  ])('%s', async (_what, part, says) => {
    const { status, body } = await connect(part)
    expect(status).toBe(422)
    expect(body['detail']).toContain(says)
    expect(JSON.stringify(body)).not.toContain('hunter2')
    expect((await ask('')).body.items).toEqual([])
  })
})

describe('rights', () => {
  const NOBODY = '01890000-0000-7000-8000-000000000000'

  test('a key that starts runs or answers approvals neither sees nor changes connections', async () => {
    const { id } = (await connect()).body
    for (const as of [server.keys.run, server.keys.approve]) {
      for (const path of ['', '/providers', `/${id}`]) expect((await ask(path, { as })).status).toBe(403)
      for (const path of ['', '/authorize', `/${id}/revoke`, `/${id}/reconnect`])
        expect((await post(path, {}, as)).status).toBe(403)
    }
    expect((await server.request('/api/v1/connections')).status).toBe(401)
  })

  test('a connection of another organization looks like one that does not exist', async () => {
    const { id } = (await connect()).body
    const as = server.stranger
    const answers = async (which: string) => [
      await ask(`/${which}`, { as }),
      await post(`/${which}/revoke`, undefined, as),
      await post(`/${which}/reconnect`, { secrets: { pass: 'x' } }, as),
      await post(`/${which}/reconnect`, {}, as),
    ]
    const theirs = await answers(id)
    expect(theirs.map(({ status }) => status)).toEqual([404, 404, 404, 404])
    expect(theirs).toEqual(await answers(NOBODY))
    expect((await ask('', { as })).body.items).toEqual([])
    expect((await ask(`/${id}`)).body['state']).toBe('connected')
  })
})

test('a server without a vault key takes no secret, and says what to do', async () => {
  await empty(db.database)
  server = await serverApp(db.database, { providers: [MAIL] })
  expect(await connect()).toMatchObject({ status: 503, body: { remedy: expect.stringContaining('BAILIFF_VAULT_KEY') } })
})

describe('a provider that people sign in at', () => {
  const withProvider = async () => {
    const provider = await startAuthorizationServer()
    await empty(db.database)
    server = await serverApp(db.database, { providers: [provider.provider, MAIL], vault: VAULT })
    return provider
  }
  const NEW = { provider: 'mailbox', label: 'sales' }

  test('sends the person there and back, to a page that says what came of it', async () => {
    const provider = await withProvider()
    const begun = await post('/authorize', NEW)
    expect(begun.status).toBe(201)
    const back = await provider.browse(String(begun.body['authorizationUrl']))
    // Another name of the server than its own: the address that counts is configured, not asked for.
    const page = await server.request(`${back.pathname}${back.search}`, { headers: { host: 'localhost' } })
    expect(page.status).toBe(200)
    expect(await page.text()).toContain('mailbox “sales” is connected as jo@acme.test')
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
    const { items } = (await ask('')).body
    expect(items).toMatchObject([{ label: 'sales', auth: 'oauth2', changedBy: { kind: 'api_key' } }])
    expect((await server.request(`${back.pathname}${back.search}`)).status).toBe(400)
    const again = await post(`/${String(items[0]?.['id'])}/reconnect`, {})
    expect(again.body).toMatchObject({ authorization: { authorizationUrl: expect.stringContaining(provider.issuer) } })
    await provider.close()
  })

  test('comes back to the browser it was begun in, which has a cookie for that', async () => {
    const provider = await withProvider()
    const session = await server.identities.openKeySession(server.keys.admin, 600)
    const signedIn = { cookie: `session=${session?.token}`, 'sec-fetch-site': 'same-origin' }
    const begin = async () => {
      const response = await server.request('/api/v1/connections/authorize', {
        method: 'POST',
        body: NEW,
        headers: signedIn,
      })
      const [cookie = ''] = response.headers.getSetCookie()
      const { authorizationUrl } = (await response.json()) as { authorizationUrl: string }
      return { cookie, back: await provider.browse(authorizationUrl) }
    }
    const first = await begin()
    expect(first.cookie).toMatch(/^session_connect=[\w-]{43};/)
    expect(first.cookie).toMatch(/HttpOnly/)
    expect(first.cookie).toMatch(/SameSite=Lax/)
    expect((await server.request(`${first.back.pathname}${first.back.search}`)).status).toBe(403)
    const second = await begin()
    const cookie = second.cookie.split(';')[0] ?? ''
    const page = await server.request(`${second.back.pathname}${second.back.search}`, { headers: { cookie } })
    expect(page.status).toBe(200)
    await provider.close()
  })

  test('takes no secrets, and one that takes secrets has no sign-in', async () => {
    const provider = await withProvider()
    expect(await post('', { ...NEW, secrets: { pass: 'x' } })).toMatchObject({ status: 422 })
    const mail = await post('/authorize', { provider: 'mail', label: 'x', settings: SETTINGS })
    expect(mail).toMatchObject({ status: 422, body: { detail: expect.stringContaining('takes secrets') } })
    await provider.close()
    expect(await post('/authorize', NEW)).toMatchObject({ status: 503, body: { code: 'unavailable' } })
  })

  test('shows nothing of what the address of the return holds', async () => {
    const text = await (
      await server.request(
        '/api/v1/connections/oauth/callback?state=%3Cscript%3E&error=%3Cb%3Eevil&error_description=x',
      )
    ).text()
    expect(text).not.toContain('script>')
    expect(text).not.toContain('evil')
  })
})
