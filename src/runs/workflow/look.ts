import { JOB_ID } from '../../provider-jobs/job-id.ts'
import type { JobListing } from '../../provider-jobs/listing.ts'
import { decideJobWait } from '../../provider-jobs/wait.ts'
import type { Segment } from '../run-store.ts'
import { OPEN_STATUSES } from '../definition.ts'
import type { ChildLook, ChildStore } from './child-store.ts'
import type { SignalStore } from './signal-store.ts'
import type { Rest } from './step-book.ts'
import type { StepRow, StepWait } from './step.ts'

/** What a look at a wait answers. */
export type Look =
  | { readonly kind: 'open' }
  /** What was waited for has come: the step makes its call. */
  | { readonly kind: 'again' }
  | { readonly kind: 'over'; readonly rest: Rest }

export interface Looking {
  readonly segment: Segment
  readonly now: Date
  readonly signals: Pick<SignalStore, 'take'>
  readonly children: Pick<ChildStore, 'look'>
  readonly jobs: Pick<JobListing, 'get'>
  /** Whether nobody has answered a question yet. */
  readonly isOpen: (approvalId: string) => boolean
}

type Looks = {
  readonly [Kind in StepWait['kind']]: (
    wait: Extract<StepWait, { kind: Kind }>,
    step: StepRow,
    looking: Looking,
  ) => Promise<Look>
}

/**
 * The one place that knows what waits wait for. Each is looked at when it begins and again whenever the run is woken,
 * its time among the reasons: what came before anybody waited, or in the moment the time ran out, is found by its row.
 */
const LOOKS: Looks = {
  time: ({ until }, _step, { now }) =>
    Promise.resolve(past(until, now) ? over({ kind: 'completed', output: { at: until } }) : OPEN),
  async signal({ name, until }, { path }, { segment, signals, now }) {
    const taken = await signals.take(segment, name, path)
    if (taken !== null) return over({ kind: 'completed', output: { received: true, payload: taken.payload } })
    return past(until, now) ? over({ kind: 'completed', output: { received: false, payload: null } }) : OPEN
  },
  approval: ({ approvalId, until }, _step, { isOpen, now }) =>
    Promise.resolve(isOpen(approvalId) && !past(until, now) ? OPEN : AGAIN),
  async child({ runId }, _step, { segment, children }) {
    const child = await children.look(segment.run.organizationId, runId)
    return child !== null && OPEN_STATUSES.includes(child.status) ? OPEN : over(restOf(child))
  },
  async provider_job({ jobId, until }, _step, { segment, jobs, now }) {
    const job = JOB_ID.test(jobId) ? await jobs.get(segment.run.organizationId, jobId) : null
    const decision = decideJobWait({ job, now, until: new Date(until) })
    switch (decision.kind) {
      case 'waits':
        return OPEN
      case 'unknown_job':
        return over({ kind: 'failed', error: { code: 'not_found', message: 'there is no such job' } })
      case 'ended':
      case 'timed_out':
        return over({ kind: 'completed', output: { ended: decision.kind === 'ended', state: decision.state } })
    }
  },
  lease: ({ until }, _step, { now }) => Promise.resolve(past(until, now) ? AGAIN : OPEN),
}

const OPEN: Look = { kind: 'open' }
const AGAIN: Look = { kind: 'again' }

export function look(step: StepRow, looking: Looking): Promise<Look> {
  const { wait } = step
  if (wait === null) return Promise.resolve(AGAIN)
  const known = LOOKS[wait.kind] as (wait: StepWait, step: StepRow, looking: Looking) => Promise<Look>
  return known(wait, step, looking)
}

/** A child that was cut short is done as far as it came; one that failed or was stopped failed its node. */
function restOf(child: ChildLook | null): Rest {
  if (child === null) return { kind: 'failed', error: { code: 'child_failed', message: 'the run is gone' } }
  const { status, reason, message, output } = child
  const why = [reason, message].filter((part) => part !== null && part !== '').join(': ')
  if (status === 'completed') return { kind: 'completed', output }
  if (status === 'partial') return { kind: 'completed', output, error: { code: 'child_partial', message: why } }
  return { kind: 'failed', error: { code: status === 'cancelled' ? 'child_cancelled' : 'child_failed', message: why } }
}

function over(rest: Rest): Look {
  return { kind: 'over', rest }
}

function past(until: string, now: Date): boolean {
  return now.getTime() >= Date.parse(until)
}
