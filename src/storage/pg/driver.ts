import { DatabaseError, Pool, type PoolClient } from 'pg'
import type { Database, PoolState, Queryable, QueryResult, Statement, Transaction } from '../database.ts'
import { DatabaseUnavailable, HandleMisused, TransactionAborted } from '../errors.ts'
import { kyselyOver } from '../kysely.ts'
import { unnamed } from '../statement.ts'
import { textParsers } from '../type-parsers.ts'
import { describeTarget, readTarget, type Target, unavailable } from './target.ts'

export interface PgOptions {
  /** `postgres://user:password@host:port/database` */
  readonly connectionString: string
  /** Most connections at a time; 10 when absent. */
  readonly max?: number
  /** Named statements, which keep their plan; true when absent. False behind a pooler that loses them. */
  readonly named?: boolean
  /** Hears of connections that broke outside a statement. They are replaced by themselves; never fatal. */
  readonly onError?: (error: Error) => void
}

const OLDEST_SERVER = 150_000

/** How long a statement may wait for a connection: a host that swallows packets must become an error, not a hang. */
const CONNECT_TIMEOUT_MS = 15_000

/**
 * Opens a pool and proves that the server answers and is PostgreSQL 15 or newer.
 * Rejects with `DatabaseUnavailable`.
 */
export async function pgDatabase(options: PgOptions): Promise<Database> {
  const database = new PgDatabase(options)
  try {
    await database.probe()
  } catch (error) {
    await database.close()
    throw error
  }
  return database
}

class PgDatabase implements Database {
  readonly dialect = 'postgres'
  readonly description: string
  readonly kysely: Queryable['kysely']
  readonly #target: Target
  readonly #pool: Pool
  readonly #named: boolean
  #ended: Promise<void> | undefined

  constructor(options: PgOptions) {
    const report = options.onError ?? ((): void => {})
    this.#target = readTarget(options.connectionString)
    this.#named = options.named ?? true
    this.description = describeTarget(this.#target)
    this.#pool = new Pool({
      connectionString: options.connectionString,
      max: options.max ?? 10,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      application_name: 'bailiff',
      types: { getTypeParser },
      // Days and hours in SQL must not depend on where the server stands.
      // The pool waits for it, though its types do not say so.
      // oxlint-disable-next-line typescript/no-misused-promises
      onConnect: async (client) => {
        await client.query("SET TIME ZONE 'UTC'")
      },
    })
    this.#pool.on('error', report)
    // The pool listens to idle clients only; a checked-out one that loses its server would end the process.
    this.#pool.on('connect', (client) => client.on('error', report))
    this.kysely = kyselyOver(({ sql, parameters }) => this.query(unnamed(sql), parameters))
  }

  async probe(): Promise<void> {
    const { rows } = await this.query<{ version: number; name: string }>(
      unnamed(
        "SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS name",
      ),
    )
    const server = rows[0]
    if (server === undefined || server.version < OLDEST_SERVER) {
      throw new DatabaseUnavailable(
        'too_old',
        `${this.description} is version ${server?.name ?? 'unknown'}. Bailiff needs PostgreSQL 15 or newer: upgrade the server.`,
      )
    }
  }

  async query<Row>(statement: Statement, values: readonly unknown[] = []): Promise<QueryResult<Row>> {
    const client = await this.#connect()
    let broken = true
    try {
      const result = await send<Row>(client, { statement: this.#named ? statement : unnamed(statement.text), values })
      broken = false
      return result
    } catch (error) {
      broken = losesConnection(error)
      throw error
    } finally {
      client.release(broken)
    }
  }

  async execute(sql: string): Promise<void> {
    const client = await this.#connect()
    let broken = true
    try {
      await client.query(sql)
      broken = false
    } finally {
      // A script that failed may have left its own BEGIN open.
      client.release(broken)
    }
  }

  async transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T> {
    const client = await this.#connect()
    let broken = true
    try {
      await client.query('BEGIN')
      const tx = new PgTransaction(client, this.#named)
      try {
        const value = await work(tx)
        await tx.end()
        const { command } = await client.query('COMMIT')
        broken = false
        if (command === 'ROLLBACK') throw new TransactionAborted()
        return value
      } catch (error) {
        await tx.end()
        if (broken) await client.query('ROLLBACK').then(() => (broken = false), ignore)
        throw error
      }
    } finally {
      client.release(broken)
    }
  }

  connections(): PoolState {
    const { totalCount, idleCount, waitingCount } = this.#pool
    return { total: totalCount, idle: idleCount, waiting: waitingCount }
  }

  close(): Promise<void> {
    this.#ended ??= this.#pool.end()
    return this.#ended
  }

  async #connect(): Promise<PoolClient> {
    if (this.#ended !== undefined) throw new HandleMisused('The database is closed')
    try {
      return await this.#pool.connect()
    } catch (error) {
      throw unavailable(this.#target, error)
    }
  }
}

class PgTransaction implements Transaction {
  readonly kysely: Queryable['kysely']
  readonly #client: PoolClient
  readonly #named: boolean
  #last: Promise<unknown> = Promise.resolve()
  #ended = false

  constructor(client: PoolClient, named: boolean) {
    this.#client = client
    this.#named = named
    this.kysely = kyselyOver(({ sql, parameters }) => this.query(unnamed(sql), parameters))
  }

  query<Row>(statement: Statement, values: readonly unknown[] = []): Promise<QueryResult<Row>> {
    const sent = this.#named ? statement : unnamed(statement.text)
    return this.#inTurn(() => send<Row>(this.#client, { statement: sent, values }))
  }

  async execute(sql: string): Promise<void> {
    await this.#inTurn(() => this.#client.query(sql))
  }

  /** No statement starts afterwards: the connection will belong to somebody else. */
  async end(): Promise<void> {
    this.#ended = true
    await this.#last
  }

  /** One statement at a time: the driver's own queue on one client is on its way out. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#ended) return Promise.reject(new HandleMisused('The transaction has ended'))
    const turn = this.#last.then(work)
    this.#last = turn.catch(ignore)
    return turn
  }
}

async function send<Row>(
  client: PoolClient,
  call: { statement: Statement; values: readonly unknown[] },
): Promise<QueryResult<Row>> {
  const { name, text } = call.statement
  const result = await client.query<Row & object>({
    ...(name === '' ? {} : { name }),
    text,
    values: call.values as unknown[],
  })
  return { rows: result.rows, affected: result.rowCount ?? 0 }
}

/** A refused statement leaves the connection whole; anything else, and a FATAL, does not. */
function losesConnection(error: unknown): boolean {
  return !(error instanceof DatabaseError) || (error.severity !== 'ERROR' && error.severity !== undefined)
}

function getTypeParser(oid: number): (text: string) => unknown {
  return textParsers.get(oid) ?? String
}

function ignore(): void {}
