import { outgoingGuard } from '../connections/outgoing.ts'
import { intelligenceStore } from '../storage/intelligence-store.ts'
import type { Database } from '../storage/database.ts'
import { scopedDb } from '../storage/scoped-db.ts'
import type { Logger } from '../tools/invoker.ts'
import type { AppServices } from './config.ts'
import type { Settings } from './settings.ts'

interface Lenders {
  readonly database: Database
  readonly dataDir: string
  readonly logger: Logger
  readonly settings: Pick<Settings, 'vendorKeys' | 'outgoingAllow'>
}

/** What a config is lent while it builds its parts. */
export function appServices({ database, dataDir, logger, settings }: Lenders): AppServices {
  return {
    database,
    dataDir,
    logger,
    scopedDb: (organizationId) => scopedDb(database, organizationId),
    intelligence: intelligenceStore(database),
    vendorKeys: settings.vendorKeys,
    outgoing: (allow = []) => outgoingGuard({ allow: [...settings.outgoingAllow, ...allow] }),
  }
}
