import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { NYLAS_GRANT, type NylasSettings, type NylasSimulator, startNylasSimulator } from './nylas.ts'
import { readOutbox } from './smtp-server.ts'

const open: NylasSimulator[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((nylas) => nylas.close()))
})

async function started(settings: NylasSettings = {}): Promise<NylasSimulator> {
  const nylas = await startNylasSimulator(settings)
  open.push(nylas)
  return nylas
}

interface Part {
  readonly key?: string
  readonly apiKey?: string
  readonly grant?: string
  readonly message?: object
}

const MESSAGE = { to: [{ email: 'jo@acme.test' }], subject: 'Grüße 👩‍👩‍👧', body: 'Hi Jo\nä' }

async function post(
  nylas: NylasSimulator,
  { key, apiKey = nylas.apiKey, grant = NYLAS_GRANT, message = MESSAGE }: Part = {},
) {
  const response = await fetch(`${nylas.url}/v3/grants/${encodeURIComponent(grant)}/messages/send`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
    body: JSON.stringify(message),
  })
  const { headers, status } = response
  const body = (await response.json()) as {
    readonly error?: { readonly type: string }
    readonly data?: { readonly id?: string }
  }
  return {
    status,
    type: body.error?.type ?? null,
    id: body.data?.id ?? null,
    replayed: headers.get('idempotent-response'),
    headers,
  }
}

describe('a key', () => {
  test('is answered with what was stored, and one message goes out', async () => {
    const nylas = await started()
    const first = await post(nylas, { key: 'k' })
    const again = await post(nylas, { key: 'k' })
    expect(first).toMatchObject({ status: 200, replayed: null, id: expect.any(String) })
    expect(again).toMatchObject({ status: 200, replayed: 'true', id: first.id })
    expect(nylas.delivered).toHaveLength(1)
    expect(first.headers.get('x-request-id')).not.toBe(null)
    expect(first.headers.get('x-fastly-id')).not.toBe(null)
  })

  test('is forgotten after an hour: the same message goes out again', async () => {
    let now = 0
    const nylas = await started({ now: () => now })
    await post(nylas, { key: 'k' })
    now = 3_599_999
    expect(await post(nylas, { key: 'k' })).toMatchObject({ replayed: 'true' })
    now = 3_600_000
    expect(await post(nylas, { key: 'k' })).toMatchObject({ status: 200, replayed: null })
    expect(nylas.delivered).toHaveLength(2)
  })

  test('belongs to one grant and one message, and without one every request is a message', async () => {
    const other = '00000000-0000-4000-8000-000000000003'
    const nylas = await started()
    nylas.grant(other, {})
    await post(nylas, { key: 'k' })
    expect(await post(nylas, { key: 'k', grant: other })).toMatchObject({ status: 200, replayed: null })
    expect(await post(nylas, { key: 'k', message: { ...MESSAGE, body: 'Other' } })).toMatchObject({
      status: 409,
      type: 'api.invalid_idempotent_request',
    })
    await post(nylas)
    await post(nylas)
    expect(nylas.delivered).toHaveLength(4)
    expect(await post(nylas, { key: 'x'.repeat(257) })).toMatchObject({
      status: 400,
      type: 'api.invalid_idempotency_key',
    })
  })

  test('that is in use is a conflict, until the first request is through', async () => {
    const nylas = await started()
    nylas.provider({ kind: 'slow', conflicts: 2 })
    const first = post(nylas, { key: 'k' })
    const conflict = { status: 409, type: 'api.concurrent_idempotent_request' }
    while ((await post(nylas, { key: 'k' })).status !== 409);
    await post(nylas, { key: 'k' })
    expect(await first).toMatchObject({ status: 200, replayed: null })
    expect(nylas.requests.filter(({ status }) => status === conflict.status).length).toBeGreaterThanOrEqual(2)
    expect(nylas.delivered).toHaveLength(1)
  })

  test.each([
    [{ kind: 'timed_out', sent: true }, 504, 1],
    [{ kind: 'timed_out', sent: false }, 504, 0],
    [{ kind: 'refused' }, 422, 0],
    [{ kind: 'partial' }, 402, 1],
    [{ kind: 'throttled', retryAfterS: 3 }, 429, 0],
    [{ kind: 'unauthorized' }, 401, 0],
  ] as const)('stores a failure as well: %j', async (event, status, delivered) => {
    const nylas = await started()
    nylas.provider(event)
    expect(await post(nylas, { key: 'k' })).toMatchObject({ status, replayed: null })
    expect(await post(nylas, { key: 'k' })).toMatchObject({ status, replayed: 'true' })
    expect(nylas.delivered).toHaveLength(delivered)
  })

  test('keeps the answer that was lost on the way', async () => {
    const nylas = await started()
    nylas.play({ kind: 'lost_answer' })
    await expect(post(nylas, { key: 'k' })).rejects.toThrow('fetch failed')
    expect(nylas.delivered).toHaveLength(1)
    expect(await post(nylas, { key: 'k' })).toMatchObject({ status: 200, replayed: 'true' })
    expect(nylas.delivered).toHaveLength(1)
  })
})

describe('what is refused', () => {
  test('before the key is looked at is not stored under it', async () => {
    const nylas = await started()
    expect(await post(nylas, { key: 'k', apiKey: 'wrong' })).toMatchObject({
      status: 401,
      type: 'token.unauthorized_access',
    })
    expect(await post(nylas, { key: 'k', grant: 'nobody' })).toMatchObject({ status: 404, type: 'api.not_found_error' })
    expect(await post(nylas, { key: 'k' })).toMatchObject({ status: 200, replayed: null })
  })

  test('depends on the message and on the grant', async () => {
    const nylas = await started()
    expect(await post(nylas, { message: { subject: 'x' } })).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
    })
    nylas.grant(NYLAS_GRANT, { maySend: false })
    expect(await post(nylas)).toMatchObject({ status: 403, type: 'insufficient_scopes' })
    nylas.grant(NYLAS_GRANT, { status: 'invalid' })
    expect(await post(nylas)).toMatchObject({ status: 401, type: 'unauthorized' })
    const headers = { authorization: `Bearer ${nylas.apiKey}` }
    const grant = await fetch(`${nylas.url}/v3/grants/${NYLAS_GRANT}`, { headers })
    expect(await grant.json()).toMatchObject({ data: { grant_status: 'invalid', email: 'team@mailbox.test' } })
  })
})

test('what left is filed as a mail that a mail program reads', async () => {
  const outboxDir = await mkdtemp(join(tmpdir(), 'bailiff-outbox-'))
  const nylas = await started({ outboxDir })
  const long = 'Sehr langer Betreff mit Umlauten: äöü '.repeat(5).trim()
  const to = [{ email: 'jo@acme.test' }, { email: 'sam@acme.test' }]
  const custom_headers = [{ name: 'X-Bailiff-Op', value: 'op-1\r\nBcc: x@evil.test' }]
  await post(nylas)
  await post(nylas, { message: { to, subject: long, body: 'x'.repeat(500), custom_headers } })
  const [first, second, ...others] = await readOutbox(outboxDir)
  expect(others).toEqual([])
  expect(first).toMatchObject({ from: 'team@mailbox.test', subject: MESSAGE.subject, deliveredTo: ['jo@acme.test'] })
  expect(first?.text).toBe(MESSAGE.body)
  expect(second).toMatchObject({ subject: long, to: ['jo@acme.test', 'sam@acme.test'], text: 'x'.repeat(500) })
  expect(second?.headers.has('bcc')).toBe(false)
  await rm(outboxDir, { recursive: true })
})

test('everything can be forgotten', async () => {
  const nylas = await started()
  await post(nylas, { key: 'k' })
  nylas.provider({ kind: 'refused' })
  nylas.reset()
  expect(nylas.delivered).toEqual([])
  expect(await post(nylas, { key: 'k' })).toMatchObject({ status: 200, replayed: null })
})
