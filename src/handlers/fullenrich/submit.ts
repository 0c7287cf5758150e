import { z } from 'zod'
import { submitJob, type JobReservations } from '../../provider-jobs/submit.ts'
import { vendorTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { ok } from '../../tools/models.ts'
import { companyDomain } from '../crm/company-domain.ts'
import { profileUrl } from '../crm/profile-url.ts'
import { line } from '../text-input.ts'
import type { VendorAccess } from '../vendor/access.ts'
import { HANDLER_MARGIN_MS } from '../vendor/retry-budget.ts'
import { submittedJob, type CallbackUrl } from '../vendor/submitted-job.ts'
import { postBatch } from './client.ts'
import { FULLENRICH } from './wire.ts'

export interface SubmitOptions {
  /** Checked. */
  readonly access: VendorAccess
  readonly jobs: JobReservations
  readonly callbackUrl: CallbackUrl
  /** Milliseconds of the one request; 30,000 unless given. */
  readonly requestMs?: number
}

export const MAX_CONTACTS = 25

/** Answers in under a second as a rule; whoever gives up sooner knows less. */
const REQUEST_MS = 30_000

const Contact = z
  .object({
    ref: line(64).describe('A name of your own for this contact, unique in the call; the result comes back under it.'),
    firstName: line(120),
    lastName: line(120),
    domain: z
      .string()
      .overwrite((text) => companyDomain(text) ?? text)
      .max(253)
      .refine((text) => companyDomain(text) !== null, 'is no domain name such as acme.com')
      .optional()
      .describe("Domain of the company, such as acme.com. Better than the company's name."),
    company: line(200).optional().describe('Name of the company, when its domain is not known.'),
    linkedinUrl: z
      .string()
      .overwrite((text) => profileUrl(text) ?? text)
      .max(512)
      .refine((text) => profileUrl(text) !== null, 'is no address of a LinkedIn profile')
      .optional()
      .describe("Address of the person's LinkedIn profile."),
  })
  .refine(
    ({ domain, company, linkedinUrl }) => [domain, company, linkedinUrl].some((known) => known !== undefined),
    'needs a domain, a company or a linkedinUrl',
  )

const Input = z.object({
  contacts: z
    .array(Contact)
    .min(1)
    .max(MAX_CONTACTS)
    .refine((contacts) => new Set(contacts.map(({ ref }) => ref)).size === contacts.length, 'every ref is used once'),
})

const Output = z.object({
  jobId: z.uuid(),
  /** False while it is not known that the vendor took the batch. */
  accepted: z.boolean(),
})

/** Sends a batch of contacts to FullEnrich and answers the job; what it costs is written when the vendor has finished. */
export function submitTool({
  access,
  jobs,
  callbackUrl,
  requestMs = REQUEST_MS,
}: SubmitOptions): ToolDeclaration<'fullenrich.submit'> {
  return vendorTool({
    name: 'fullenrich.submit',
    description:
      'Send 1 to 25 contacts to FullEnrich to find their work email addresses. Answers a jobId at once; the result takes minutes and is read with fullenrich.collect. Found addresses cost money. The same contacts sent again in the same step are the same job.',
    input: Input,
    output: Output,
    sideEffects: 'write',
    egress: true,
    metered: true,
    settles: 'later',
    repeatable: false,
    batchArgument: 'contacts',
    maxBatchSize: MAX_CONTACTS,
    vendors: [FULLENRICH],
    timeoutS: Math.ceil((requestMs + HANDLER_MARGIN_MS) / 1000),
    handler: {
      async execute(invocation, args, { signal }) {
        const { contacts } = args
        const refs = contacts.map(({ ref }) => ref)
        const submitted = submittedJob(invocation, { provider: FULLENRICH, args, refs })
        const request = { jobId: submitted.id, callbackUrl: callbackUrl(FULLENRICH, submitted.id), contacts }
        const attempt = { timeoutMs: requestMs, signal }
        const job = await submitJob(jobs, submitted, () => postBatch(request, { access, attempt }))
        return ok({ jobId: job.id, accepted: job.providerJobId !== null }, { untrusted: true })
      },
      preview: async (_invocation, { contacts }) =>
        `Find the work email of ${contacts.length} ${contacts.length === 1 ? 'contact' : 'contacts'} with FullEnrich`,
    },
  })
}
