import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type ExaSimulator, startExaSimulator } from './exa.ts'

let exa: ExaSimulator
beforeAll(async () => {
  exa = await startExaSimulator({ keys: ['right'] })
})
beforeEach(() => exa.reset())
afterAll(() => exa.close())

interface Answer {
  readonly tag?: string
  readonly results?: readonly Record<string, unknown>[]
  readonly costDollars?: { readonly total: number }
}

async function ask(body: unknown, headers: Record<string, string> = { 'x-api-key': 'right' }, path = '/search') {
  const response = await fetch(exa.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: response.status, body: (await response.json()) as Answer }
}

const PEOPLE = { query: 'Head of Operations, at Sample Freight, based in Utrecht', category: 'people' }

describe('what the vendor refuses', () => {
  test.each<[unknown, number, string]>([
    [{}, 400, 'INVALID_REQUEST_BODY'],
    [{ query: '' }, 400, 'INVALID_REQUEST_BODY'],
    [{ query: 'x', category: 'linkedin profile' }, 400, 'INVALID_REQUEST_BODY'],
    [{ query: 'x', excludeDomains: 'example.com' }, 400, 'INVALID_REQUEST_BODY'],
    [{ ...PEOPLE, excludeDomains: ['example.com'] }, 400, 'INVALID_REQUEST_BODY'],
    [{ ...PEOPLE, startPublishedDate: '2026-01-01' }, 400, 'INVALID_REQUEST_BODY'],
    [{ query: 'x', numResults: 101 }, 400, 'NUM_RESULTS_EXCEEDED'],
  ])('%j', async (body, status, tag) => {
    expect(await ask(body)).toMatchObject({ status, body: { tag } })
    expect(exa.charged()).toBe(0)
  })

  test.each<Record<string, string>>([{}, { 'x-api-key': 'wrong' }, { authorization: 'Bearer wrong' }])(
    'a request with the headers %j',
    async (headers) => {
      expect(await ask(PEOPLE, headers)).toMatchObject({ status: 401, body: { tag: 'INVALID_API_KEY' } })
    },
  )

  test('a path that it does not have', async () => {
    expect((await ask(PEOPLE, undefined, '/answer')).status).toBe(404)
  })
})

describe('what it answers', () => {
  test('is the same people for the same words, with an entity each, at a company that was asked for', async () => {
    const [first, second] = [await ask(PEOPLE), await ask(PEOPLE, { authorization: 'Bearer right' })]
    expect(first).toEqual(second)
    expect(first.body.results).toHaveLength(3)
    const names = first.body.results?.map(({ title }) => title)
    expect(new Set(names).size).toBe(3)
    expect(first.body.results?.[0]).toMatchObject({
      title: expect.stringContaining('Head of Operations at Sample Freight'),
      entities: [{ type: 'person', properties: { location: 'Utrecht' } }],
    })
    expect(exa.charged()).toBe(2)
  })

  test('holds page text and highlights only when they are ordered, and entities only of people', async () => {
    const bare = await ask(PEOPLE)
    expect(Object.keys(bare.body.results?.[0] ?? {})).not.toContain('highlights')
    const rich = await ask({ query: PEOPLE.query, contents: { text: true, highlights: { maxCharacters: 10 } } })
    expect(rich.body.results?.[0]).toMatchObject({ text: expect.any(String), highlights: [expect.any(String)] })
    expect(Object.keys(rich.body.results?.[0] ?? {})).not.toContain('entities')
  })

  test.each([
    [10, 0.007],
    [13, 0.01],
  ])('costs extra beyond ten results: %i', async (numResults, total) => {
    expect((await ask({ ...PEOPLE, numResults })).body.costDollars?.total).toBeCloseTo(total)
  })
})
