import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { RunCeilings } from '../tools/invocation.ts'
import type { RunUse } from './ceilings.ts'
import { ceilingBeforeCall, ceilingBeforeTurn, remainder } from './ceilings.ts'

const CEILINGS: RunCeilings = { maxTurns: 5, maxToolCalls: 10, maxDurationS: 60, maxCostCents: 100 }
const NOTHING: RunUse = { turns: 0, toolCalls: 0, elapsedS: 0, spentCents: 0 }

const count = fc.nat({ max: 20 })
const ceilings: fc.Arbitrary<RunCeilings> = fc.record({
  maxTurns: count,
  maxToolCalls: count,
  maxDurationS: count,
  maxCostCents: fc.option(count),
})
const use: fc.Arbitrary<RunUse> = fc.record({ turns: count, toolCalls: count, elapsedS: count, spentCents: count })

describe('before a call', () => {
  test.each([
    [NOTHING, null],
    [{ ...NOTHING, toolCalls: 9 }, null],
    [{ ...NOTHING, toolCalls: 10 }, 'max_tool_calls'],
    [{ ...NOTHING, elapsedS: 59.9 }, null],
    [{ ...NOTHING, elapsedS: 60 }, 'max_duration'],
    [{ ...NOTHING, spentCents: 99.99 }, null],
    [{ ...NOTHING, spentCents: 100 }, 'max_cost'],
    [{ ...NOTHING, turns: 99 }, null],
  ])('%j: %j', (used, ceiling) => {
    expect(ceilingBeforeCall(CEILINGS, used)).toBe(ceiling)
  })

  test('a remainder of one and ten proposals let exactly one through', () => {
    const start = { ...NOTHING, toolCalls: 9 }
    const passed = Array.from({ length: 10 }).reduce<RunUse>(
      (used) => (ceilingBeforeCall(CEILINGS, used) === null ? { ...used, toolCalls: used.toolCalls + 1 } : used),
      start,
    )
    expect(passed.toolCalls - start.toolCalls).toBe(1)
  })

  test('no cost ceiling is never reached', () => {
    expect(ceilingBeforeCall({ ...CEILINGS, maxCostCents: null }, { ...NOTHING, spentCents: 1e12 })).toBeNull()
  })
})

describe('before a turn', () => {
  test('the turns count too, and the calls of the last turn are still answered', () => {
    const used = { ...NOTHING, turns: 5 }
    expect(ceilingBeforeTurn(CEILINGS, used)).toBe('max_turns')
    expect(ceilingBeforeCall(CEILINGS, used)).toBeNull()
    expect(ceilingBeforeTurn(CEILINGS, { ...used, turns: 4 })).toBeNull()
  })

  test('what stops a call stops a turn', () => {
    fc.assert(
      fc.property(ceilings, use, (limits, used) => {
        const call = ceilingBeforeCall(limits, used)
        expect(ceilingBeforeTurn(limits, used)).toBe(call ?? (used.turns >= limits.maxTurns ? 'max_turns' : null))
      }),
    )
  })
})

describe('the remainder', () => {
  test('of turns, calls and seconds is what is left, never below zero; the budget is not touched', () => {
    fc.assert(
      fc.property(ceilings, use, (limits, used) => {
        expect(remainder(limits, used)).toEqual({
          maxTurns: Math.max(0, limits.maxTurns - used.turns),
          maxToolCalls: Math.max(0, limits.maxToolCalls - used.toolCalls),
          maxDurationS: Math.max(0, limits.maxDurationS - used.elapsedS),
          maxCostCents: limits.maxCostCents,
        })
      }),
    )
  })

  test('stops a segment exactly where the whole run stops', () => {
    fc.assert(
      fc.property(ceilings, use, use, (limits, before, inSegment) => {
        const total: RunUse = {
          turns: before.turns + inSegment.turns,
          toolCalls: before.toolCalls + inSegment.toolCalls,
          elapsedS: before.elapsedS + inSegment.elapsedS,
          spentCents: before.spentCents + inSegment.spentCents,
        }
        const left = remainder(limits, before)
        // Spend is a total on both sides: the meter answers for the run tree, not for the segment.
        expect(ceilingBeforeTurn(left, { ...inSegment, spentCents: total.spentCents })).toBe(
          ceilingBeforeTurn(limits, total),
        )
      }),
    )
  })
})
