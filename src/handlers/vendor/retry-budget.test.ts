import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RetryableUpstreamError, UpstreamUnavailableError } from '../../tools/errors.ts'
import { readFromVendor, timeoutFor, worstCaseMs, type RetryBudget } from './retry-budget.ts'
import { VendorError, type VendorTrouble } from './vendor-error.ts'

const BUDGET: RetryBudget = { attempts: 3, attemptMs: 1_000, backoffMs: 1, maxPauseMs: 20 }
const NEVER = new AbortController().signal

const trouble = (kind: VendorTrouble, retryAfterMs: number | null = null): VendorError =>
  new VendorError({ vendor: 'acme', trouble: kind, retryAfterMs })

/** Raises these one after the other, then answers. */
async function asking(...errors: readonly Error[]) {
  let asked = 0
  const outcome = await readFromVendor(
    async () => {
      const error = errors[asked]
      asked += 1
      if (error !== undefined) throw error
      return 'answered'
    },
    { budget: BUDGET, signal: NEVER },
  ).catch((error: unknown) => error)
  return { asked, outcome }
}

describe('a vendor that did nothing is asked again', () => {
  test.each<VendorTrouble>(['rate_limited', 'overloaded'])('after %s, until the budget is used up', async (kind) => {
    expect(await asking(trouble(kind), trouble(kind))).toEqual({ asked: 3, outcome: 'answered' })
    const { asked, outcome } = await asking(trouble(kind), trouble(kind), trouble(kind))
    expect(asked).toBe(3)
    expect(outcome).toBeInstanceOf(RetryableUpstreamError)
  })

  test('but not when it asks for a longer pause than the call has', async () => {
    expect((await asking(trouble('rate_limited', 21))).asked).toBe(1)
    expect((await asking(trouble('rate_limited', 20))).asked).toBe(2)
  })
})

test.each<[VendorTrouble, string]>([
  ['transport', 'RetryableUpstreamError'],
  ['timeout', 'RetryableUpstreamError'],
  ['server', 'RetryableUpstreamError'],
  ['refused', 'UpstreamUnavailableError'],
  ['authentication', 'VendorError'],
  ['payment', 'VendorError'],
  ['request', 'VendorError'],
  ['decode', 'VendorError'],
  ['redirected', 'VendorError'],
])('R28 %s is not asked again, because it may be charged or change nothing, and raises %s', async (kind, raised) => {
  const { asked, outcome } = await asking(trouble(kind))
  expect(asked).toBe(1)
  expect(outcome).toMatchObject({ name: raised })
  if (raised === 'UpstreamUnavailableError') expect((outcome as Error).constructor).toBe(UpstreamUnavailableError)
})

test('what is no trouble of the vendor is raised as it is, at once', async () => {
  const bug = new TypeError('undefined is not a function')
  expect(await asking(bug)).toEqual({ asked: 1, outcome: bug })
})

test('a pause ends with the call', async () => {
  const stopped = readFromVendor(() => Promise.reject(trouble('rate_limited', 60_000)), {
    budget: { ...BUDGET, maxPauseMs: 60_000 },
    signal: AbortSignal.timeout(20),
  })
  await expect(stopped).rejects.toMatchObject({ name: 'AbortError' })
})

test('T47 the timeout of a tool holds every attempt and every pause of its budget', () => {
  const budgets = fc.record({
    attempts: fc.integer({ min: 1, max: 5 }),
    attemptMs: fc.integer({ min: 1, max: 30_000 }),
    backoffMs: fc.integer({ min: 1, max: 10_000 }),
    maxPauseMs: fc.integer({ min: 1, max: 10_000 }),
  })
  fc.assert(
    fc.property(budgets, fc.array(fc.option(fc.integer({ min: 0, max: 60_000 }))), (budget, asks) => {
      // The slowest run there can be: each attempt takes all of its time, each pause is as long as the vendor may make it.
      let ms = budget.attemptMs
      for (let attempt = 1; attempt < budget.attempts; attempt += 1) {
        const wait = asks[attempt - 1] ?? budget.backoffMs * attempt
        if (wait > budget.maxPauseMs) break
        ms += wait + budget.attemptMs
      }
      expect(ms).toBeLessThanOrEqual(worstCaseMs(budget))
      expect(worstCaseMs(budget)).toBeLessThan(timeoutFor(budget) * 1000)
    }),
  )
})
