import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startVendorServer, type VendorFault, type VendorServer } from '../../../simulators/vendor-server.ts'
import { bufferedFetch, retryAfterMs } from './buffered-fetch.ts'
import { VendorError } from './vendor-error.ts'

let vendor: VendorServer
let elsewhere: VendorServer
beforeAll(async () => {
  vendor = await startVendorServer({ behaviour: () => ({ status: 200, body: { fine: true } }) })
  elsewhere = await startVendorServer({ behaviour: () => ({ status: 200, body: {} }) })
})
beforeEach(() => {
  vendor.reset()
  elsewhere.reset()
})
afterAll(() => Promise.all([vendor.close(), elsewhere.close()]))

const NEVER = new AbortController().signal
const ask = (options: Partial<Parameters<typeof bufferedFetch>[0]> = {}): Promise<Response> =>
  bufferedFetch({ vendor: 'acme', timeoutMs: 2_000, signal: NEVER, ...options })(`${vendor.url}/v1`, {
    method: 'POST',
    headers: { 'x-api-key': 'key' },
    body: '{}',
  })

test('answers what came, with its status and its headers', async () => {
  vendor.play({ kind: 'answer', status: 429, body: { error: 'slow down' }, headers: { 'retry-after': '3' } })
  const response = await ask()
  expect([response.status, response.headers.get('retry-after')]).toEqual([429, '3'])
  expect(await response.json()).toEqual({ error: 'slow down' })
})

test('an answer that may have no body is one all the same', async () => {
  vendor.play({ kind: 'answer', status: 204, body: '' })
  expect((await ask()).status).toBe(204)
})

describe('no answer', () => {
  const cases: readonly (readonly [string, VendorFault, Partial<Parameters<typeof bufferedFetch>[0]>, string])[] = [
    ['the vendor never answers', { kind: 'hang' }, { timeoutMs: 100 }, 'timeout'],
    ['the body never ends', { kind: 'stalled_body' }, { timeoutMs: 100 }, 'timeout'],
    ['the connection breaks off', { kind: 'reset' }, {}, 'transport'],
    ['the body is larger than expected', { kind: 'html' }, { maxBytes: 10 }, 'decode'],
  ]
  test.each(cases)('%s', async (...[, fault, options, trouble]) => {
    vendor.play(fault)
    await expect(ask(options)).rejects.toMatchObject({ name: 'VendorError', vendor: 'acme', trouble })
    expect(vendor.requests).toHaveLength(1)
  })

  test('a redirect is no answer, and no key goes where it points', async () => {
    vendor.play({ kind: 'redirect', to: `${elsewhere.url}/take` })
    await expect(ask()).rejects.toMatchObject({ trouble: 'redirected', status: 307 })
    expect(elsewhere.requests).toEqual([])
  })

  test('the end of the call is raised as what it is, and not as the vendor’s', async () => {
    vendor.play({ kind: 'hang' })
    const raised: unknown = await ask({ signal: AbortSignal.timeout(50) }).catch((error: unknown) => error)
    expect(raised).not.toBeInstanceOf(VendorError)
    expect(raised).toMatchObject({ name: 'TimeoutError' })
  })
})

test.each([
  ['3', 3_000],
  [' 0 ', 0],
  ['Tue, 01 Dec 2026 12:00:05 GMT', 5_000],
  ['Tue, 01 Dec 2026 11:00:00 GMT', 0],
  ['soon', null],
  ['-3', null],
  ['1.5', null],
  ['12345678', null],
  ['', null],
  [null, null],
  [undefined, null],
])('Retry-After %j is %j ms', (header, ms) => {
  expect(retryAfterMs(header, Date.parse('2026-12-01T12:00:00Z'))).toBe(ms)
})
