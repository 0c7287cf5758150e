import { randomUUID } from 'node:crypto'
import { judgeRestore, type Installation, type RestoreVerdict } from '../decision/restore.ts'
import type { Database } from '../storage/database.ts'
import {
  holdOpenRuns,
  inInstallation,
  noteInstallation,
  readCluster,
  readInstallation,
  tickInstallation,
} from '../storage/installation-store.ts'
import { readOpenWork } from '../storage/operations-store.ts'
import type { Logger } from '../tools/invoker.ts'
import { readInstallationFile, writeInstallationFile } from './installation-file.ts'

export interface RestoreWatch {
  /** Null where the database is the one that was here before, or a new one. */
  readonly restored: string | null
  /** Runs held now, by this start. */
  readonly held: number
  /** For a person, at a start. */
  readonly notices: readonly string[]
  /** Moves the generation on, in the database and then in the file: what a later start compares. */
  tick(): Promise<void>
}

export interface RestorePlace {
  readonly database: Database
  readonly dataDir: string
  readonly logger: Logger
}

/**
 * Before anything else happens on a database: if it came back from a backup, every run that has not ended is held, since
 * calls that it does not know of may have taken effect. The database is known from now on as what it is.
 */
export async function watchForRestore(place: RestorePlace): Promise<RestoreWatch> {
  const { database, dataDir, logger } = place
  const witness = await readInstallationFile(dataDir)
  const cluster = await readCluster(database)
  const { verdict, held, noted } = await inInstallation(database, async (tx) => {
    const stored = await readInstallation(tx)
    const found = judgeRestore({ cluster, stored, witness })
    const count = found.kind === 'restored' ? await holdOpenRuns(tx, heldReason(found.reason)) : 0
    // An embedded database that came back is known by a new name: of two copies, each is then its own.
    const kept = found.kind === 'same' ? stored : null
    const identity = cluster ?? kept?.identity ?? `folder:${randomUUID()}`
    const seen = Math.max(stored?.generation ?? 0, witness?.generation ?? 0)
    return { verdict: found, held: count, noted: await noteInstallation(tx, { identity, generation: seen + 1 }) }
  })
  const write = writer(place)
  await write(noted)
  const restored = verdict.kind === 'restored' ? verdict.reason : null
  if (restored !== null && held > 0)
    logger.error('THE DATABASE CAME BACK FROM A BACKUP: every run that has not ended is held', {
      reason: restored,
      held,
    })
  return {
    restored,
    held,
    notices: noticesOf(verdict, held, (await readOpenWork(database)).held),
    async tick() {
      const moved = await tickInstallation(database)
      if (moved !== null) await write(moved)
    },
  }
}

/** The same judgement, changing nothing. */
export async function examineRestore({ database, dataDir }: Omit<RestorePlace, 'logger'>): Promise<RestoreVerdict> {
  return judgeRestore({
    cluster: await readCluster(database),
    stored: await readInstallation(database),
    witness: await readInstallationFile(dataDir),
  })
}

export function heldReason(reason: string): string {
  return `the database came back from a backup: ${reason}`
}

function noticesOf(verdict: RestoreVerdict, held: number, heldInAll: number): readonly string[] {
  const look = 'bailiff dead-letters --kind run_held shows them, bailiff runs release lets them go on'
  if (verdict.kind === 'restored' && held > 0)
    return [`RESTORED: this database came back from a backup (${verdict.reason}); ${runs(held)} held; ${look}`]
  return heldInAll === 0 ? [] : [`held: ${runs(heldInAll)} held; ${look}`]
}

function runs(count: number): string {
  return count === 1 ? '1 run is' : `${count} runs are`
}

/** The database serves without the file: a folder that cannot be written costs a witness, and one warning. */
function writer({ dataDir, logger }: RestorePlace): (installation: Installation) => Promise<void> {
  let warned = false
  return async (installation) => {
    try {
      await writeInstallationFile(dataDir, installation)
      warned = false
    } catch (error) {
      if (!warned) logger.warn('the data folder cannot be written; a restored database may go unnoticed', { error })
      warned = true
    }
  }
}
