import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Effect, RuleReading, Stage2Outcome } from './stage-two.ts'
import { NOTHING_COUNTED } from './limits.ts'
import { combineRules as combine, SAFE_DEFAULTS } from './stage-two.ts'

const combineRules = (rules: readonly RuleReading[], facts: Stage2Outcome['facts'], fallback: Effect): Stage2Outcome =>
  combine(rules, { facts, fallback, limits: NOTHING_COUNTED })

const effect = fc.constantFrom<Effect>('allow', 'require_approval', 'deny')
const facts = fc.dictionary(fc.constantFrom('recipient_is_new', 'domain'), fc.oneof(fc.boolean(), fc.string()))

/** A reading by how it turned out, under an id that tells it from every other. */
function readingOf(mode: 'enforce' | 'shadow', outcome: 'match' | 'no match' | 'fault') {
  return fc
    .record({
      ruleId: fc.uuid(),
      name: fc.string(),
      effect,
      ttlS: fc.option(fc.nat()),
      approvers: fc.array(fc.constantFrom('ana', 'bo', 'cy')),
      limit: fc.constant(null),
    })
    .map((rule): RuleReading =>
      outcome === 'fault'
        ? { ...rule, mode, fault: `${rule.ruleId} has no answer` }
        : { ...rule, mode, matched: outcome === 'match' },
    )
}

const match = readingOf('enforce', 'match')
const noMatch = readingOf('enforce', 'no match')
const fault = readingOf('enforce', 'fault')
const shadow = fc.oneof(readingOf('shadow', 'match'), readingOf('shadow', 'no match'), readingOf('shadow', 'fault'))

function mixed(...parts: readonly fc.Arbitrary<readonly RuleReading[]>[]): fc.Arbitrary<readonly RuleReading[]> {
  return fc.tuple(...parts).chain((lists) => {
    const all = lists.flat()
    return fc.shuffledSubarray(all, { minLength: all.length, maxLength: all.length })
  })
}

function strictest(effects: readonly Effect[]): Effect {
  return effects.includes('deny') ? 'deny' : effects.includes('require_approval') ? 'require_approval' : 'allow'
}

describe('enforced rules', () => {
  test('the strictest match decides, in whatever order they stand and whatever else did not match', () => {
    const readings = mixed(fc.array(match, { minLength: 1 }), fc.array(noMatch), fc.array(shadow))
    fc.assert(
      fc.property(readings, facts, effect, (rules, given, fallback) => {
        const matching = rules.filter((rule) => rule.mode === 'enforce' && 'matched' in rule && rule.matched)
        const outcome = combineRules(rules, given, fallback)
        const strict = strictest(matching.map((rule) => rule.effect))
        const deciding = matching.filter((rule) => rule.effect === strict)
        expect(outcome).toMatchObject({ ruleId: deciding[0]?.ruleId, ruleName: deciding[0]?.name })
        if (outcome.effect === 'fault') return
        expect(outcome.effect).toBe(strict)
        const waits = deciding.flatMap((rule) => rule.ttlS ?? [])
        expect(outcome.ttlS).toBe(waits.length === 0 ? null : Math.min(...waits))
        for (const who of outcome.approvers) {
          expect(deciding.every((rule) => rule.approvers.length === 0 || rule.approvers.includes(who))).toBe(true)
        }
        expect(outcome.facts).toBe(given)
      }),
    )
  })

  test('without a match the default decides and no rule is named', () => {
    fc.assert(
      fc.property(mixed(fc.array(noMatch), fc.array(shadow)), facts, effect, (rules, given, fallback) => {
        expect(combineRules(rules, given, fallback)).toMatchObject({
          effect: fallback,
          ruleId: null,
          ruleName: null,
          message: null,
          ttlS: null,
          approvers: [],
        })
      }),
    )
  })

  test('a single fault is the outcome, whatever the other rules say', () => {
    const readings = mixed(fc.array(fault, { minLength: 1 }), fc.array(match), fc.array(noMatch), fc.array(shadow))
    fc.assert(
      fc.property(readings, facts, effect, (rules, given, fallback) => {
        const outcome = combineRules(rules, given, fallback)
        const faulty = rules.filter((rule) => rule.mode === 'enforce' && 'fault' in rule)
        expect(outcome.effect).toBe('fault')
        expect(faulty.map((rule) => rule.ruleId)).toContain(outcome.ruleId)
        expect(outcome.message).toBe(`${outcome.ruleId} has no answer`)
        expect(outcome.facts).toBe(given)
      }),
    )
  })
})

describe('shadow rules', () => {
  test('change nothing about the outcome, however many there are and however they turned out', () => {
    const enforced = mixed(fc.array(match), fc.array(noMatch), fc.array(fault, { maxLength: 1 }))
    fc.assert(
      fc.property(enforced, fc.array(shadow), effect, (rules, shadows, fallback) => {
        const without = combineRules(rules, {}, fallback)
        for (const order of [
          [...rules, ...shadows],
          [...shadows, ...rules],
        ]) {
          expect(combineRules(order, {}, fallback)).toEqual({ ...without, shadow: expect.any(Array) })
        }
      }),
    )
  })

  test('are recorded when they match, and only then', () => {
    fc.assert(
      fc.property(mixed(fc.array(shadow), fc.array(match)), effect, (rules, fallback) => {
        const matching = rules.filter((rule) => rule.mode === 'shadow' && 'matched' in rule && rule.matched)
        expect(combineRules(rules, {}, fallback).shadow).toEqual(
          matching.map(({ name, effect }) => ({ ruleName: name, effect })),
        )
      }),
    )
  })
})

test('the defaults of the platform let reads and writes through and ask before a send', () => {
  expect(SAFE_DEFAULTS).toEqual({ read: 'allow', write: 'allow', send: 'require_approval' })
})

describe('several rules that ask', () => {
  const asking = (name: string, approvers: readonly string[], ttlS: number | null): RuleReading => ({
    ruleId: name,
    name,
    effect: 'require_approval',
    mode: 'enforce',
    ttlS,
    approvers,
    limit: null,
    matched: true,
  })

  test('whoever answers is named by every rule that names somebody, within the shortest time', () => {
    const rules = [asking('anyone', [], 600), asking('finance', ['ana', 'bo'], null), asking('legal', ['bo', 'cy'], 60)]
    expect(combineRules(rules, {}, 'allow')).toMatchObject({ effect: 'require_approval', approvers: ['bo'], ttlS: 60 })
  })

  test('rules that no one person satisfies are a fault, not a question nobody can answer', () => {
    const outcome = combineRules([asking('finance', ['ana'], null), asking('legal', ['cy'], null)], {}, 'allow')
    expect(outcome).toMatchObject({ effect: 'fault', message: 'no approver satisfies finance and legal together' })
  })
})
