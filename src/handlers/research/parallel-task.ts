import type { JobProvider } from '../../provider-jobs/adapter.ts'
import type { JobRecord } from '../../provider-jobs/job.ts'
import type { SecretEncoding } from '../../provider-jobs/standard-webhooks.ts'
import type { ToolJobs } from '../../provider-jobs/store.ts'
import type { ToolDeclaration } from '../../tools/declarations.ts'
import type { UsageRecord } from '../../tools/invocation.ts'
import { own } from '../../tools/json.ts'
import type { VendorPriceBook } from '../../usage/vendor-prices.ts'
import { checkedAccess, type VendorAccess } from '../vendor/access.ts'
import type { CallbackUrl } from '../vendor/submitted-job.ts'
import { collectTaskTool } from './collect-task.ts'
import { PARALLEL } from './parallel-sdk.ts'
import { PARALLEL_PROCESSORS, taskResult, type ParallelProcessor } from './parallel-task-client.ts'
import { parallelTaskWebhook } from './parallel-task-webhook.ts'
import { submitTaskTool } from './submit-task.ts'

export interface ParallelTaskOptions {
  readonly access: VendorAccess
  /** The secret of the account's webhooks and, while it is changed, the one before. It is not the API key. */
  readonly webhookSecrets: readonly string[]
  /** How the secret becomes a key; `text`, as the vendor's own sample does it, unless given. */
  readonly secretEncoding?: SecretEncoding
  readonly jobs: ToolJobs
  readonly prices: VendorPriceBook
  readonly callbackUrl: CallbackUrl
  /** How thorough and how dear each task is; `core` unless given. The deployment's choice, not a model's. */
  readonly processor?: ParallelProcessor
  /** Milliseconds of one request. */
  readonly requestMs?: number
  readonly now?: () => Date
}

/** Research in depth, found in minutes to hours: two tools, and the provider whose callbacks end their jobs. */
export interface ParallelTask {
  readonly tools: readonly [ToolDeclaration<'research.submit_task'>, ToolDeclaration<'research.collect_task'>]
  readonly provider: JobProvider
}

const REQUEST_MS = 30_000

/** @throws Error for a key, a secret or an address no request should be made with, or without a price */
export function parallelTask(options: ParallelTaskOptions): ParallelTask {
  const { jobs, prices, callbackUrl, processor = 'core', requestMs = REQUEST_MS } = options
  const { webhookSecrets: secrets, secretEncoding: encoding = 'text', now = () => new Date() } = options
  const access = checkedAccess(PARALLEL, options.access)
  if (secrets.length === 0) throw new Error('parallel: without the secret of its webhooks no callback can be believed')
  prices.cents(PARALLEL, `task.${processor}`, 1)
  return {
    tools: [submitTaskTool({ access, jobs, callbackUrl, processor, requestMs }), collectTaskTool({ jobs })],
    provider: {
      webhook: parallelTaskWebhook({ secrets, encoding }, now),
      usageOf: (job) => usageOf(job, processor, prices),
      fetchResult: ({ providerJobId }, signal) =>
        taskResult(providerJobId ?? '', { access, attempt: { timeoutMs: requestMs, signal } }),
    },
  }
}

/**
 * One run of the processor that the vendor names. It tells no cost, so every row is an estimate; and it does not say that
 * a run which failed is free, so such a run is charged too.
 */
function usageOf({ cost }: JobRecord, configured: ParallelProcessor, prices: VendorPriceBook): UsageRecord {
  const reported = own(cost ?? {}, 'processor')
  const processor = PARALLEL_PROCESSORS.find((known) => known === reported) ?? configured
  const item = `task.${processor}`
  return {
    provider: PARALLEL,
    item,
    quantity: { runs: 1, estimated: 1 },
    costCents: prices.cents(PARALLEL, item, 1),
  }
}
