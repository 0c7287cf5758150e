import { z } from 'zod'
import { shownState } from '../../provider-jobs/job.ts'
import type { JobReader } from '../../provider-jobs/reader.ts'
import { isTerminal } from '../../provider-jobs/transition.ts'
import { vendorTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { NotFoundError } from '../../tools/errors.ts'
import { ok } from '../../tools/models.ts'
import { PARALLEL } from './parallel-sdk.ts'
import { FieldResult, taskView } from './task-view.ts'

const Output = z.object({
  jobId: z.uuid(),
  state: z.enum(['running', 'completed', 'failed', 'cancelled']),
  /** False while it is not known that the vendor took the task. */
  accepted: z.boolean(),
  /** Empty while the job runs. */
  fields: z.array(FieldResult),
  /** Null while the job runs. */
  diagnostics: z.object({ missing: z.int(), malformed: z.int(), unknown: z.int() }).nullable(),
})

/** Reads what became of a task, from its row: it asks no vendor, costs nothing and starts nothing. */
export function collectTaskTool({ jobs }: { readonly jobs: JobReader }): ToolDeclaration<'research.collect_task'> {
  return vendorTool({
    name: 'research.collect_task',
    description:
      'Read the result of a task that research.submit_task started: running, completed, failed or cancelled, and one value with its sources for each field once it has ended. Costs nothing; asking again changes nothing.',
    input: z.object({ jobId: z.uuid() }),
    output: Output,
    sideEffects: 'read',
    timeoutS: 10,
    handler: async ({ organizationId }, { jobId }) => {
      const job = await jobs.read({ organizationId, provider: PARALLEL, id: jobId })
      // The same for a job of another organization: an answer must not say which jobs there are.
      if (job === null) throw new NotFoundError('there is no such job')
      const known = { jobId: job.id, state: shownState(job.state), accepted: job.providerJobId !== null }
      if (!isTerminal(job.state)) return ok({ ...known, fields: [], diagnostics: null }, UNTRUSTED)
      return ok({ ...known, ...taskView(job.contactRefs, await jobs.result(job)) }, UNTRUSTED)
    },
  })
}

const UNTRUSTED = { untrusted: true } as const
