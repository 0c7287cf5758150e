import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ApprovalState, CoverageSubject } from './coverage.ts'
import { covers, readApproval } from './coverage.ts'

const STATES: readonly ApprovalState[] = ['pending', 'approved', 'rejected', 'expired', 'cancelled', 'stale']
const FIELDS = ['organizationId', 'runId', 'action', 'argumentsHash'] as const

const subject: fc.Arbitrary<CoverageSubject> = fc.record({
  organizationId: fc.string(),
  runId: fc.string(),
  action: fc.string(),
  argumentsHash: fc.string(),
})
const state = fc.constantFrom(...STATES)

test('an approval covers the call it was filed for, and what else it carries does not matter', () => {
  fc.assert(
    fc.property(subject, state, fc.string(), (call, state, note) => {
      const approval = { ...call, state, note }
      expect(covers(approval, { ...call })).toBe(true)
      expect(readApproval(approval, call)).not.toBe(state === 'approved' ? 'none' : 'approved')
    }),
  )
})

test('R17 an approval that differs in any of the four fields says nothing, not even when it was rejected', () => {
  fc.assert(
    fc.property(subject, fc.subarray([...FIELDS], { minLength: 1 }), state, (call, changed, state) => {
      const approval = { ...call, state }
      for (const field of changed) approval[field] = `${call[field]}x`
      expect(covers(approval, call)).toBe(false)
      expect(readApproval(approval, call)).toBe('none')
    }),
  )
})

describe('a covering approval', () => {
  const call: CoverageSubject = { organizationId: 'o', runId: 'r', action: 'email.send', argumentsHash: 'h' }

  test.each([
    ['approved', 'approved'],
    ['rejected', 'refused'],
    ['expired', 'refused'],
    ['pending', 'pending'],
    ['cancelled', 'none'],
    ['stale', 'none'],
  ] as const)('that is %s reads %s', (state, reading) => {
    expect(readApproval({ ...call, state }, call)).toBe(reading)
  })

  test('that was not handed reads none', () => {
    expect(readApproval(null, call)).toBe('none')
  })
})

test('a field of another type is no match', () => {
  const call: CoverageSubject = { organizationId: 'o', runId: '1', action: 'a', argumentsHash: 'h' }
  expect(covers({ ...call, runId: 1 as unknown as string }, call)).toBe(false)
})
