import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type KyselyPlugin,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'
import type { QueryResult } from './database.ts'
import { HandleMisused } from './errors.ts'
import type { DatabaseSchema } from './schema.ts'

/** Runs one statement without a kept plan: Kysely makes its text anew for every call. */
export type RunQuery = (query: CompiledQuery) => Promise<QueryResult<unknown>>

/** Kysely over a handle of ours, so that a driver's guards hold for typed queries too. */
export function kyselyOver<Schema = DatabaseSchema>(run: RunQuery, plugins: KyselyPlugin[] = []): Kysely<Schema> {
  return new Kysely<Schema>({
    plugins,
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new HandleDriver(run),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })
}

/** Connections and transactions belong to the handle; Kysely only sends statements through it. */
class HandleDriver implements Driver {
  readonly #connection: DatabaseConnection

  constructor(run: RunQuery) {
    this.#connection = {
      // The type of a row is the promise of whoever built the query.
      // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
      executeQuery: async <Row>(query: CompiledQuery) => {
        const { rows, affected } = await run(query)
        return { rows: rows as Row[], numAffectedRows: BigInt(affected) }
      },
      streamQuery: () => {
        throw new HandleMisused('Streaming is not supported: read in pages')
      },
    }
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection
  }

  async beginTransaction(): Promise<void> {
    throw new HandleMisused('Use database.transaction(): Kysely must not open a transaction behind the handle')
  }

  async commitTransaction(): Promise<void> {}

  async rollbackTransaction(): Promise<void> {}

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {}
}
