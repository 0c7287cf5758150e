import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { EngineDatabase } from '../engines/embedded/engine.ts'
import type { Database } from '../storage/database.ts'
import { serverOf } from '../storage/health.ts'
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

/** The two addresses lead to two databases: what is migrated is not what is used. */
export class DatabasesDiffer extends Error {
  override readonly name = 'DatabasesDiffer'
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
 * @throws DataFolderInUse, DatabaseUnavailable, DatabasesDiffer, MigrationRefused
 */
export async function openDatabase(settings: DatabaseSettings, logger: Logger): Promise<OpenedDatabase> {
  await prepareDataDir(settings.dataDir)
  if (settings.databaseUrl !== null) {
    const direct = settings.databaseUrlDirect
    const pooled = settings.databaseUrl
    return direct === null ? openPlain(pooled, logger) : openPooled({ pooled, direct })
  }
  const opened = await openEmbedded(settings.dataDir, logger)
  return closingOnFault(opened.database, async () => ({ ...opened, ...(await migrate(opened.database)) }))
}

type DatabaseSettings = Pick<Settings, 'databaseUrl' | 'databaseUrlDirect' | 'dataDir'>

async function closingOnFault<T>(database: Database, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await database.close()
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

async function openPlain(connectionString: string, logger: Logger): Promise<OpenedDatabase> {
  const { pgDatabase } = await import('../storage/pg/index.ts')
  const { probePooler } = await import('../storage/pg/pooler.ts')
  const { pooled, named } = await probePooler(connectionString)
  if (pooled) logger.warn('DATABASE_URL leads through a transaction pooler; set DATABASE_URL_DIRECT beside it')
  const database = await pgDatabase({ connectionString, named })
  return closingOnFault(database, async () => ({
    database,
    engine: { dialect: 'postgres', connectionString },
    ...(await migrate(database)),
  }))
}

interface PooledAddresses {
  readonly pooled: string
  readonly direct: string
}

/**
 * Statements and transactions go through the pooler. What needs a connection for itself goes past it: migrations under
 * their lock, and the queue, which listens.
 */
async function openPooled({ pooled, direct }: PooledAddresses): Promise<OpenedDatabase> {
  const { pgDatabase } = await import('../storage/pg/index.ts')
  const { probePooler } = await import('../storage/pg/pooler.ts')
  const past = await pgDatabase({ connectionString: direct, max: 1 })
  try {
    const applied = await migrate(past)
    const { named } = await probePooler(pooled)
    const database = await pgDatabase({ connectionString: pooled, named })
    return await closingOnFault(database, async () => {
      if ((await serverOf(database)) !== (await serverOf(past)))
        throw new DatabasesDiffer(
          `DATABASE_URL leads to ${database.description} and DATABASE_URL_DIRECT to ${past.description}, which are not the same database; correct one of them`,
        )
      return { database, engine: { dialect: 'postgres', connectionString: direct }, ...applied }
    })
  } finally {
    await past.close()
  }
}
