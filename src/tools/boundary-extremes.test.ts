import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anything } from '../../test/setup/anything.ts'
import { jsonBytes } from './json-size.ts'
import type { JsonValue } from './json.ts'
import { PLATFORM_OUTPUT_BYTES } from './models.ts'
import { normalise } from './normalise.ts'
import { redact, REDACTED } from './redact.ts'
import { encode, modelPayload } from './render.ts'
import { boundResult } from './result-boundary.ts'
import { success } from './result.ts'

const many = <Item>(count: number, make: (index: number) => Item): Item[] =>
  Array.from({ length: count }, (_, i) => make(i))

/** The whole way of an answer: from whatever a handler returned to the text a model reads. */
function cross(answer: unknown, kind: 'internal' | 'vendor' = 'vendor', secrets: readonly string[] = []) {
  const spec = { kind, maxResults: null, maxOutputBytes: null, itemKind: 'crm.person' } as const
  const { data, meta } = boundResult({ spec, data: normalise(answer), meta: {}, secrets })
  return { data, meta, payload: modelPayload(success(data, meta), 'crm.search') }
}

describe('answers of any size and kind fit, and say that something is missing', () => {
  const secret = 'sk-live-0123456789abcdef'
  const deep = (value: unknown, levels: number): unknown => {
    let outer = value
    for (let level = 0; level < levels; level++) outer = { inner: outer }
    return outer
  }
  const rows = (count: number) =>
    many(count, (id) => ({ id, name: `n${id}`, mail: `p${id}@acme.test`, tags: ['a', 'b'] }))

  test.each<[string, () => unknown]>([
    ['200,000 rows', () => rows(200_000)],
    ['200,000 rows in an envelope', () => ({ items: rows(200_000), next: 'page-2' })],
    ['200,000 rows of one column', () => many(200_000, (index) => index)],
    ['a text of 5 MB', () => 'x'.repeat(5_000_000)],
    ['a field of 5 MB', () => ({ id: 'p-1', body: 'x'.repeat(5_000_000) })],
    ['5 MB of escapes', () => ({ id: 'p-1', body: '\u0001"\\'.repeat(1_700_000) })],
    ['5 MB of broken characters', () => ({ id: 'p-1', body: '\ud800'.repeat(2_500_000) })],
    ['5 MB of hidden characters', () => ({ id: 'p-1', body: 'a\u200b'.repeat(1_300_000), more: 'é'.repeat(20_000) })],
    ['a name of 5 MB', () => ({ ['k'.repeat(5_000_000)]: 1, id: 'p-1' })],
    ['200,000 names', () => Object.fromEntries(many(200_000, (index) => [`field_${index}`, index]))],
    ['5 MB of a credential', () => ({ id: 'p-1', echo: `${secret} `.repeat(200_000), tail: 'x'.repeat(40_000) })],
    [
      '200,000 values ninety levels down',
      () =>
        deep(
          many(200_000, (index) => index),
          90,
        ),
    ],
    ['a set of 200,000 objects', () => new Set(many(200_000, (index) => ({ index })))],
    ['4,000 rows of 5 kB', () => many(4_000, (id) => ({ id, bio: 'b'.repeat(5_000) }))],
    [
      '5 MB of bytes beside a long text',
      () => ({ id: 'p-1', file: new Uint8Array(5_000_000), text: 'x'.repeat(40_000) }),
    ],
  ])('%s', (_name, make) => {
    const { data, meta, payload } = cross(make(), 'vendor', [secret])
    expect(Buffer.byteLength(encode(data))).toBeLessThanOrEqual(PLATFORM_OUTPUT_BYTES)
    expect(Buffer.byteLength(payload)).toBeLessThanOrEqual(PLATFORM_OUTPUT_BYTES + 300)
    expect(meta.truncated).toBe(true)
    expect(payload).toContain('"truncated":true')
    expect(payload).not.toContain(secret)
    expect(payload.isWellFormed()).toBe(true)
    expect(normalise(data)).toEqual(data)
  })

  test('lists keep the first rows whole, and count what is there', () => {
    const { data, meta } = cross(rows(200_000))
    const kept = data as JsonValue[]
    expect(kept).toEqual(rows(kept.length))
    expect(meta.count).toBe(kept.length)
    expect(Buffer.byteLength(encode([...kept, rows(kept.length + 1)[kept.length] as JsonValue]))).toBeGreaterThan(
      PLATFORM_OUTPUT_BYTES,
    )
  })
})

describe('one encoder', () => {
  const wide = fc.oneof(anything, fc.array(fc.string({ unit: 'binary', maxLength: 3000 }), { maxLength: 40 }))

  test('measures what it renders: the data of a payload has exactly the bytes it was bounded by', () => {
    fc.assert(
      fc.property(wide, (answer) => {
        const { data, payload } = cross(answer, 'internal')
        const rendered = payload.slice(payload.indexOf('"data":') + 7, -1)
        expect(rendered).toBe(JSON.stringify(data))
        expect(Buffer.byteLength(rendered)).toBe(jsonBytes(data, new Map()))
        expect(Buffer.byteLength(rendered)).toBeLessThanOrEqual(PLATFORM_OUTPUT_BYTES)
      }),
      { numRuns: 500 },
    )
  })

  test('renders what came from outside in no more bytes than were measured', () => {
    const brackets = fc.array(fc.constantFrom('\u27e6', '\u27e7', 'a', '"', '\n'), { maxLength: 50 })
    fc.assert(
      fc.property(
        fc.oneof(
          wide,
          brackets.map((parts) => ({ text: parts.join('') })),
        ),
        (answer) => {
          const { data, payload } = cross(answer)
          const [, , body = ''] = payload.split('\n')
          expect(payload.split('\n')).toHaveLength(4)
          expect(Buffer.byteLength(body)).toBeLessThanOrEqual(jsonBytes(data, new Map()))
          expect(JSON.parse(body)).toEqual(JSON.parse(encode(data).replaceAll('\u27e6', '[').replaceAll('\u27e7', ']')))
        },
      ),
      { numRuns: 500 },
    )
  })
})

describe('only the credentials of the call are taken out of text', () => {
  test.each([
    ['sk-live-4eC39HqLyjWDarjtT1zdp7dc'],
    ['AKIAIOSFODNN7EXAMPLE'],
    ['ghp_16C7e42F292c6912E7710c838347Ae178B4a'],
    ['xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy'],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U'],
    ['-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----'],
    ['password=hunter2&token=abcdef'],
    ['https://user:hunter2@db.acme.test/crm'],
    ['4111 1111 1111 1111'],
    ['d41d8cd98f00b204e9800998ecf8427e'],
  ])('%s stays where nobody uses it', (text) => {
    const answer = { note: text, list: [`see ${text}`], [`see ${text} here`]: 1 }
    expect(redact(answer, ['another-secret-value'])).toEqual(answer)
    expect(cross(answer, 'internal').data).toEqual(answer)
    expect(JSON.stringify(redact(answer, [text]))).not.toContain(JSON.stringify(text).slice(1, -1))
  })

  const secret = `wJalrXUtnFEMI/K7MDENG+bPxRfiCY"'&<é`
  const base64 = Buffer.from(secret, 'utf8').toString('base64')
  test.each([
    ['JSON with escaped slashes', JSON.stringify(secret).replaceAll('/', String.raw`\/`)],
    ['JSON in ASCII', JSON.stringify(secret).replaceAll('é', String.raw`\u00e9`)],
    [
      'JSON in ASCII with escaped slashes',
      JSON.stringify(secret)
        .replaceAll('é', String.raw`\u00e9`)
        .replaceAll('/', String.raw`\/`),
    ],
    ['HTML text', secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;')],
    [
      'an HTML attribute',
      secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;').replaceAll("'", '&#39;'),
    ],
    ['a path of an address', encodeURI(secret)],
    ['a query', new URLSearchParams({ key: secret }).toString()],
    ['base64 in a query', `?auth=${encodeURIComponent(base64)}`],
    ['base64url after a user name', Buffer.from(`api:${secret}`, 'utf8').toString('base64url')],
    ['a header', `Authorization: Basic ${Buffer.from(`:${secret}`, 'utf8').toString('base64')}`],
    ['hexadecimal in a longer text', `trace=00ff${Buffer.from(secret, 'utf8').toString('hex')}00`],
  ])('and found as %s, in values and in names', (_form, shown) => {
    const clean = redact({ note: shown, deep: [[shown]], [`x ${shown}`]: 1 }, [secret]) as Record<string, JsonValue>
    expect(clean['note']).toContain(REDACTED)
    expect(clean['deep']).toEqual([[clean['note']]])
    expect(Object.keys(clean)[2]).toContain(REDACTED)
    expect(JSON.stringify(clean)).not.toContain(JSON.stringify(shown).slice(1, -1))
  })

  test('before the answer is bounded, wherever it would have been cut', () => {
    const token = 'sk-live-0123456789abcdef'
    const answers = [
      many(500, (id) => ({ id, echo: `${'x'.repeat(id)}${token}` })),
      { head: token, body: `${'x'.repeat(40_000)}${token}` },
      { [token]: 'x'.repeat(40_000), tail: [token] },
      new Map([[token, token]]),
      new Set([token]),
      {
        get trap(): string {
          return token
        },
      },
      { toJSON: () => ({ token: 1, echo: token }) },
      new Error(token),
    ]
    for (const answer of answers) {
      for (const kind of ['internal', 'vendor'] as const)
        expect(cross(answer, kind, [token]).payload).not.toContain(token)
    }
  })
})
