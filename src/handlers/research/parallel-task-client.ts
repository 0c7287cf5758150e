import type { Parallel } from 'parallel-web'
import { z } from 'zod'
import type { FetchedResult } from '../../provider-jobs/adapter.ts'
import type { Posted } from '../../provider-jobs/submit.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { VendorAccess } from '../vendor/access.ts'
import { unlessUnknown } from '../vendor/unknown-outcome.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { askParallel, PARALLEL, type ParallelAttempt } from './parallel-sdk.ts'

/** From cheap and quick to dear and thorough. */
export const PARALLEL_PROCESSORS = [
  'lite',
  'base',
  'core',
  'core2x',
  'pro',
  'ultra',
  'ultra2x',
  'ultra4x',
  'ultra8x',
] as const
export type ParallelProcessor = (typeof PARALLEL_PROCESSORS)[number]

/** Ids look like `trun_…`. One becomes part of a path, and is checked before it does. */
export const RunId = z.string().regex(/^[A-Za-z0-9_-]{1,120}$/)

export interface TaskField {
  readonly name: string
  readonly description: string
}

export interface TaskRequest {
  readonly jobId: string
  readonly callbackUrl: string
  readonly input: string
  readonly fields: readonly TaskField[]
  readonly processor: ParallelProcessor
}

interface To {
  readonly access: VendorAccess
  readonly attempt: ParallelAttempt
}

const Created = z.object({ run_id: RunId })

/**
 * Starts one task run, with one request: the API takes no idempotency key.
 * @throws VendorError what the vendor definitely refused
 */
export function createTask(request: TaskRequest, to: To): Promise<Posted> {
  return unlessUnknown(() =>
    askParallel(to, async (client, options) => {
      const { data } = Created.safeParse(await client.taskRun.create(bodyOf(request), options))
      return data === undefined ? { kind: 'unknown' } : { kind: 'accepted', providerJobId: data.run_id }
    }),
  )
}

/** Turns callbacks on; without it, the address is ignored. */
const WEBHOOK_BETA = 'webhook-2025-08-12'

function bodyOf({ jobId, callbackUrl, input, fields, processor }: TaskRequest): Parallel.TaskRunCreateParams {
  const properties = fields.map(({ name, description }) => [name, { type: 'string', description }] as const)
  const schema = {
    type: 'object',
    properties: Object.fromEntries(properties),
    required: fields.map(({ name }) => name),
    additionalProperties: false,
  }
  return {
    input,
    processor,
    task_spec: { output_schema: { type: 'json', json_schema: schema } },
    metadata: { job_id: jobId },
    webhook: { url: callbackUrl, event_types: ['task_run.status'] },
    betas: [WEBHOOK_BETA],
  }
}

const Finished = z.object({
  run: z.object({ status: z.literal('completed'), processor: z.string().max(64) }),
  output: z.object({ type: z.string() }).loose(),
})

/** Seconds the vendor may hold the request; the run has ended, so it answers at once. */
const HOLD_S = 20

/**
 * The result of a run that has ended. Reading it again costs nothing.
 * @throws VendorError
 */
export async function taskResult(runId: string, to: To): Promise<FetchedResult> {
  const answer = await askParallel(to, (client, options) =>
    client.taskRun.result(RunId.parse(runId), { timeout: HOLD_S }, options),
  )
  const { data, error } = Finished.safeParse(answer)
  if (data === undefined) throw new VendorError({ vendor: PARALLEL, trouble: 'decode', cause: error })
  // Checked to be JSON by the parser that read it.
  return { result: answer as unknown as JsonValue, cost: { processor: data.run.processor } }
}
