import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { JOB_STATES } from './job.ts'
import { isTerminal } from './transition.ts'
import { decideJobWait, jobWaitUntil } from './wait.ts'

const NOW = new Date('2026-05-04T10:00:00.000Z')
const inS = (seconds: number): Date => new Date(NOW.getTime() + seconds * 1000)

test('T02 a job that has ended ends the wait, however late or early it is read', () => {
  for (const state of JOB_STATES.filter((one) => isTerminal(one)))
    for (const until of [inS(60), NOW, inS(-60)])
      expect(decideJobWait({ job: { state }, now: NOW, until })).toEqual({ kind: 'ended', state })
})

test('a job that goes on is waited for until the time is over', () => {
  for (const state of ['submitted', 'running'] as const) {
    expect(decideJobWait({ job: { state }, now: NOW, until: inS(1) })).toEqual({ kind: 'waits', until: inS(1) })
    expect(decideJobWait({ job: { state }, now: NOW, until: NOW })).toEqual({ kind: 'timed_out', state: 'running' })
  }
})

test('a job that is not there is not waited for', () => {
  expect(decideJobWait({ job: null, now: NOW, until: inS(60) })).toEqual({ kind: 'unknown_job' })
})

test('no wait outlives its run', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10_000 }), fc.integer({ min: 0, max: 10_000 }), (timeoutS, runS) => {
      expect(jobWaitUntil({ from: NOW, timeoutS, deadline: inS(runS) })).toEqual(inS(Math.min(timeoutS, runS)))
    }),
  )
})
