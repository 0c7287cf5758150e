import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { JOB_STATES, type JobState } from './job.ts'
import { afterUpdate, isTerminal, legalFrom } from './transition.ts'

const RANK: Readonly<Record<JobState, number>> = { submitted: 0, running: 1, completed: 2, failed: 2, cancelled: 2 }
const state = fc.constantFrom(...JOB_STATES)
const updates = fc.array(state, { maxLength: 20 })

test('R48 a job that has ended stays where it is, whatever it is told', () => {
  fc.assert(
    fc.property(updates, updates, (before, after) => {
      const reached = before.reduce<JobState>(afterUpdate, 'submitted')
      fc.pre(isTerminal(reached))
      expect(after.reduce<JobState>(afterUpdate, reached)).toBe(reached)
    }),
  )
})

test('T04 R48 an earlier state, or the same again, changes nothing', () => {
  fc.assert(
    fc.property(state, state, (current, next) => {
      if (RANK[next] <= RANK[current]) expect(afterUpdate(current, next)).toBe(current)
      else expect(afterUpdate(current, next)).toBe(next)
    }),
  )
})

test('the first end that is told is the one that counts, in every order of deliveries', () => {
  fc.assert(
    fc.property(updates, (told) => {
      const reached = told.reduce<JobState>(afterUpdate, 'submitted')
      const first = told.find((next) => isTerminal(next))
      expect(reached).toBe(first ?? (told.includes('running') ? 'running' : 'submitted'))
    }),
  )
})

test('nothing moves a job back to where it was made', () => {
  expect(legalFrom('submitted')).toEqual([])
  for (const end of JOB_STATES.filter((one) => isTerminal(one)))
    expect(JOB_STATES.flatMap((next) => (legalFrom(next).includes(end) ? [next] : []))).toEqual([])
})
