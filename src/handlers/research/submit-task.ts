import { z } from 'zod'
import { submitJob, type JobReservations } from '../../provider-jobs/submit.ts'
import { vendorTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { ok } from '../../tools/models.ts'
import { line, prose } from '../text-input.ts'
import type { VendorAccess } from '../vendor/access.ts'
import { HANDLER_MARGIN_MS } from '../vendor/retry-budget.ts'
import { submittedJob, type CallbackUrl } from '../vendor/submitted-job.ts'
import { PARALLEL } from './parallel-sdk.ts'
import { createTask, type ParallelProcessor } from './parallel-task-client.ts'

export interface SubmitTaskOptions {
  /** Checked. */
  readonly access: VendorAccess
  readonly jobs: JobReservations
  readonly callbackUrl: CallbackUrl
  readonly processor: ParallelProcessor
  /** Milliseconds of the one request; 30,000 unless given. */
  readonly requestMs?: number
}

export const MAX_FIELDS = 10

const REQUEST_MS = 30_000

const Field = z.object({
  name: z
    .string()
    .regex(/^[a-z][a-z0-9_]{0,47}$/)
    .describe('A name of your own for this field, unique in the call; the value comes back under it.'),
  description: line(300).describe('What the field is to hold.'),
})

const Input = z.object({
  subject: prose(4_000).describe('What to find out about, with everything that tells it apart.'),
  fields: z
    .array(Field)
    .min(1)
    .max(MAX_FIELDS)
    .refine((fields) => new Set(fields.map(({ name }) => name)).size === fields.length, 'every name is used once'),
})

const Output = z.object({
  jobId: z.uuid(),
  /** False while it is not known that the vendor took the task. */
  accepted: z.boolean(),
})

/** Starts a task run at Parallel and answers the job; what it costs is written when the vendor has finished. */
export function submitTaskTool(options: SubmitTaskOptions): ToolDeclaration<'research.submit_task'> {
  const { access, jobs, callbackUrl, processor, requestMs = REQUEST_MS } = options
  return vendorTool({
    name: 'research.submit_task',
    description:
      'Have a subject researched on the web in depth, field by field, with sources. Answers a jobId at once; the result takes minutes to hours and is read with research.collect_task. Each task is charged. The same task sent again in the same step is the same job.',
    input: Input,
    output: Output,
    sideEffects: 'write',
    egress: true,
    metered: true,
    settles: 'later',
    repeatable: false,
    batchArgument: 'fields',
    maxBatchSize: MAX_FIELDS,
    vendors: [PARALLEL],
    timeoutS: Math.ceil((requestMs + HANDLER_MARGIN_MS) / 1000),
    handler: {
      async execute(invocation, args, { signal }) {
        const { subject: input, fields } = args
        const refs = fields.map(({ name }) => name)
        const submitted = submittedJob(invocation, { provider: PARALLEL, args, refs })
        const request = {
          jobId: submitted.id,
          callbackUrl: callbackUrl(PARALLEL, submitted.id),
          input,
          fields,
          processor,
        }
        const attempt = { timeoutMs: requestMs, signal }
        const job = await submitJob(jobs, submitted, () => createTask(request, { access, attempt }))
        return ok({ jobId: job.id, accepted: job.providerJobId !== null }, { untrusted: true })
      },
      preview: async (_invocation, { subject, fields }) =>
        `Research ${fields.length} ${fields.length === 1 ? 'field' : 'fields'} with Parallel (${processor}): ${subject}`,
    },
  })
}
