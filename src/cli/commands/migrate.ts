import { openDatabase } from '../../server/open-database.ts'
import { serverLogger } from '../../server/logger.ts'
import { readSettings } from '../../server/settings.ts'
import type { Context } from '../context.ts'

/** Applies what is missing to the database of the settings. A server does the same when it starts. */
export async function migrateDatabase(context: Context): Promise<void> {
  const opened = await openDatabase(readSettings(context.environment), serverLogger('warn'))
  try {
    const { applied, database } = opened
    context.answer({ database: database.description, applied }, () =>
      applied.length === 0
        ? `${database.description} is up to date`
        : `${database.description}: applied ${applied.join(', ')}`,
    )
  } finally {
    await opened.database.close()
  }
}
