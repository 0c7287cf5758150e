import type { JobProvider } from '../../provider-jobs/adapter.ts'
import type { ToolJobs } from '../../provider-jobs/store.ts'
import type { ToolDeclaration } from '../../tools/declarations.ts'
import type { UsageRecord } from '../../tools/invocation.ts'
import { own } from '../../tools/json.ts'
import type { VendorPriceBook } from '../../usage/vendor-prices.ts'
import { checkedAccess, type VendorAccess } from '../vendor/access.ts'
import type { CallbackUrl } from '../vendor/submitted-job.ts'
import { collectTool } from './collect.ts'
import { submitTool } from './submit.ts'
import { fullEnrichWebhook } from './webhook.ts'
import { FULLENRICH } from './wire.ts'

export interface FullEnrichOptions {
  readonly access: VendorAccess
  /** Keys the account had before, for batches that are out while it is changed. */
  readonly formerKeys?: readonly string[]
  readonly jobs: ToolJobs
  readonly prices: VendorPriceBook
  readonly callbackUrl: CallbackUrl
  /** Milliseconds of the one request of a submit. */
  readonly requestMs?: number
}

/** Work email addresses of contacts, found in minutes: two tools, and the provider whose callbacks end their jobs. */
export interface FullEnrich {
  readonly tools: readonly [ToolDeclaration<'fullenrich.submit'>, ToolDeclaration<'fullenrich.collect'>]
  readonly provider: JobProvider
}

/** @throws Error for a key or an address no request should be made with, or without a price */
export function fullEnrich(options: FullEnrichOptions): FullEnrich {
  const { jobs, prices, callbackUrl, requestMs, formerKeys = [] } = options
  const access = checkedAccess(FULLENRICH, options.access)
  for (const apiKey of formerKeys) checkedAccess(FULLENRICH, { ...access, apiKey })
  prices.cents(FULLENRICH, ITEM, 1)
  return {
    tools: [
      submitTool({ access, jobs, callbackUrl, ...(requestMs === undefined ? {} : { requestMs }) }),
      collectTool({ jobs }),
    ],
    provider: {
      webhook: fullEnrichWebhook([access.apiKey, ...formerKeys]),
      usageOf: ({ cost, contactRefs }) => usageOf(own(cost ?? {}, 'credits'), contactRefs.length, prices),
    },
  }
}

const ITEM = 'work-email'

/** One credit for a found address. A batch that does not say what it cost is charged as if every contact had been found. */
function usageOf(reported: unknown, contacts: number, prices: VendorPriceBook): UsageRecord {
  const known = typeof reported === 'number' && Number.isFinite(reported) && reported >= 0
  const credits = known ? reported : contacts
  return {
    provider: FULLENRICH,
    item: ITEM,
    quantity: known ? { credits } : { credits, estimated: 1 },
    costCents: prices.cents(FULLENRICH, ITEM, credits),
  }
}
