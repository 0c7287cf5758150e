import { expect, inject, test } from 'vitest'
import { killAt } from './provider-jobs.ts'

/**
 * One of each step up to the event. A process that dies behind it may have taken the settlement with it, which is made up
 * for when the queue misses its heartbeat, half a minute later: `scripts/provider-job-kills.ts` waits for that.
 */
const POINTS = [
  'webhook.verify:before',
  'provider_jobs.find:after',
  'provider_jobs.keepResult:after',
  'provider_jobs.advance:after',
  'provider_jobs.claim:after',
  'provider_events.completed:before',
] as const

test.each(POINTS)(
  'T03 R47 R49 a kill at %s of a delivery and the delivery again are one transition and one usage row',
  async (point) => {
    const { killed, status, after, transitions } = await killAt(inject('postgresUrl'), point)
    expect({ killed, status, transitions }).toEqual({ killed: true, status: 200, transitions: 1 })
    expect(after).toEqual({ state: 'completed', results: 1, claims: 1, usageRows: 1, stamped: true })
  },
  // Two processes one after the other; the limit is there for one that never ends.
  120_000,
)
