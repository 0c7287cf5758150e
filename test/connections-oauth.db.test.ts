import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { unnamed } from '../src/storage/statement.ts'
import { ADA, type OAuthScene, oauthScene } from './oauth-scene.ts'
import { ACCESS_TTL_S, REDIRECT_URI } from './setup/authorization-server.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'

let db: TestDatabase
let scene: OAuthScene

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  scene = await oauthScene(db.database)
  return () => scene.server.close()
})

const refreshes = (): string[] => scene.server.tokenRequests.filter((grant) => grant !== 'authorization_code')

test('a person signs in once, and calls act with a live token from then on', async () => {
  const connection = await scene.connect()
  expect(connection).toMatchObject({
    provider: 'mailbox',
    label: 'sales',
    state: 'connected',
    auth: 'oauth2',
    account: 'jo@acme.test',
    changedBy: ADA,
  })
  expect(connection.scope?.split(' ').toSorted()).toEqual(['email', 'offline_access', 'openid'])
  expect(connection.expiresAt?.getTime()).toBeGreaterThan(Date.now() + (ACCESS_TTL_S - 60) * 1000)
  expect(await scene.server.accepts(await scene.tokenFor(connection.id))).toBe(true)
  expect(scene.server.tokenRequests).toEqual(['authorization_code'])
})

describe('a sign-in', () => {
  test('uses PKCE with S256, a state of its own and the exact address of this server', async () => {
    const [one, two] = [new URL(await scene.begin()), new URL(await scene.begin({ label: 'b' }))]
    const asked = one.searchParams
    expect(asked.get('code_challenge_method')).toBe('S256')
    expect(asked.get('redirect_uri')).toBe(REDIRECT_URI)
    expect(asked.get('state')?.length).toBeGreaterThan(40)
    expect(asked.get('state')).not.toBe(two.searchParams.get('state'))
    expect(asked.get('code_challenge')).not.toBe(two.searchParams.get('code_challenge'))
  })

  test('comes back once: of any number of returns with one state, one connects', async () => {
    const url = await scene.server.browse(await scene.begin())
    const outcomes = await Promise.all([scene.signedIn(url), scene.signedIn(url), scene.signedIn(url)])
    expect(outcomes.map(({ kind }) => kind).toSorted()).toEqual(['connected', 'unknown', 'unknown'])
    expect(await scene.signedIn(url)).toEqual({ kind: 'unknown' })
    expect(scene.server.tokenRequests).toEqual(['authorization_code'])
  })

  test('with an altered, missing or doubled state is unknown, and asks the provider nothing', async () => {
    const url = await scene.server.browse(await scene.begin())
    const state = url.searchParams.get('state') ?? ''
    for (const states of [[], [`${state}x`], [state.slice(1)], [state, state], ['']]) {
      const altered = new URL(url)
      altered.searchParams.delete('state')
      for (const value of states) altered.searchParams.append('state', value)
      expect(await scene.signedIn(altered)).toEqual({ kind: 'unknown' })
    }
    expect(scene.server.tokenRequests).toEqual([])
    expect((await scene.signedIn(url)).kind).toBe('connected')
  })

  test('that took longer than ten minutes is unknown', async () => {
    const url = await scene.server.browse(await scene.begin())
    await db.database.query(unnamed(`UPDATE agent.connection_authorizations SET expires_at = now()`))
    expect(await scene.signedIn(url)).toEqual({ kind: 'unknown' })
  })

  test('with the code of another sign-in fails: its verifier is the wrong one', async () => {
    const [ours, theirs] = [
      await scene.server.browse(await scene.begin()),
      await scene.server.browse(await scene.begin({ label: 'b' })),
    ]
    const mixed = new URL(ours)
    mixed.searchParams.set('code', theirs.searchParams.get('code') ?? '')
    expect(await scene.signedIn(mixed)).toEqual({ kind: 'declined', code: 'invalid_grant' })
    expect(await scene.core.connections.list(scene.organizationId)).toEqual([])
  })

  test('that names another issuer is refused before the code is used', async () => {
    const url = await scene.server.browse(await scene.begin())
    expect(url.searchParams.get('iss')).toBe(scene.server.issuer)
    url.searchParams.set('iss', 'https://evil.test')
    expect(await scene.signedIn(url)).toMatchObject({ kind: 'misconfigured' })
    expect(scene.server.tokenRequests).toEqual([])
  })

  test('that the person declines says so', async () => {
    const url = new URL(await scene.begin())
    const back = new URL(REDIRECT_URI)
    const state = url.searchParams.get('state') ?? ''
    back.search = new URLSearchParams({ error: 'access_denied', state, iss: scene.server.issuer }).toString()
    expect(await scene.signedIn(back)).toEqual({ kind: 'declined', code: 'access_denied' })
  })

  test('that began in one browser does not end in another', async () => {
    const url = await scene.server.browse(await scene.begin({ browser: 'cookie of Ada' }))
    expect(await scene.signedIn(url, 'cookie of Mallory')).toEqual({ kind: 'other_browser' })
    expect(await scene.signedIn(url, 'cookie of Ada')).toEqual({ kind: 'unknown' })
    const again = await scene.server.browse(await scene.begin({ browser: 'cookie of Ada' }))
    expect((await scene.signedIn(again, 'cookie of Ada')).kind).toBe('connected')
  })

  test('whose label was given away meanwhile keeps nothing and gives its tokens back', async () => {
    const url = await scene.server.browse(await scene.begin())
    await scene.connect()
    expect(await scene.signedIn(url)).toEqual({ kind: 'label_taken' })
    expect(await scene.core.connections.list(scene.organizationId)).toHaveLength(1)
  })
})

describe('connecting again', () => {
  async function reconnect(connectionId: string) {
    const request = {
      organizationId: scene.organizationId,
      connectionId,
      redirectUri: REDIRECT_URI,
      browser: null,
      by: ADA,
    }
    const begun = await scene.core.connections.reauthorize(request)
    if (begun.kind !== 'begun') return begun
    return scene.signedIn(await scene.server.browse(begun.authorizationUrl))
  }

  test('keeps the id and replaces every token', async () => {
    const { id } = await scene.connect()
    const before = await scene.tokenFor(id)
    await scene.core.connections.markNeedsReauth(scene.organizationId, id, 'password changed')
    expect(await reconnect(id)).toMatchObject({ kind: 'connected', connection: { id, state: 'connected' } })
    expect(await scene.tokenFor(id)).not.toBe(before)
  })

  test('with another account is refused: calls would go out in another name', async () => {
    const { id } = await scene.connect()
    await scene.core.connections.markNeedsReauth(scene.organizationId, id, 'password changed')
    scene.server.user = 'mallory@acme.test'
    expect(await reconnect(id)).toEqual({ kind: 'other_account' })
    expect(await scene.core.connections.get(scene.organizationId, id)).toMatchObject({ state: 'needs_reauth' })
  })

  test('is not possible for a connection that was revoked, before or meanwhile', async () => {
    const { id } = await scene.connect()
    const request = {
      organizationId: scene.organizationId,
      connectionId: id,
      redirectUri: REDIRECT_URI,
      browser: null,
      by: ADA,
    }
    const begun = await scene.core.connections.reauthorize(request)
    const url = await scene.server.browse(begun.kind === 'begun' ? begun.authorizationUrl : '')
    await scene.core.connections.revoke(scene.organizationId, id, ADA)
    expect(await scene.signedIn(url)).toEqual({ kind: 'unknown' })
    expect(await reconnect(id)).toEqual({ kind: 'refused', state: 'revoked' })
  })
})

describe('an access token that ends', () => {
  const nearlyEnded = (): void => scene.ahead(ACCESS_TTL_S - 30)
  const ended = (): void => scene.ahead(ACCESS_TTL_S + 5)

  test('is renewed a little before, and the new refresh token is the one that counts', async () => {
    const { id } = await scene.connect()
    const first = await scene.tokenFor(id)
    nearlyEnded()
    const second = await scene.tokenFor(id)
    expect(second).not.toBe(first)
    expect(await scene.server.accepts(second)).toBe(true)
    scene.ahead(2 * ACCESS_TTL_S)
    const third = await scene.tokenFor(id)
    expect(new Set([first, second, third]).size).toBe(3)
    expect(refreshes()).toEqual(['refresh_token', 'refresh_token'])
  })

  test('is renewed once, however many calls of one process meet its end', async () => {
    const { id } = await scene.connect()
    ended()
    const tokens = await Promise.all(Array.from({ length: 8 }, () => scene.tokenFor(id)))
    expect(new Set(tokens).size).toBe(1)
    expect(refreshes()).toEqual(['refresh_token'])
  })

  test('takes the connection out of use when the provider has withdrawn the grant', async () => {
    const { id } = await scene.connect()
    await scene.server.revokeAll()
    ended()
    await expect(scene.tokenFor(id)).rejects.toMatchObject({ code: 'connection_expired' })
    expect(await scene.core.connections.get(scene.organizationId, id)).toMatchObject({
      state: 'needs_reauth',
      reauthReason: expect.stringContaining('invalid_grant'),
    })
    await expect(scene.tokenFor(id)).rejects.toMatchObject({ code: 'connection_expired' })
    expect(refreshes()).toEqual(['refresh_token refused'])
  })

  test.each([
    ['answers with an error page', { status: 502, body: '<html>' }],
    ['is busy', { status: 503, body: '' }],
  ])('is a passing trouble when the provider %s, and the connection stays', async (_what, fault) => {
    const { id } = await scene.connect()
    ended()
    scene.server.tokenFault = fault
    await expect(scene.tokenFor(id)).rejects.toMatchObject({ name: 'RetryableUpstreamError' })
    expect(await scene.core.connections.get(scene.organizationId, id)).toMatchObject({ state: 'connected' })
    scene.server.tokenFault = null
    expect(await scene.server.accepts(await scene.tokenFor(id))).toBe(true)
  })

  test('is a passing trouble when the provider cannot be reached, and used to its end', async () => {
    const { id } = await scene.connect()
    const token = await scene.tokenFor(id)
    await scene.server.close()
    nearlyEnded()
    expect(await scene.tokenFor(id)).toBe(token)
    ended()
    await expect(scene.tokenFor(id)).rejects.toMatchObject({ name: 'RetryableUpstreamError' })
  })

  test('is not renewed for a connection that was revoked while the provider answered', async () => {
    const { id } = await scene.connect()
    ended()
    const reached = Promise.withResolvers<void>()
    const released = Promise.withResolvers<void>()
    scene.server.beforeToken = async () => {
      reached.resolve()
      await released.promise
    }
    const renewing = scene.tokenFor(id).catch((error: unknown) => error)
    await reached.promise
    const revoking = scene.core.connections.revoke(scene.organizationId, id, ADA)
    released.resolve()
    await Promise.all([renewing, revoking])
    expect(await scene.core.connections.get(scene.organizationId, id)).toMatchObject({ state: 'revoked' })
    const { rows } = await db.database.query(unnamed('SELECT field FROM agent.connection_secrets'))
    expect(rows).toEqual([])
  })
})

test('revoking a connection deletes its tokens here and at the provider', async () => {
  const { id } = await scene.connect()
  const token = await scene.tokenFor(id)
  expect(await scene.core.connections.revoke(scene.organizationId, id, ADA)).toMatchObject({ kind: 'changed' })
  expect(await scene.server.accepts(token)).toBe(false)
  await expect(scene.tokenFor(id)).rejects.toMatchObject({ code: 'connection_revoked' })
})
