import { z } from 'zod'

export const FULLENRICH = 'fullenrich'

/** The vendor's words for a batch. One that is not listed here is not understood, and ends nothing. */
export const BATCH_STATES = {
  CREATED: 'running',
  IN_PROGRESS: 'running',
  FINISHED: 'completed',
  CANCELED: 'cancelled',
  CREDITS_INSUFFICIENT: 'failed',
  RATE_LIMIT: 'failed',
  UNKNOWN: 'failed',
} as const

export type BatchStatus = keyof typeof BATCH_STATES

/** What the batch is called at the vendor: its callback is signed with the name, and must say it before it is believed. */
export function batchName(jobId: string): string {
  return `${NAME_PREFIX}${jobId}`
}

/** The job that a batch name stands for; null for a name that is none of ours. */
export function jobOfBatch(name: string): string | null {
  return name.startsWith(NAME_PREFIX) ? name.slice(NAME_PREFIX.length) : null
}

const NAME_PREFIX = 'agentic:'

/** Characters of the vendor's ids; they are UUIDs. */
export const EnrichmentId = z.string().regex(/^[\x21-\x7e]{1,200}$/)

/** A batch as its callback tells of it. The rows are read where they are shown, so that one bad row costs one contact. */
export const Batch = z.object({
  id: EnrichmentId,
  name: z.string().max(200),
  status: z.string().max(64),
  cost: z.object({ credits: z.number().nonnegative() }).nullish().catch(null),
})

/** Both spellings of the list are in use. */
export const BatchRows = z.object({
  status: z.string().max(64).catch(''),
  data: z.array(z.unknown()).nullish().catch(null),
  datas: z.array(z.unknown()).nullish().catch(null),
})

const Email = z.object({ email: z.string().nullish(), status: z.string().nullish() })

/** A miss is null, absent or empty. */
export const BatchRow = z.object({
  contact_info: z.object({ most_probable_work_email: Email.nullish() }).nullish(),
})

export const BatchRowRef = z.object({ custom: z.object({ ref: z.string() }) })

export const Accepted = z.object({ enrichment_id: EnrichmentId })
export const Complaint = z.object({ code: z.string() })
