import type { Kysely } from 'kysely'
import type { DatabaseSchema } from './schema.ts'

export interface QueryResult<Row> {
  readonly rows: readonly Row[]
  readonly affected: number
}

/** One prepared statement. The name is what makes PostgreSQL keep its plan: named statements run at 1.5 × unnamed ones. */
export interface Statement {
  /** Unique for its text over the whole program, at most 63 characters. */
  readonly name: string
  readonly text: string
}

/** What every store is written against. One SQL text serves both drivers. */
export interface Queryable {
  query<Row = Record<string, unknown>>(statement: Statement, values?: readonly unknown[]): Promise<QueryResult<Row>>
  /** Typed queries for everything off the hot path. */
  readonly kysely: Kysely<DatabaseSchema>
}

/** A handle whose statements commit or roll back together. It must not be used after its end. */
export interface Transaction extends Queryable {
  /** Several statements of a migration, without parameters. */
  execute(sql: string): Promise<void>
}

export interface PoolState {
  readonly total: number
  readonly idle: number
  /** Statements that wait for a connection. */
  readonly waiting: number
}

export interface Database extends Queryable {
  readonly dialect: 'pglite' | 'postgres'
  /** For a person: where the data is, without a password. */
  readonly description: string
  /** Commits when `work` resolves, rolls back when it rejects. On PGlite, using the root handle inside throws instead of deadlocking. */
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  /** Several statements of a migration, without parameters. */
  execute(sql: string): Promise<void>
  /** What its pool holds now; absent where there is none. */
  connections?(): PoolState
  close(): Promise<void>
}
