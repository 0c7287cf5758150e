import type { Database } from '../../src/storage/database.ts'

/** The same database, with the name of every statement that goes over the wire. */
export function counting(database: Database): { readonly database: Database; readonly trips: string[] } {
  const trips: string[] = []
  const query: Database['query'] = (statement, values) => {
    trips.push(statement.name)
    return database.query(statement, values)
  }
  const counted: Database = {
    dialect: database.dialect,
    description: database.description,
    kysely: database.kysely,
    query,
    transaction: (work) => database.transaction(work),
    execute: (script) => database.execute(script),
    close: () => database.close(),
  }
  return { database: counted, trips }
}
