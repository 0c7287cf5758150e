import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countersOf, countsOf, NOTHING_COUNTED, withinLimits, type LimitPeriod, type LimitUse } from './limits.ts'
import { combineRules, type Effect, type RuleReading } from './stage-two.ts'

const PERIODS: readonly LimitPeriod[] = ['run', 'hour', 'day']
const NAMES = ['a', 'b', 'c', 'd'] as const

const limit = fc.record({ count: fc.integer({ min: 1, max: 5 }), per: fc.constantFrom(...PERIODS) })

/** Rules of different names, as those of an organization are. */
const readings: fc.Arbitrary<readonly RuleReading[]> = fc.uniqueArray(
  fc
    .record({
      name: fc.constantFrom(...NAMES),
      effect: fc.constantFrom<Effect>('deny', 'require_approval'),
      mode: fc.constantFrom<RuleReading['mode']>('enforce', 'shadow'),
      limit: fc.option(limit),
      outcome: fc.constantFrom('match', 'no match', 'fault'),
    })
    .map(({ outcome, ...rule }): RuleReading => {
      const identity = { ...rule, ruleId: rule.name, ttlS: null, approvers: [] }
      return outcome === 'fault' ? { ...identity, fault: 'broken' } : { ...identity, matched: outcome === 'match' }
    }),
  { selector: ({ name }) => name },
)

const uses: fc.Arbitrary<readonly LimitUse[]> = fc.uniqueArray(
  fc.record({ rule: fc.constantFrom(...NAMES), per: fc.constantFrom(...PERIODS), used: fc.nat({ max: 7 }) }),
  { selector: ({ rule, per }) => `${rule} ${per}` },
)

const ground = fc.record({ uses, countedBy: fc.subarray([...NAMES]) })

describe('a limit', () => {
  test('takes its rule out exactly as long as it has room, or has counted this very call already', () => {
    fc.assert(
      fc.property(readings, ground, (rules, at) => {
        for (const [index, after] of withinLimits(rules, at).entries()) {
          const before = rules[index]!
          const used = at.uses.find(({ rule, per }) => rule === before.name && per === before.limit?.per)?.used ?? 0
          const room =
            before.limit !== null && (used < before.limit.count || at.countedBy.some((name) => name === before.name))
          const matched = 'matched' in before && before.matched
          expect(after).toEqual(matched && room ? { ...before, matched: false } : before)
        }
      }),
    )
  })

  test('changes nothing about rules without one', () => {
    fc.assert(
      fc.property(readings, ground, (rules, at) => {
        const unlimited = rules.map((rule) => ({ ...rule, limit: null }))
        expect(withinLimits(unlimited, at)).toEqual(unlimited)
      }),
    )
  })

  test('in shadow never changes an outcome', () => {
    fc.assert(
      fc.property(readings, ground, (rules, limits) => {
        const enforced = rules.filter((rule) => rule.mode === 'enforce')
        const effectOf = (some: readonly RuleReading[]) =>
          combineRules(some, { facts: {}, fallback: 'allow', limits }).effect
        expect(effectOf(rules)).toBe(effectOf(enforced))
      }),
    )
  })

  test('says in words that it is reached', () => {
    const rule: RuleReading = {
      ruleId: 'a',
      name: 'a',
      effect: 'deny',
      mode: 'enforce',
      ttlS: null,
      approvers: [],
      limit: { count: 1, per: 'hour' },
      matched: true,
    }
    const said = (per: LimitPeriod, count: number) =>
      combineRules([{ ...rule, limit: { count, per } }], {
        facts: {},
        fallback: 'allow',
        limits: { uses: [{ rule: 'a', per, used: count }], countedBy: [] },
      }).message
    expect(said('hour', 1)).toBe('the limit of 1 call an hour is reached')
    expect(said('day', 50)).toBe('the limit of 50 calls a day is reached')
    expect(said('run', 2)).toBe('the limit of 2 calls a run is reached')
  })
})

describe('what a call adds to', () => {
  const recordOf = (rules: readonly RuleReading[], approvalId: string | null) => {
    const policy = combineRules(rules, { facts: {}, fallback: 'allow', limits: NOTHING_COUNTED })
    return { stage: 2, outcome: 'allow', policy, message: null, approvalId } as const
  }

  test('is every limit whose condition holds, reached or not, with a bound where it is enforced', () => {
    fc.assert(
      fc.property(readings, (rules) => {
        const counted = rules.filter((rule) => rule.limit !== null && 'matched' in rule && rule.matched)
        expect(countsOf(recordOf(rules, null))).toEqual(
          counted.map(({ name, limit, mode }) => ({
            rule: name,
            per: limit?.per,
            max: mode === 'shadow' ? null : limit?.count,
          })),
        )
      }),
    )
  })

  test('loses the bound of rules that ask once a person has answered, and of no others', () => {
    fc.assert(
      fc.property(readings, (rules) => {
        const bounded = countsOf(recordOf(rules, null))
        const answered = countsOf(recordOf(rules, 'approval'))
        const asks = new Set(rules.filter((rule) => rule.effect === 'require_approval').map((rule) => rule.name))
        expect(answered).toEqual(bounded.map((count) => (asks.has(count.rule) ? { ...count, max: null } : count)))
      }),
    )
  })

  test('is nothing for a decision that no rule was asked about', () => {
    expect(countsOf({ stage: 1, outcome: 'deny', policy: null, message: null, approvalId: null })).toEqual([])
    expect(countersOf([])).toEqual([])
  })
})
