import type { JobListing } from '../../provider-jobs/listing.ts'
import type { AmbientSpans, ToolInvoker } from '../../tools/invoker.ts'
import type { WorkflowOutcome } from './outcome.ts'
import type { RunRow, Segment } from '../run-store.ts'
import type { StartChild } from '../start.ts'
import type { ChildStore } from './child-store.ts'
import { Pass } from './pass.ts'
import type { SignalStore } from './signal-store.ts'
import { StepBook } from './step-book.ts'
import type { StepStore } from './step-store.ts'

export interface WorkflowDependencies {
  readonly steps: StepStore
  readonly signals: SignalStore
  readonly children: ChildStore
  readonly jobs: Pick<JobListing, 'get'>
  readonly startChild: (child: StartChild) => Promise<RunRow>
  readonly invoker: ToolInvoker
  readonly ambient: AmbientSpans
  readonly now: () => Date
  readonly onChange: (organizationId: string, runId: string) => void
}

/** Runs the segments of workflow runs. Taking a run, its heartbeat, its end and its retries are those of every run. */
export class WorkflowExecutor {
  readonly #deps: WorkflowDependencies

  constructor(deps: WorkflowDependencies) {
    this.#deps = deps
  }

  /** Works until everything waits or is over. `leave` ends the segment before its next node; what is in flight settles. */
  async runSegment(segment: Segment, leave: AbortSignal): Promise<WorkflowOutcome> {
    const definition = segment.run.snapshot.workflow
    if (definition === undefined)
      return { kind: 'failed', code: 'internal_error', message: 'the run was started without its workflow' }
    const book = new StepBook(segment, await this.#deps.steps.load(segment), this.#deps.now)
    return new Pass(this.#deps, { segment, definition, book, leave }).run()
  }
}
