import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConnectionError } from '../tools/errors.ts'
import type { Connection, ConnectionState } from './connection.ts'
import { connectionResolver, type ResolverPorts } from './resolver.ts'

const ACME = 'acme'

function connection(part: Partial<Connection> & { id: string }): Connection {
  return {
    organizationId: ACME,
    provider: 'email',
    label: part.id,
    state: 'connected',
    settings: { host: `${part.id}.test` },
    auth: 'external',
    ...part,
  }
}

/** Every request is answered from one pile that holds other organizations' rows too: the resolver may not trust a store. */
function resolverOver(ports: Partial<ResolverPorts>) {
  return connectionResolver({
    store: { list: async () => [] },
    secrets: { read: async () => ({}) },
    vault: null,
    markNeedsReauth: async () => undefined,
    ...ports,
  })
}

function resolve(rows: readonly Connection[], connectionId: string | null = null) {
  const secrets = { read: async (id: string) => ({ pass: `secret of ${id}` }) }
  return resolverOver({ store: { list: async () => rows }, secrets }).resolve({
    organizationId: ACME,
    provider: 'email',
    connectionId,
  })
}

async function codeOf(answer: Promise<unknown>): Promise<string> {
  const error = await answer.then(() => undefined).catch((raised: unknown) => raised)
  if (error instanceof ConnectionError) return error.code
  throw new Error('no connection error was raised', { cause: error })
}

test('the only account of the organization is used, with its settings and its secrets', async () => {
  expect(await resolve([connection({ id: 'a' })])).toEqual({
    connectionId: 'a',
    provider: 'email',
    settings: { host: 'a.test' },
    secrets: { pass: 'secret of a' },
  })
})

describe('stable codes', () => {
  test.each<[string, Connection[], string]>([
    ['nothing is connected', [], 'connection_required'],
    ['the account has expired', [connection({ id: 'a', state: 'needs_reauth' })], 'connection_expired'],
    ['the account was removed', [connection({ id: 'a', state: 'revoked' })], 'connection_revoked'],
    ['there are two and none was chosen', [connection({ id: 'a' }), connection({ id: 'b' })], 'connection_ambiguous'],
    [
      'one of two has expired, so that taking the other would change the sender silently',
      [connection({ id: 'a', state: 'needs_reauth' }), connection({ id: 'b' })],
      'connection_ambiguous',
    ],
    ['another organization has one', [connection({ id: 'a', organizationId: 'other' })], 'connection_required'],
    ['another provider has one', [connection({ id: 'a', provider: 'calendar' })], 'connection_required'],
  ])('%s', async (_case, rows, code) => {
    expect(await codeOf(resolve(rows))).toBe(code)
  })

  test('a removed account does not stand in the way of the one that is left', async () => {
    const rows = [connection({ id: 'a', state: 'revoked' }), connection({ id: 'b' })]
    expect(await resolve(rows)).toMatchObject({ connectionId: 'b' })
  })

  test('the message about several accounts names them, and never more than a few', async () => {
    const rows = Array.from({ length: 9 }, (_, index) => connection({ id: `id-${index}`, label: `box ${index}` }))
    await expect(resolve(rows)).rejects.toThrow(/id-0 \(box 0\), .*id-4 \(box 4\) and 4 more/)
  })
})

describe('a chosen account', () => {
  const rows = [
    connection({ id: 'sales' }),
    connection({ id: 'ceo' }),
    connection({ id: 'old', state: 'revoked' }),
    connection({ id: 'stale', state: 'needs_reauth' }),
    connection({ id: 'theirs', organizationId: 'other' }),
    connection({ id: 'calendar', provider: 'calendar' }),
  ]

  test('is used if it is connected, and its state decides otherwise', async () => {
    expect(await resolve(rows, 'ceo')).toMatchObject({ connectionId: 'ceo' })
    expect(await codeOf(resolve(rows, 'old'))).toBe('connection_revoked')
    expect(await codeOf(resolve(rows, 'stale'))).toBe('connection_expired')
  })

  test('an id of another organization or provider reads exactly like an id that does not exist', async () => {
    const answers = await Promise.all(
      ['theirs', 'calendar', 'nowhere'].map((id) =>
        resolve(rows, id).catch((error: ConnectionError) => [error.code, error.message]),
      ),
    )
    expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toHaveLength(1)
    expect(answers[0]).toMatchObject(['connection_required', expect.any(String)])
  })
})

test('whatever the store answers, only a connected account of this organization and provider is handed out', async () => {
  const states: ConnectionState[] = ['connected', 'needs_reauth', 'revoked']
  const row = fc.record({
    id: fc.constantFrom('a', 'b', 'c', 'd'),
    organizationId: fc.constantFrom(ACME, 'other'),
    provider: fc.constantFrom('email', 'calendar'),
    state: fc.constantFrom(...states),
  })
  const rows = fc.uniqueArray(row, { selector: ({ id }) => id, maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(rows, fc.option(fc.constantFrom('a', 'b', 'c', 'd', 'e')), async (made, chosen) => {
      const pile = made.map((part) => connection(part))
      const credential = await resolve(pile, chosen).catch((error: unknown) => {
        if (error instanceof ConnectionError) return null
        throw error
      })
      const usable = pile.filter(
        ({ id, organizationId, provider, state }) =>
          organizationId === ACME &&
          provider === 'email' &&
          state === 'connected' &&
          (chosen === null || chosen === id),
      )
      expect([null, ...usable.map(({ id }) => id)]).toContain(credential?.connectionId ?? null)
    }),
  )
})

test('a fault of the store or of the secret source raises as it is', async () => {
  const down = new Error('database is down')
  const list = async () => Promise.reject(down)
  const read = async () => ({})
  const request = { organizationId: ACME, provider: 'email', connectionId: null }
  await expect(resolverOver({ store: { list }, secrets: { read } }).resolve(request)).rejects.toBe(down)
  const rows = async () => [connection({ id: 'a' })]
  const mounted = { store: { list: rows }, secrets: { read: async () => Promise.reject(down) } }
  await expect(resolverOver(mounted).resolve(request)).rejects.toBe(down)
  const sealed = { list: async () => [connection({ id: 'a', auth: 'secret' })] }
  const vault = { open: async () => Promise.reject(down) }
  await expect(resolverOver({ store: sealed, vault }).resolve(request)).rejects.toBe(down)
})

test('a secret is read for an account that is handed out, and for no other', async () => {
  const asked: string[] = []
  const secrets = {
    read: async (id: string) => {
      asked.push(id)
      return {}
    },
  }
  const request = { organizationId: ACME, provider: 'email', connectionId: null }
  const resolver = (rows: Connection[]) => resolverOver({ store: { list: async () => rows }, secrets })
  await codeOf(resolver([connection({ id: 'a', state: 'needs_reauth' })]).resolve(request))
  await codeOf(resolver([connection({ id: 'a' }), connection({ id: 'b' })]).resolve(request))
  expect(asked).toEqual([])
  await resolver([connection({ id: 'a' })]).resolve(request)
  expect(asked).toEqual(['a'])
})

describe('where the secrets come from', () => {
  const request = { organizationId: ACME, provider: 'email', connectionId: null }
  const rows = (auth: Connection['auth']) => ({ list: async () => [connection({ id: 'a', auth })] })

  test('the deployment for what it keeps itself, the vault for the rest', async () => {
    const secrets = { read: async () => ({ from: 'deployment' }) }
    const vault = { open: async () => ({ from: 'vault' }) }
    const from = async (auth: Connection['auth']) =>
      (await resolverOver({ store: rows(auth), secrets, vault }).resolve(request)).secrets['from']
    expect([await from('external'), await from('secret'), await from('oauth2')]).toEqual([
      'deployment',
      'vault',
      'vault',
    ])
  })

  test('a process without a vault raises rather than calling without the secret', async () => {
    const resolving = resolverOver({ store: rows('secret') }).resolve(request)
    await expect(resolving).rejects.toThrow('no vault key')
    expect(await resolving.catch((error: unknown) => error)).not.toBeInstanceOf(ConnectionError)
  })
})

test('choosing answers or refuses exactly as resolving does, and opens nothing', async () => {
  const states: ConnectionState[] = ['connected', 'needs_reauth', 'revoked']
  const row = fc.record({
    id: fc.constantFrom('a', 'b', 'c'),
    organizationId: fc.constantFrom(ACME, 'other'),
    provider: fc.constantFrom('email', 'calendar'),
    state: fc.constantFrom(...states),
  })
  const rows = fc.uniqueArray(row, { selector: ({ id }) => id, maxLength: 3 })
  await fc.assert(
    fc.asyncProperty(rows, fc.option(fc.constantFrom('a', 'b', 'c', 'd')), async (made, connectionId) => {
      let opened = 0
      const secrets = {
        read: async () => {
          opened += 1
          return {}
        },
      }
      const store = { list: async () => made.map((part) => connection(part)) }
      const resolver = resolverOver({ store, secrets })
      const request = { organizationId: ACME, provider: 'email', connectionId }
      const said = async (work: Promise<unknown>): Promise<unknown> =>
        work.catch((error: unknown) => (error instanceof ConnectionError ? [error.code, error.message] : error))
      const chosen = await said(resolver.choose(request))
      expect(opened).toBe(0)
      expect(await said(resolver.resolve(request).then((credential) => credential.connectionId))).toEqual(chosen)
    }),
  )
})

test('a connection that its provider refused is handed on, to be taken out of use', async () => {
  const marked: unknown[] = []
  const account = { organizationId: ACME, connectionId: 'a', reason: 'password changed' }
  await resolverOver({ markNeedsReauth: async (refused) => void marked.push(refused) }).refused(account)
  expect(marked).toEqual([account])
})
