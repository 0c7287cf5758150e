import type { CompiledQuery, Kysely, KyselyPlugin } from 'kysely'
import type { Queryable } from './database.ts'
import { ScopeRefused } from './errors.ts'
import { kyselyOver } from './kysely.ts'
import type { ScopedSchema } from './scope/tables.ts'
import { ScopeTransform } from './scope/transform.ts'
import { unnamed } from './statement.ts'

export type { ScopedSchema } from './scope/tables.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * Typed queries that can only see and touch rows of one organization, on a database or inside a transaction.
 * Every query is rewritten before it is compiled; one that names another table, holds raw SQL or is not understood
 * rejects with `ScopeRefused` and is not sent. Row-level security is no part of this: the service path runs without it.
 */
export function scopedDb(database: Queryable, organizationId: string): Kysely<ScopedSchema> {
  if (!UUID.test(organizationId)) throw new ScopeRefused(`${JSON.stringify(organizationId)} is no organization`)
  const transform = new ScopeTransform(organizationId)
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => transform.query(node),
    transformResult: async ({ result }) => result,
  }
  // Whatever did not come out of the plugin is not sent: compiled SQL, `withoutPlugins()`, a later plugin's rewriting.
  const run = async (query: CompiledQuery): ReturnType<Queryable['query']> => {
    if (!transform.isScoped(query.query))
      throw new ScopeRefused('A scoped handle runs only queries that were built on it')
    return database.query(unnamed(query.sql), query.parameters)
  }
  return kyselyOver<ScopedSchema>(run, [plugin])
}
