import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { DataFolderInUse } from '../errors.ts'
import { isGone, parseProcess, type ProcessIdentity, thisProcess } from './process-identity.ts'

/** Holds one data folder for this process until it is released. */
export interface FolderLock {
  release(): void
}

/**
 * Takes the folder for this process. The lock file stands beside the folder (`<folder>.lock`), because the database
 * wants an empty folder to start in. A lock is taken over only from a process that is provably gone: a heartbeat would
 * lapse while a long query blocks the event loop, and stealing from the living corrupts the data.
 * Throws `DataFolderInUse`.
 */
export function lockFolder(folder: string): FolderLock {
  const lockFile = `${folder}.lock`
  const self = thisProcess()
  acquire(lockFile, self)
  let held = true
  return {
    release: () => {
      if (held) rmSync(lockFile, { force: true })
      held = false
    },
  }
}

function acquire(lockFile: string, self: ProcessIdentity): void {
  if (create(lockFile, self)) return
  const holder = read(lockFile)
  if (holder !== 'absent') refuseUnlessGone(lockFile, holder)
  takeOver(lockFile, self)
}

/**
 * Replaces the lock of a dead process. Of several processes that see the same dead one, only the owner of the take-over
 * file may remove its lock: otherwise the second would remove the fresh lock of the first.
 */
function takeOver(lockFile: string, self: ProcessIdentity): void {
  const takeOverFile = `${lockFile}.takeover`
  if (!create(takeOverFile, self)) {
    throw new DataFolderInUse(
      { lockFile: takeOverFile, pid: pidOf(read(takeOverFile)) },
      `Another process is taking over this data folder right now. Try again; if this stays and no Bailiff process runs, delete ${takeOverFile}.`,
    )
  }
  try {
    const holder = read(lockFile)
    if (holder !== 'absent') {
      refuseUnlessGone(lockFile, holder)
      rmSync(lockFile, { force: true })
    }
    if (!create(lockFile, self)) refuse(lockFile, read(lockFile))
  } finally {
    rmSync(takeOverFile, { force: true })
  }
}

type Reading = ProcessIdentity | 'absent' | 'unreadable'

function refuseUnlessGone(lockFile: string, holder: ProcessIdentity | 'unreadable'): void {
  if (holder === 'unreadable' || !isGone(holder)) refuse(lockFile, holder)
}

function refuse(lockFile: string, holder: Reading): never {
  const lock = { lockFile, pid: pidOf(holder) }
  if (typeof holder === 'string') {
    throw new DataFolderInUse(
      lock,
      `The lock file ${lockFile} does not say which process holds the data folder. Try again; if no Bailiff process runs, delete that file.`,
    )
  }
  const self = thisProcess()
  const who =
    holder.host !== self.host
      ? `process ${holder.pid} on host ${holder.host}`
      : holder.pid === self.pid
        ? `this process (${holder.pid}) itself`
        : `process ${holder.pid}`
  const remedy =
    holder.host === self.host
      ? 'Stop it, talk to it over HTTP, or choose another data folder; with DATABASE_URL any number of processes share one database.'
      : `If that host no longer runs Bailiff, delete ${lockFile}.`
  throw new DataFolderInUse(lock, `The data folder is in use by ${who} (${lockFile}). ${remedy}`)
}

function pidOf(holder: Reading): number | null {
  return typeof holder === 'string' ? null : holder.pid
}

/** False when the file is there already: creating is the one atomic step that decides between processes. */
function create(file: string, self: ProcessIdentity): boolean {
  try {
    writeFileSync(file, `${JSON.stringify(self)}\n`, { flag: 'wx' })
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  }
}

function read(file: string): Reading {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return 'absent'
    throw error
  }
  return parseProcess(text) ?? 'unreadable'
}

function errorCode(error: unknown): unknown {
  return error instanceof Error ? Reflect.get(error, 'code') : undefined
}
