import { fullEnrich, type FullEnrich } from 'bailiff/handlers/fullenrich'
import { vendorPriceBook } from 'bailiff/handlers/research'
import type { AppServices } from 'bailiff/server'
import { startFullEnrichSimulator } from '../../simulators/fullenrich.ts'

const LIVE = 'https://app.fullenrich.com/api/v2'

/** Long enough to see the run wait; the vendor itself takes minutes. */
const CALLS_BACK_MS = 1_000

export interface Enrichment extends FullEnrich {
  readonly notice: string
  close(): Promise<void>
}

/**
 * FullEnrich, whose batches end by a callback. Without its key it is a stand-in on this machine, which makes addresses up
 * and calls the same route of this server as the vendor would.
 */
export async function enrichment({
  vendorKeys,
  providerJobs: jobs,
  webhookUrl: callbackUrl,
}: Pick<AppServices, 'vendorKeys' | 'providerJobs' | 'webhookUrl'>): Promise<Enrichment> {
  const shared = { jobs, callbackUrl, prices: vendorPriceBook() }
  const apiKey = vendorKeys.fullenrich
  if (apiKey !== null)
    return {
      ...fullEnrich({ ...shared, access: { apiKey, baseUrl: LIVE } }),
      notice: 'real vendor: fullenrich; found addresses cost money, and it has to reach BAILIFF_PUBLIC_URL',
      close: async () => undefined,
    }
  const simulator = await startFullEnrichSimulator({ callsBack: { afterMs: CALLS_BACK_MS } })
  return {
    ...fullEnrich({ ...shared, access: { apiKey: 'simulated', baseUrl: simulator.url } }),
    notice:
      'simulated vendor: fullenrich; the addresses it calls back with are made up, until FULLENRICH_API_KEY is set',
    close: () => simulator.close(),
  }
}
