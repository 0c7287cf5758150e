import { AsyncLocalStorage } from 'node:async_hooks'
import { existsSync, mkdirSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import {
  PGlite,
  type Results,
  type Transaction as PGliteTransaction,
  TransactionAbortedError,
} from '@electric-sql/pglite'
import type { Database, Queryable, QueryResult, Statement, Transaction } from '../database.ts'
import { HandleMisused, TransactionAborted } from '../errors.ts'
import { kyselyOver } from '../kysely.ts'
import { unnamed } from '../statement.ts'
import { textParsers } from '../type-parsers.ts'
import { type FolderLock, lockFolder } from './folder-lock.ts'

export interface PgliteOptions {
  /** Folder of the database; kept in memory when absent. */
  readonly dataDir?: string
  /** Tar made by `PgliteDatabase.image()`: a new database starts from it, an existing folder ignores it. */
  readonly image?: Blob
  /** Milliseconds between VACUUM and CHECKPOINT; 0 never. Ten minutes when absent. */
  readonly maintenanceMs?: number
  /** Hears of a failed maintenance; it is tried again at the next tick. */
  readonly onError?: (error: unknown) => void
}

/** The part of PGlite that libraries with a PGlite adapter of their own ask for. */
export interface PGliteLike {
  // The ports of such adapters are generic.
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  query<Row = Record<string, unknown>>(query: string, params?: unknown[]): Promise<{ rows: Row[] }>
  exec(query: string): Promise<{ rows: Record<string, unknown>[] }[]>
  listen(channel: string, callback: (payload: string) => void): Promise<() => Promise<void>>
}

export interface PgliteDatabase extends Database {
  readonly dialect: 'pglite'
  readonly raw: PGliteLike
  /** The data as a tar, to start other databases from. */
  image(): Promise<Blob>
  /** Nothing in the embedded database does this by itself, and its log grows without end. */
  maintain(): Promise<void>
}

const MAINTENANCE_MS = 10 * 60_000

/**
 * Opens the embedded database. It survives a killed process, not a power loss: PGlite never calls fsync.
 * Rejects with `DataFolderInUse` when another process has the folder.
 */
export async function pgliteDatabase(options: PgliteOptions = {}): Promise<PgliteDatabase> {
  const folder = options.dataDir === undefined ? undefined : prepareFolder(options.dataDir)
  const lock = folder === undefined ? undefined : lockFolder(folder)
  try {
    const isNew = folder === undefined || !existsSync(join(folder, 'PG_VERSION'))
    const pglite = await PGlite.create({
      ...(folder === undefined ? {} : { dataDir: folder }),
      ...(isNew && options.image !== undefined ? { loadDataDir: options.image } : {}),
    })
    for (const [oid, parse] of textParsers) pglite.parsers[oid] = parse
    // Days and hours in SQL must not depend on where the process runs.
    await pglite.exec("SET TIME ZONE 'UTC'")
    return new EmbeddedDatabase({ pglite, folder, lock }, options)
  } catch (error) {
    lock?.release()
    throw error
  }
}

/** One spelling of the folder for every process, whatever links lead to it. */
function prepareFolder(dataDir: string): string {
  mkdirSync(dataDir, { recursive: true })
  return realpathSync(dataDir)
}

interface Opened {
  readonly pglite: PGlite
  readonly folder: string | undefined
  readonly lock: FolderLock | undefined
}

/** What an asynchronous call chain stands in: a transaction of this database, while it is open. */
interface Scope {
  open: boolean
}

class EmbeddedDatabase implements PgliteDatabase {
  readonly dialect = 'pglite'
  readonly description: string
  readonly kysely: Queryable['kysely']
  readonly raw: PGliteLike
  readonly #pglite: PGlite
  readonly #lock: FolderLock | undefined
  readonly #scope = new AsyncLocalStorage<Scope>()
  readonly #timer: NodeJS.Timeout | undefined
  #last: Promise<unknown> = Promise.resolve()
  #closed: Promise<void> | undefined

  constructor(opened: Opened, options: PgliteOptions) {
    this.#pglite = opened.pglite
    this.#lock = opened.lock
    this.description = opened.folder === undefined ? 'PGlite in memory' : `PGlite in ${opened.folder}`
    this.kysely = kyselyOver(({ sql, parameters }) => this.query(unnamed(sql), parameters))
    this.raw = {
      query: (query, params) => this.#inTurn(() => this.#pglite.query(query, params)),
      exec: (query) => this.#inTurn(() => this.#script(query)) as ReturnType<PGliteLike['exec']>,
      listen: (channel, callback) => this.#listen(channel, callback),
    }
    const interval = options.maintenanceMs ?? MAINTENANCE_MS
    if (interval > 0) {
      const report = options.onError ?? ((): void => {})
      this.#timer = setInterval(() => void this.maintain().catch(report), interval).unref()
    }
  }

  query<Row>(statement: Statement, values: readonly unknown[] = []): Promise<QueryResult<Row>> {
    return this.#inTurn(async () => toResult<Row>(await this.#pglite.query<Row>(statement.text, [...values])))
  }

  async execute(sql: string): Promise<void> {
    await this.#inTurn(() => this.#script(sql))
  }

  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    return this.#inTurn(async () => {
      const scope: Scope = { open: true }
      try {
        return await this.#scope.run(scope, () => this.#pglite.transaction((tx) => work(new EmbeddedTransaction(tx))))
      } catch (error) {
        throw error instanceof TransactionAbortedError ? new TransactionAborted({ cause: error }) : error
      } finally {
        scope.open = false
      }
    })
  }

  image(): Promise<Blob> {
    return this.#inTurn(async () => {
      await this.#pglite.exec('CHECKPOINT')
      return this.#pglite.dumpDataDir('none')
    })
  }

  async maintain(): Promise<void> {
    if (this.#closed !== undefined) return
    await this.execute('VACUUM')
    await this.execute('CHECKPOINT')
  }

  close(): Promise<void> {
    if (this.#insideOwnTransaction())
      return Promise.reject(new HandleMisused('The database was closed inside its own transaction'))
    this.#closed ??= this.#end()
    return this.#closed
  }

  async #end(): Promise<void> {
    clearInterval(this.#timer)
    await this.#last
    try {
      await this.#pglite.close()
    } finally {
      this.#lock?.release()
    }
  }

  /**
   * One statement, script or transaction at a time, and the event loop gets a turn after each: PGlite's promises settle
   * as microtasks, so that without it no timer, socket or signal is heard as long as queries follow each other.
   */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) return Promise.reject(new HandleMisused('The database is closed'))
    if (this.#insideOwnTransaction()) {
      return Promise.reject(
        new HandleMisused('The root handle was used inside its own transaction, which would wait for itself: use `tx`'),
      )
    }
    const turn = this.#last.then(() => takeTurn(work))
    this.#last = turn.catch(() => {})
    return turn
  }

  #insideOwnTransaction(): boolean {
    return this.#scope.getStore()?.open === true
  }

  /** A script that fails inside its own BEGIN would leave the one connection in an aborted transaction for everybody. */
  async #script(sql: string): Promise<Results[]> {
    try {
      return await this.#pglite.exec(sql)
    } catch (error) {
      await this.#pglite.exec('ROLLBACK')
      throw error
    }
  }

  async #listen(channel: string, callback: (payload: string) => void): Promise<() => Promise<void>> {
    const stop = await this.#inTurn(() => this.#pglite.listen(channel, callback))
    return () => (this.#closed === undefined ? this.#inTurn(() => stop()) : Promise.resolve())
  }
}

class EmbeddedTransaction implements Transaction {
  readonly kysely: Queryable['kysely']
  readonly #tx: PGliteTransaction

  constructor(tx: PGliteTransaction) {
    this.#tx = tx
    this.kysely = kyselyOver(({ sql, parameters }) => this.query(unnamed(sql), parameters))
  }

  async query<Row>(statement: Statement, values: readonly unknown[] = []): Promise<QueryResult<Row>> {
    this.#refuseEnded()
    return takeTurn(async () => toResult<Row>(await this.#tx.query<Row>(statement.text, [...values])))
  }

  async execute(sql: string): Promise<void> {
    this.#refuseEnded()
    await takeTurn(() => this.#tx.exec(sql))
  }

  #refuseEnded(): void {
    if (this.#tx.closed) throw new HandleMisused('The transaction has ended')
  }
}

function toResult<Row>(result: Results<Row>): QueryResult<Row> {
  return { rows: result.rows, affected: result.rowCount ?? 0 }
}

async function takeTurn<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    return withoutValues(error)
  } finally {
    await yieldToEventLoop()
  }
}

/** PGlite hangs the statement's values on its errors, and from there they would reach every log. */
function withoutValues(error: unknown): never {
  if (typeof error === 'object' && error !== null) {
    Reflect.deleteProperty(error, 'params')
    Reflect.deleteProperty(error, 'queryOptions')
  }
  throw error
}
