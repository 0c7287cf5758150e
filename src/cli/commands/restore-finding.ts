import { examineRestore } from '../../server/restore-watch.ts'
import type { Database } from '../../storage/database.ts'
import { readOpenWork } from '../../storage/operations-store.ts'
import { counted } from '../text.ts'
import type { Finding } from './doctor.ts'

/** Whether the database came back from a backup, and what is held since one did. Changes nothing. */
export async function restoreFinding(database: Database, dataDir: string): Promise<Finding> {
  const check = 'restore'
  const verdict = await examineRestore({ database, dataDir })
  if (verdict.kind === 'restored')
    return {
      check,
      state: 'warning',
      message: `the database came back from a backup: ${verdict.reason}; a start holds every run that has not ended`,
    }
  const { held } = await readOpenWork(database)
  if (held > 0)
    return {
      check,
      state: 'warning',
      message: `${counted(held, 'run')} held; bailiff dead-letters --kind run_held shows them, bailiff runs release lets them go on`,
    }
  return { check, state: 'ok', message: 'the database has not come back from a backup, as far as can be told' }
}
