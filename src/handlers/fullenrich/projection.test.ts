import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PLATFORM_OUTPUT_BYTES } from '../../tools/models.ts'
import { boundResult } from '../../tools/result-boundary.ts'
import type { JsonValue } from '../../tools/json.ts'
import { batchReason, batchView } from './projection.ts'

const row = (ref: unknown, email: unknown = null, status: unknown = 'DELIVERABLE') => ({
  custom: { ref },
  contact_info: { most_probable_work_email: email === null ? null : { email, status } },
})
const view = (refs: readonly string[], data: unknown) => batchView(refs, { status: 'FINISHED', data } as JsonValue)

describe('a contact', () => {
  test('is found by the ref that comes back, wherever it stands in the answer', () => {
    const { contacts, diagnostics } = view(['a', 'b'], [row('b', 'b@freight.test'), row('a', 'a@freight.test')])
    expect(contacts.map(({ ref, email }) => [ref, email])).toEqual([
      ['a', 'a@freight.test'],
      ['b', 'b@freight.test'],
    ])
    expect(diagnostics).toEqual({ missing: 0, duplicate: 0, malformed: 0, unknown: 0 })
  })

  test('that did not come back is missing: not the row in its place, nor one of the same name', () => {
    const named = {
      ...row('other', 'a@freight.test'),
      input: { full_name: 'Sample Person', company_domain: 'freight.test' },
    }
    for (const refs of [['A'], [' a'], ['a ']])
      expect(view(refs, [row('a', 'a@freight.test')]).contacts).toMatchObject([{ email: null, result: 'missing' }])
    expect(view(['a'], [named])).toMatchObject({
      contacts: [{ email: null, result: 'missing' }],
      diagnostics: { missing: 1, unknown: 1 },
    })
  })

  test('that came back twice gets no address, because nobody can say which one is right', () => {
    expect(view(['a'], [row('a', 'a@freight.test'), row('a', 'b@freight.test')])).toMatchObject({
      contacts: [{ email: null, result: 'duplicate' }],
      diagnostics: { duplicate: 1 },
    })
  })

  test.each([
    ['an address that is none', row('a', 'not an address')],
    ['an address with a line break', row('a', 'a@freight.test\nbcc: b@freight.test')],
    ['an address that is too long', row('a', `${'a'.repeat(250)}@x.test`)],
    ['another shape', { custom: { ref: 'a' }, contact_info: { most_probable_work_email: 'a@freight.test' } }],
    ['a number', { custom: { ref: 'a' }, contact_info: 7 }],
  ])('whose row holds %s is malformed', (_says, data) => {
    expect(view(['a'], [data])).toMatchObject({
      contacts: [{ email: null, result: 'malformed' }],
      diagnostics: { malformed: 1 },
    })
  })

  test.each([
    ['null', { most_probable_work_email: null }],
    ['nothing', {}],
    ['an empty object', { most_probable_work_email: {} }],
    ['an empty text', { most_probable_work_email: { email: '' } }],
    ['no information at all', null],
  ])('that was not found may be written as %s', (_says, contact_info) => {
    expect(view(['a'], [{ custom: { ref: 'a' }, contact_info }]).contacts).toMatchObject([
      { result: 'not_found', email: null },
    ])
  })

  test.each([
    ['DELIVERABLE', 'verified'],
    ['HIGH_PROBABILITY', 'probable'],
    ['CATCH_ALL', 'accepts_all'],
    ['CATCH_All', 'accepts_all'],
    ['SPLENDID', 'unverified'],
    [null, 'unverified'],
  ])('graded %s is %s', (status, confidence) => {
    expect(view(['a'], [row('a', 'a@freight.test', status)]).contacts).toMatchObject([
      { confidence, email: 'a@freight.test' },
    ])
  })

  test.each(['INVALID', 'INVALID_DOMAIN'])('graded %s gets no address', (status) => {
    expect(view(['a'], [row('a', 'a@freight.test', status)]).contacts).toEqual([
      { ref: 'a', email: null, providerStatus: status, confidence: 'invalid', result: 'not_found' },
    ])
  })

  test('gets no grade that is no word of a vendor', () => {
    for (const status of ['ignore the above', 'X'.repeat(33), '<b>'])
      expect(view(['a'], [row('a', 'a@freight.test', status)]).contacts).toMatchObject([{ providerStatus: null }])
  })
})

test('rows without a ref are malformed, and names of the language itself are refs like others', () => {
  const refs = ['__proto__', 'constructor']
  const data = [null, 7, {}, { custom: null }, row(7), ...refs.map((ref) => row(ref, 'a@freight.test'))]
  expect(view(refs, data)).toMatchObject({
    contacts: [{ result: 'found' }, { result: 'found' }],
    diagnostics: { malformed: 5, unknown: 0 },
  })
})

test('a batch without rows, in either spelling of their list, misses every contact', () => {
  expect(batchView(['a'], null).diagnostics.missing).toBe(1)
  expect(view(['a'], null).diagnostics.missing).toBe(1)
  expect(
    batchView(['a'], { status: 'FINISHED', datas: [row('a', 'a@freight.test')] } as unknown as JsonValue).contacts,
  ).toMatchObject([{ result: 'found' }])
})

test('a job that stored no refs shows no contact, and counts what came', () => {
  expect(view([], [row('a', 'a@freight.test')])).toEqual({
    contacts: [],
    diagnostics: { missing: 0, duplicate: 0, malformed: 0, unknown: 1 },
  })
})

test('a reason is one of ours, never the words of a vendor', () => {
  const reasonOf = (status: string) => batchReason({ status })
  expect(
    ['CREDITS_INSUFFICIENT', 'RATE_LIMIT', 'CANCELED', 'UNKNOWN', 'FINISHED', 'toString', 'ignore'].map(reasonOf),
  ).toEqual(['credits_insufficient', 'rate_limited', 'cancelled', 'unknown', null, null, null])
})

test('every ref is answered once and in order, and no address is invented, whatever a vendor answers', () => {
  const refs = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 3 }), { maxLength: 6 })
  fc.assert(
    fc.property(
      refs,
      fc.jsonValue({ maxDepth: 5 }),
      fc.array(fc.tuple(fc.string({ maxLength: 3 }), fc.emailAddress())),
      (asked, junk, rows) => {
        const data = [
          ...(Array.isArray(junk) ? (junk as unknown[]) : [junk]),
          ...rows.map(([ref, email]) => row(ref, email)),
        ]
        const { contacts } = view(asked, data)
        expect(contacts.map(({ ref }) => ref)).toEqual(asked)
        for (const { ref, email } of contacts) if (email !== null) expect(rows).toContainEqual([ref, email])
      },
    ),
  )
})

/** Every part as long as it may be; the refs of characters that take three bytes each, which is the most there are. */
function worstCase(): { readonly refs: readonly string[]; readonly data: readonly unknown[] } {
  const refs = Array.from({ length: 25 }, (_, index) => String.fromCharCode(0x4e00 + index).padEnd(64, '\u4e16'))
  const email = `${'a'.repeat(64)}@${'b'.repeat(185)}.com`
  return { refs, data: refs.map((ref) => row(ref, email, 'X'.repeat(32))) }
}

test('25 contacts with everything as long as it may be fit into the limit of an answer without loss', () => {
  const { refs, data } = worstCase()
  const answer = {
    jobId: '0192f0c1-0000-8000-8000-000000000001',
    state: 'cancelled',
    accepted: false,
    reason: 'credits_insufficient',
    ...view(refs, data),
  }
  expect(answer.contacts.every(({ email, ref }) => email?.length === 254 && ref.length === 64)).toBe(true)
  const bytes = Buffer.byteLength(JSON.stringify(answer))
  // What the documentation says.
  expect(bytes).toBe(WORST_BYTES)
  expect(bytes).toBeLessThan(PLATFORM_OUTPUT_BYTES)
  const spec = { kind: 'vendor', maxResults: null, maxOutputBytes: null, itemKind: null } as const
  const { data: bounded, meta } = boundResult({ spec, data: answer, meta: {}, secrets: [] })
  expect(meta.truncated).toBe(false)
  expect(bounded).toEqual(answer)
})

const WORST_BYTES = 14_273
