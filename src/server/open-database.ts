import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { EngineDatabase } from '../engines/embedded/engine.ts'
import type { Database } from '../storage/database.ts'
import { migrate } from '../storage/migrate.ts'
import { recoverInterrupted, type Recovered } from '../storage/recovery.ts'
import type { Logger } from '../tools/invoker.ts'
import type { Settings } from './settings.ts'

export interface OpenedDatabase {
  readonly database: Database
  readonly engine: EngineDatabase
  /** Migrations applied now. */
  readonly applied: readonly string[]
}

/** The embedded database's own folder inside the data folder. */
export function databaseFolder(dataDir: string): string {
  return join(dataDir, 'database')
}

/** The data folder holds keys and, embedded, everything else: nobody but its owner reads it. */
export async function prepareDataDir(dataDir: string): Promise<void> {
  const made = await mkdir(dataDir, { recursive: true, mode: 0o700 })
  // An existing folder keeps what its owner chose.
  if (made !== undefined) await chmod(dataDir, 0o700)
}

/**
 * Opens the database of the settings and applies what is missing.
 * @throws DataFolderInUse, DatabaseUnavailable, MigrationRefused
 */
export async function openDatabase(
  settings: Pick<Settings, 'databaseUrl' | 'dataDir'>,
  logger: Logger,
): Promise<OpenedDatabase> {
  await prepareDataDir(settings.dataDir)
  const opened =
    settings.databaseUrl === null
      ? await openEmbedded(settings.dataDir, logger)
      : await openShared(settings.databaseUrl)
  try {
    const { applied } = await migrate(opened.database)
    return { ...opened, applied }
  } catch (error) {
    await opened.database.close()
    throw error
  }
}

/** Gives back the work of a process that died; a shared database leaves that to leases and heartbeats. */
export async function recover(database: Database, logger: Logger): Promise<Recovered | null> {
  if (database.dialect !== 'pglite') return null
  const recovered = await recoverInterrupted(database)
  if (recovered.runs + recovered.claims > 0) logger.info('took over what an interrupted process left', { ...recovered })
  return recovered
}

// Each driver is loaded only where it is used: both are optional peer dependencies.
async function openEmbedded(dataDir: string, logger: Logger): Promise<Omit<OpenedDatabase, 'applied'>> {
  const { pgliteDatabase } = await import('../storage/pglite/index.ts')
  const database = await pgliteDatabase({
    dataDir: databaseFolder(dataDir),
    onError: (error) => logger.warn('maintenance of the embedded database failed', { error }),
  })
  return { database, engine: { dialect: 'pglite', raw: database.raw } }
}

async function openShared(connectionString: string): Promise<Omit<OpenedDatabase, 'applied'>> {
  const { pgDatabase } = await import('../storage/pg/index.ts')
  const database = await pgDatabase({ connectionString })
  return { database, engine: { dialect: 'postgres', connectionString } }
}
