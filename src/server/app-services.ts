import { outgoingGuard } from '../connections/outgoing.ts'
import { intelligenceStore } from '../storage/intelligence-store.ts'
import type { Database } from '../storage/database.ts'
import { providerJobStore } from '../storage/provider-job-store.ts'
import { scopedDb } from '../storage/scoped-db.ts'
import type { Logger } from '../tools/invoker.ts'
import type { AppServices } from './config.ts'
import type { Settings } from './settings.ts'

interface Lenders {
  readonly database: Database
  readonly dataDir: string
  readonly logger: Logger
  readonly settings: Pick<Settings, 'vendorKeys' | 'outgoingAllow' | 'publicUrl'>
  /** Where this server is reached when the settings do not say; nowhere while a config is only checked. */
  readonly url?: string
}

/** What a config is lent while it builds its parts. */
export function appServices({ database, dataDir, logger, settings, url }: Lenders): AppServices {
  const publicUrl = settings.publicUrl ?? url ?? 'http://127.0.0.1'
  return {
    database,
    dataDir,
    logger,
    scopedDb: (organizationId) => scopedDb(database, organizationId),
    intelligence: intelligenceStore(database),
    providerJobs: providerJobStore(database),
    webhookUrl: (provider, jobId) => `${publicUrl}/api/v1/agentic/webhooks/${provider}/${jobId}`,
    vendorKeys: settings.vendorKeys,
    outgoing: (allow = []) => outgoingGuard({ allow: [...settings.outgoingAllow, ...allow] }),
  }
}
