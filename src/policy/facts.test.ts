import { afterEach, describe, expect, test, vi } from 'vitest'
import type { FactRequest, FactResolver, FactType } from '../tools/handler.ts'
import type { ToolInvocation } from '../tools/invocation.ts'
import type { JsonValue } from '../tools/json.ts'
import { MAX_FACT_BYTES, resolveFacts, SHADOW_FACT_TIMEOUT_MS } from './facts.ts'

function request(signal = new AbortController().signal): FactRequest {
  return { invocation: {} as ToolInvocation, rootRunId: 'root', tool: 'email.send', args: { to: ['a'] }, signal }
}

function resolvers(
  given: Readonly<Record<string, FactResolver['resolve']>>,
  type: FactType = 'bool',
): Map<string, FactResolver> {
  return new Map(Object.entries(given).map(([name, resolve]) => [name, { name, type, resolve }]))
}

const yes = async (): Promise<JsonValue> => true
const never = (): Promise<JsonValue> => Promise.withResolvers<JsonValue>().promise

afterEach(() => {
  vi.useRealTimers()
})

test('facts are resolved with the call they are about', async () => {
  const seen: FactRequest[] = []
  const resolve = async (asked: FactRequest): Promise<JsonValue> => {
    seen.push(asked)
    return true
  }
  expect(await resolveFacts(request(), ['a', 'b'], resolvers({ a: resolve, b: resolve }))).toEqual({
    kind: 'resolved',
    facts: { a: true, b: true },
  })
  expect(seen.map(({ tool, rootRunId, args }) => ({ tool, rootRunId, args }))).toEqual([
    { tool: 'email.send', rootRunId: 'root', args: { to: ['a'] } },
    { tool: 'email.send', rootRunId: 'root', args: { to: ['a'] } },
  ])
})

test('only the facts that are asked for are resolved', async () => {
  const asked: string[] = []
  const note = (name: string) => async (): Promise<JsonValue> => {
    asked.push(name)
    return true
  }
  await resolveFacts(request(), ['a'], resolvers({ a: note('a'), b: note('b') }))
  expect(asked).toEqual(['a'])
})

test('they are resolved in parallel: each waits for the other', async () => {
  const a = Promise.withResolvers<JsonValue>()
  const b = Promise.withResolvers<JsonValue>()
  const both = resolvers({
    a: () => {
      b.resolve(false)
      return a.promise
    },
    b: () => {
      a.resolve(true)
      return b.promise
    },
  })
  expect(await resolveFacts(request(), ['a', 'b'], both)).toEqual({ kind: 'resolved', facts: { a: true, b: false } })
})

describe('a fault', () => {
  test('is a throw; the message repeats nothing of it, the cause is there for the log', async () => {
    const cause = new Error('password=hunter2 at db-7')
    const result = await resolveFacts(request(), ['a'], resolvers({ a: () => Promise.reject(cause) }))
    expect(result).toEqual({ kind: 'fault', name: 'a', message: 'the fact a could not be resolved', cause })
  })

  test('is a throw before there is a promise', async () => {
    const thrower = (): Promise<JsonValue> => {
      throw new TypeError('x is undefined')
    }
    expect(await resolveFacts(request(), ['a'], resolvers({ a: thrower }))).toMatchObject({
      kind: 'fault',
      message: 'the fact a could not be resolved',
    })
  })

  test('is a name that nothing resolves, also one of the prototype chain', async () => {
    for (const name of ['b', 'constructor', '__proto__', 'toString']) {
      expect(await resolveFacts(request(), [name], resolvers({ a: yes }))).toMatchObject({
        kind: 'fault',
        name,
        message: `nothing resolves the fact ${name}`,
      })
    }
  })

  test.each([
    ['bool', 'true'],
    ['bool', null],
    ['bool', undefined],
    ['string', 1],
    ['int', 1.5],
    ['int', 2 ** 53],
    ['double', Number.NaN],
    ['list', { length: 1 }],
    ['map', ['a']],
    ['map', null],
  ] as const)('is a %s that is %j', async (type, value) => {
    const wrong = resolvers({ a: async () => value as JsonValue }, type)
    expect(await resolveFacts(request(), ['a'], wrong)).toEqual({
      kind: 'fault',
      name: 'a',
      message: `the fact a is not the ${type} it is declared to be`,
      cause: null,
    })
  })

  test('is a value that JSON cannot carry, or one too large to store with the decision', async () => {
    const cyclic: unknown[] = []
    cyclic.push(cyclic)
    expect(
      await resolveFacts(request(), ['a'], resolvers({ a: async () => cyclic as JsonValue }, 'list')),
    ).toMatchObject({ kind: 'fault', message: 'the fact a cannot be written as JSON' })
    const large = 'é'.repeat(MAX_FACT_BYTES / 2)
    expect(await resolveFacts(request(), ['a'], resolvers({ a: async () => large }, 'string'))).toMatchObject({
      kind: 'fault',
      message: expect.stringContaining('larger than'),
    })
  })

  test('is a deadline, also for a resolver that does not listen', async () => {
    const deadline = new AbortController()
    const pending = resolveFacts(request(deadline.signal), ['a'], resolvers({ a: never }))
    deadline.abort(new DOMException('too late', 'TimeoutError'))
    expect(await pending).toMatchObject({
      kind: 'fault',
      name: 'a',
      message: 'the fact a did not come in time',
      cause: expect.any(DOMException),
    })
  })

  test('is a deadline that has passed already: nothing is asked', async () => {
    let asked = 0
    const counting = resolvers({
      a: async () => {
        asked += 1
        return true
      },
    })
    expect(await resolveFacts(request(AbortSignal.abort()), ['a'], counting)).toMatchObject({
      kind: 'fault',
      message: 'the fact a did not come in time',
    })
    expect(asked).toBe(0)
  })

  test('ends the wait for the others and tells them so', async () => {
    let told = false
    const listening = (asked: FactRequest): Promise<JsonValue> => {
      asked.signal.addEventListener('abort', () => {
        told = true
      })
      return never()
    }
    const result = await resolveFacts(
      request(),
      ['slow', 'bad'],
      resolvers({ slow: listening, bad: () => Promise.reject(new Error('no')) }),
    )
    expect(result).toMatchObject({ kind: 'fault', name: 'bad' })
    expect(told).toBe(true)
  })
})

test('what was resolved cannot be changed afterwards', async () => {
  const value = { tier: 'gold' }
  const result = await resolveFacts(request(), ['a'], resolvers({ a: async () => value }, 'map'))
  value.tier = 'none'
  expect(result).toEqual({ kind: 'resolved', facts: { a: { tier: 'gold' } } })
})

describe('facts that only shadow rules read', () => {
  test('are resolved with the others', async () => {
    const result = await resolveFacts(request(), { needed: ['a'], forShadow: ['b'] }, resolvers({ a: yes, b: yes }))
    expect(result).toEqual({ kind: 'resolved', facts: { a: true, b: true } })
  })

  test('are left out when they fail: a shadow rule changes nothing, not even by a fault', async () => {
    const failing = resolvers({ a: yes, b: () => Promise.reject(new Error('no')), c: async () => 'text' })
    const result = await resolveFacts(request(), { needed: ['a'], forShadow: ['b', 'c', 'd'] }, failing)
    expect(result).toEqual({ kind: 'resolved', facts: { a: true } })
  })

  test('do not use up the deadline of the call', async () => {
    vi.useFakeTimers()
    const pending = resolveFacts(request(), { needed: ['a'], forShadow: ['b'] }, resolvers({ a: yes, b: never }))
    await vi.advanceTimersByTimeAsync(SHADOW_FACT_TIMEOUT_MS)
    expect(await pending).toEqual({ kind: 'resolved', facts: { a: true } })
    expect(vi.getTimerCount()).toBe(0)
  })
})
