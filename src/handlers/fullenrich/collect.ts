import { z } from 'zod'
import { shownState } from '../../provider-jobs/job.ts'
import type { JobReader } from '../../provider-jobs/reader.ts'
import { isTerminal } from '../../provider-jobs/transition.ts'
import { vendorTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { NotFoundError } from '../../tools/errors.ts'
import { ok } from '../../tools/models.ts'
import { BatchReason, batchReason, batchView, ContactResult, Diagnostics } from './projection.ts'
import { FULLENRICH } from './wire.ts'

const Output = z.object({
  jobId: z.uuid(),
  state: z.enum(['running', 'completed', 'failed', 'cancelled']),
  /** False while it is not known that the vendor took the batch. */
  accepted: z.boolean(),
  reason: BatchReason,
  /** Empty while the job runs. A batch that failed or was stopped keeps what it had found. */
  contacts: z.array(ContactResult),
  /** Null while the job runs. */
  diagnostics: Diagnostics.nullable(),
})

/** Reads what became of a batch, from its row: it asks no vendor, costs nothing and starts nothing. */
export function collectTool({ jobs }: { readonly jobs: JobReader }): ToolDeclaration<'fullenrich.collect'> {
  return vendorTool({
    name: 'fullenrich.collect',
    description:
      'Read the result of a batch that fullenrich.submit sent: running, completed, failed or cancelled, and one result for each contact once it has ended. Costs nothing; asking again changes nothing.',
    input: z.object({ jobId: z.uuid() }),
    output: Output,
    sideEffects: 'read',
    timeoutS: 10,
    handler: async ({ organizationId }, { jobId }) => {
      const job = await jobs.read({ organizationId, provider: FULLENRICH, id: jobId })
      // The same for a job of another organization: an answer must not say which jobs there are.
      if (job === null) throw new NotFoundError('there is no such job')
      const known = { jobId: job.id, state: shownState(job.state), accepted: job.providerJobId !== null }
      if (!isTerminal(job.state)) return ok({ ...known, reason: null, contacts: [], diagnostics: null }, UNTRUSTED)
      const result = await jobs.result(job)
      return ok({ ...known, reason: batchReason(result), ...batchView(job.contactRefs, result) }, UNTRUSTED)
    },
  })
}

const UNTRUSTED = { untrusted: true } as const
