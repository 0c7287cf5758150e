import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { appServices } from '../server/app-services.ts'
import { findConfig, loadConfig, type AppParts } from '../server/config.ts'
import { serverLogger } from '../server/logger.ts'
import { readSettings, type Environment } from '../server/settings.ts'
import type { Database } from '../storage/database.ts'
import { migrate } from '../storage/migrate.ts'
import { pgliteDatabase } from '../storage/pglite/index.ts'

export interface OpenedConfig {
  /** Of the config file. */
  readonly path: string
  readonly parts: AppParts
  /** In memory, with the schema in place. */
  readonly database: Database
}

/** Sets a config up on a database in memory, for as long as `work` takes. Needs no server. */
export async function withConfig<T>(
  { config, environment }: { readonly config: string | undefined; readonly environment: Environment },
  work: (opened: OpenedConfig) => Promise<T>,
): Promise<T> {
  const path = config ?? (await findConfig(process.cwd()))
  const loaded = await loadConfig(path)
  const settings = readSettings(environment)
  const dataDir = await mkdtemp(join(tmpdir(), 'bailiff-check-'))
  const database = await pgliteDatabase({ maintenanceMs: 0 })
  try {
    await migrate(database)
    const parts = await loaded.setup(appServices({ database, dataDir, logger: serverLogger('warn'), settings }))
    try {
      return await work({ path, parts, database })
    } finally {
      await parts.close?.()
    }
  } finally {
    await database.close()
    await rm(dataDir, { recursive: true, force: true })
  }
}
