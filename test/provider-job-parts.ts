import { fullEnrich } from '../src/handlers/fullenrich/index.ts'
import { parallelTask } from '../src/handlers/research/index.ts'
import type { Database } from '../src/storage/database.ts'
import { providerJobStore } from '../src/storage/provider-job-store.ts'
import { vendorPriceBook } from '../src/usage/vendor-prices.ts'

export const FULLENRICH_KEY = 'fe_test_key'
/** Of the same account, before its key was changed. */
export const FORMER_KEY = 'fe_former_key'
export const PARALLEL_KEY = 'px_test_key'
export const PARALLEL_SECRET = 'whsec-of-the-account'
export const PUBLIC_URL = 'http://127.0.0.1:4400'
/** Milliseconds of one request; long enough for a busy machine, short enough to wait for one that hangs. */
const REQUEST_MS = 1_500

/** Tools and providers of both vendors of jobs, for a core on this database. */
export function providers(database: Database, urls: { readonly fullenrich: string; readonly parallel: string }) {
  const jobs = providerJobStore(database)
  const callbackUrl = (provider: string, jobId: string): string =>
    `${PUBLIC_URL}/api/v1/agentic/webhooks/${provider}/${jobId}`
  const shared = { jobs, prices: vendorPriceBook(), callbackUrl, requestMs: REQUEST_MS }
  const enrich = fullEnrich({
    ...shared,
    access: { apiKey: FULLENRICH_KEY, baseUrl: urls.fullenrich },
    formerKeys: [FORMER_KEY],
  })
  const task = parallelTask({
    ...shared,
    access: { apiKey: PARALLEL_KEY, baseUrl: urls.parallel },
    webhookSecrets: [PARALLEL_SECRET],
  })
  return { tools: [...enrich.tools, ...task.tools], providers: [enrich.provider, task.provider] }
}
