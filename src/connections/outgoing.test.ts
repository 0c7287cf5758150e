import * as fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startVendorServer, type VendorServer } from '../../simulators/vendor-server.ts'
import { ValidationError } from '../tools/errors.ts'
import { outgoingGuard, OutgoingFailure, type OutgoingGuard } from './outgoing.ts'
import { allowancesOf, isPublicAddress } from './outgoing-address.ts'

/** A resolver that knows these names. */
const names =
  (known: Readonly<Record<string, readonly string[]>>) =>
  (host: string): Promise<readonly string[]> =>
    Promise.resolve(Object.hasOwn(known, host) ? (known[host] ?? []) : [])

const PUBLIC = '93.184.216.34'
const guard = outgoingGuard({
  resolve: names({
    'example.com': [PUBLIC, '2606:2800:220:1:248:1893:25c8:1946'],
    'rebind.example.com': [PUBLIC, '127.0.0.1'],
    'inside.example.com': ['10.0.0.8'],
  }),
})

async function reasonOf(url: string, by: OutgoingGuard = guard): Promise<string> {
  const error: unknown = await by.checkTarget(url).then(
    () => null,
    (raised: unknown) => raised,
  )
  if (error === null) return 'let out'
  if (error instanceof ValidationError) return error.message
  throw error
}

describe('an address that somebody else will visit', () => {
  test.each(['https://example.com/a?b=c#d', 'http://example.com', 'http://EXAMPLE.com.:80/', `https://${PUBLIC}/`])(
    '%s is let out',
    async (url) => {
      expect(await reasonOf(url)).toBe('let out')
    },
  )

  test('a name that cannot be found here is left to whoever visits it', async () => {
    expect(await reasonOf('https://only.known.elsewhere.example/')).toBe('let out')
  })

  test.each([
    ['file:///etc/passwd', 'is not an address of the web'],
    ['ftp://example.com/', 'is not an address of the web'],
    ['javascript:alert(1)', 'is not an address of the web'],
    ['data:text/html,hi', 'is not an address of the web'],
    ['//example.com/', 'is not an address of the web'],
    ['not a url', 'is not an address of the web'],
    ['', 'is not an address of the web'],
    [`https://example.com/${'a'.repeat(2_048)}`, 'is not an address of the web'],
    ['https://user@example.com/', 'carries credentials'],
    ['https://:secret@example.com/', 'carries credentials'],
    ['https://example.com:8443/', 'names a port that nothing is asked on'],
    ['http://example.com:22/', 'names a port that nothing is asked on'],
    ['http://127.0.0.1/', 'is not a public address'],
    ['http://127.1/', 'is not a public address'],
    ['http://0x7f000001/', 'is not a public address'],
    ['http://2130706433/', 'is not a public address'],
    ['http://017700000001/', 'is not a public address'],
    ['http://0/', 'is not a public address'],
    ['http://[::1]/', 'is not a public address'],
    ['http://[::]/', 'is not a public address'],
    ['http://[::ffff:127.0.0.1]/', 'is not a public address'],
    ['http://[::ffff:a9fe:a9fe]/', 'is not a public address'],
    ['http://[64:ff9b::7f00:1]/', 'is not a public address'],
    ['http://[2002:7f00:1::]/', 'is not a public address'],
    ['http://[fe80::1]/', 'is not a public address'],
    ['http://[fc00::1]/', 'is not a public address'],
    ['http://169.254.169.254/latest/meta-data/', 'is not a public address'],
    ['http://10.1.2.3/', 'is not a public address'],
    ['http://172.16.0.1/', 'is not a public address'],
    ['http://192.168.1.1/', 'is not a public address'],
    ['http://100.64.0.1/', 'is not a public address'],
    ['http://224.0.0.1/', 'is not a public address'],
    ['http://255.255.255.255/', 'is not a public address'],
    ['http://localhost/', 'is not a public address'],
    ['http://LOCALHOST./', 'is not a public address'],
    ['http://db.localhost/', 'is not a public address'],
    ['http://metadata.google.internal/', 'is not a public address'],
    ['http://printer.local/', 'is not a public address'],
    ['http://intranet/', 'is not a public address'],
    ['https://inside.example.com/', 'is not a public address'],
    ['https://rebind.example.com/', 'is not a public address'],
  ])('%s is refused: it %s', async (url, why) => {
    expect(await reasonOf(url)).toBe(`This address ${why}.`)
  })
})

test('every IPv4 address that is let out is let out in IPv6 clothes too, and every other in neither', () => {
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      expect(isPublicAddress(`::ffff:${address}`)).toBe(isPublicAddress(address))
    }),
    { numRuns: 1_000 },
  )
})

test.each([
  ['10.0.0.0/8', '10.0.0.0'],
  ['10.0.0.0/8', '10.255.255.255'],
  ['172.16.0.0/12', '172.31.255.255'],
  ['127.0.0.0/8', '127.255.255.254'],
  ['169.254.0.0/16', '169.254.0.1'],
  ['0.0.0.0/8', '0.1.2.3'],
  ['100.64.0.0/10', '100.127.255.255'],
  ['192.0.2.0/24', '192.0.2.7'],
  ['198.18.0.0/15', '198.19.0.1'],
  ['240.0.0.0/4', '250.0.0.1'],
  ['ff00::/8', 'ff02::1'],
  ['2001:db8::/32', '2001:db8::1'],
  ['::/128', '::'],
  ['what is no address', 'localhost'],
])('nothing of %s is public (%s)', (_range, address) => {
  expect(isPublicAddress(address)).toBe(false)
})

describe('what a deployment lets out besides', () => {
  test.each([
    ['127.0.0.1:1025', { host: '127.0.0.1', port: 1025 }, true],
    ['127.0.0.1:1025', { host: '127.0.0.1', port: 1026 }, false],
    ['Mail.Internal', { host: 'mail.internal', port: 25 }, true],
    ['mail.internal', { host: 'othermail.internal', port: 25 }, false],
    ['[::1]:25', { host: '::1', port: 25 }, true],
    ['[::1]:25', { host: '::1', port: 26 }, false],
    ['::1', { host: '::1', port: 26 }, true],
  ])('%s and %o: %s', (entry, destination, named) => {
    expect(allowancesOf([entry]).names(destination)).toBe(named)
  })

  test('a range holds its own addresses and no others, however they are written', () => {
    const allowed = allowancesOf(['10.1.0.0/16', 'fd00::/8'])
    expect(['10.1.2.3', '::ffff:10.1.2.3', 'fd12::1'].map((address) => allowed.holds(address))).toEqual([
      true,
      true,
      true,
    ])
    expect(['10.2.0.1', 'fe80::1', 'x'].map((address) => allowed.holds(address))).toEqual([false, false, false])
  })

  test('a name is let out wherever it leads, another name to the same place is not', async () => {
    const own = outgoingGuard({
      allow: ['mail.internal'],
      resolve: names({ 'mail.internal': ['10.0.0.5'], 'evil.example.com': ['10.0.0.5'] }),
    })
    expect(await own.addressOf({ host: 'mail.internal', port: 587 })).toBe('10.0.0.5')
    await expect(own.addressOf({ host: 'evil.example.com', port: 587 })).rejects.toThrow('not a public address')
  })

  test.each(['http://x', 'a b', '10.0.0.0/99', 'x/24', 'user@host', 'host?x', ''])('%j is no allowance', (entry) => {
    expect(() => allowancesOf([entry])).toThrow(JSON.stringify(entry))
  })
})

describe('asking', () => {
  let server: VendorServer
  let other: VendorServer
  beforeAll(async () => {
    server = await startVendorServer({ behaviour: ({ path }) => ({ status: 200, body: { path } }) })
    other = await startVendorServer({ behaviour: () => ({ status: 200, body: { other: true } }) })
  })
  beforeEach(() => {
    server.reset()
    other.reset()
  })
  afterAll(() => Promise.all([server.close(), other.close()]))

  const portOf = ({ url }: VendorServer): number => Number(new URL(url).port)
  /** Both servers under names of their own. */
  const inside = (allow: readonly string[] = [`a.test:${portOf(server)}`, `b.test:${portOf(other)}`]): OutgoingGuard =>
    outgoingGuard({ allow, resolve: names({ 'a.test': ['127.0.0.1'], 'b.test': ['127.0.0.1'] }) })
  const at = (path = ''): string => `http://a.test:${portOf(server)}/${path}`
  const kindOf = async (asking: Promise<unknown>): Promise<string> => {
    const error: unknown = await asking.then(
      () => null,
      (raised: unknown) => raised,
    )
    return error instanceof OutgoingFailure
      ? error.kind
      : error instanceof ValidationError
        ? error.message
        : String(error)
  }

  test('connects to the address that was checked, under the name that was asked', async () => {
    const answer = await inside().fetch(at('x'), { headers: { authorization: 'Bearer k' } })
    expect(JSON.parse(answer.body.toString())).toEqual({ path: '/x' })
    expect(answer).toMatchObject({ status: 200, url: at('x') })
    expect(server.requests[0]?.headers).toMatchObject({ host: `a.test:${portOf(server)}`, authorization: 'Bearer k' })
  })

  test('asks the resolver once: a second answer would not have been checked', async () => {
    let asked = 0
    const fickle = outgoingGuard({
      allow: [`a.test:${portOf(server)}`],
      resolve: async () => ((asked += 1) === 1 ? ['127.0.0.1'] : ['192.0.2.1']),
    })
    expect((await fickle.fetch(at())).status).toBe(200)
    expect(asked).toBe(1)
  })

  test('what is refused is not asked', async () => {
    expect(await kindOf(inside([]).fetch(at()))).toBe('This address names a port that nothing is asked on.')
    expect(await kindOf(guard.fetch('http://inside.example.com/'))).toBe('This address is not a public address.')
    expect(await kindOf(guard.fetch('http://nowhere.example.com/'))).toBe('This address cannot be found.')
    expect(server.requests).toEqual([])
  })

  test('follows no redirect unless asked to, and checks the one it follows', async () => {
    server.play({ kind: 'redirect', to: at('y') })
    expect(await kindOf(inside().fetch(at('x')))).toBe('too_many_redirects')
    server.play({ kind: 'redirect', to: 'http://169.254.169.254/' })
    expect(await kindOf(inside().fetch(at('x'), { maxRedirects: 3 }))).toBe('This address is not a public address.')
    server.play({ kind: 'redirect', to: at('y') }, { kind: 'redirect', to: at('z') })
    expect((await inside().fetch(at('x'), { maxRedirects: 2 })).url).toBe(at('z'))
  })

  test('sends no key on to another origin', async () => {
    server.play({ kind: 'redirect', to: `http://b.test:${portOf(other)}/` })
    const headers = { authorization: 'Bearer k', 'x-own-key': 'k', cookie: 'c=k', accept: 'text/html' }
    await inside().fetch(at(), { headers, maxRedirects: 1 })
    const sent = other.requests[0]?.headers ?? {}
    expect(sent.accept).toBe('text/html')
    expect(['authorization', 'x-own-key', 'cookie'].filter((name) => Object.hasOwn(sent, name))).toEqual([])
  })

  test('sends no body anywhere but where it was meant to go', async () => {
    server.play({ kind: 'redirect', to: `http://b.test:${portOf(other)}/` })
    const answer = await inside().fetch(at(), { method: 'POST', body: 'secret', maxRedirects: 5 })
    expect(answer.status).toBe(307)
    expect(other.requests).toEqual([])
  })

  test('gives up on what is too large, too slow, or breaks off', async () => {
    server.play({ kind: 'answer', status: 200, body: 'a'.repeat(2_000) })
    expect(await kindOf(inside().fetch(at(), { maxBytes: 1_999 }))).toBe('too_large')
    server.play({ kind: 'stalled_body' })
    expect(await kindOf(inside().fetch(at(), { timeoutMs: 100 }))).toBe('timeout')
    server.play({ kind: 'hang' })
    expect(await kindOf(inside().fetch(at(), { timeoutMs: 100 }))).toBe('timeout')
    server.play({ kind: 'reset' })
    expect(await kindOf(inside().fetch(at()))).toBe('transport')
  })

  test('ends with the call it belongs to, for the reason of that call', async () => {
    server.play({ kind: 'hang' })
    await expect(inside().fetch(at(), { signal: AbortSignal.timeout(50) })).rejects.toMatchObject({
      name: 'TimeoutError',
    })
  })
})
