import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { JOB_ID, jobIdOf, usageIdOf } from './job-id.ts'

const ORIGIN = {
  organizationId: '0192f0c1-0000-7000-8000-000000000001',
  runId: '0192f0c1-0000-7000-8000-000000000002',
  stepPath: 'people[3].enrich',
  provider: 'fullenrich',
  argsHash: 'a'.repeat(64),
}

test('a job id is the same for the same call in every process and every version', () => {
  expect(jobIdOf(ORIGIN)).toBe('4c14a01c-81cf-81fc-b93a-145bc2a74313')
  expect(usageIdOf(jobIdOf(ORIGIN))).toBe('aa02e79e-3cd2-8d2a-ae67-fadcc9445c5c')
})

test('a job id is a UUID, and another one for every other part of a call', () => {
  const text = fc.string({ maxLength: 12 })
  const origin = fc.record({ organizationId: text, runId: text, stepPath: text, provider: text, argsHash: text })
  fc.assert(
    fc.property(origin, origin, (one, other) => {
      expect(jobIdOf(one)).toMatch(JOB_ID)
      const same = JSON.stringify(Object.values(one)) === JSON.stringify(Object.values(other))
      expect(jobIdOf(one) === jobIdOf(other)).toBe(same)
    }),
  )
})

test('parts do not run into each other', () => {
  expect(jobIdOf({ ...ORIGIN, runId: 'ab', stepPath: 'c' })).not.toBe(
    jobIdOf({ ...ORIGIN, runId: 'a', stepPath: 'bc' }),
  )
})
