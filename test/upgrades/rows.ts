import { cp, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Database } from '../../src/storage/database.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { unnamed } from '../../src/storage/statement.ts'
import type { JsonObject } from '../../src/tools/json.ts'

const MIGRATIONS = new URL('../../src/storage/migrations/', import.meta.url)

/** A database as rows, by table, in an order that foreign keys accept. */
export interface StoredRows {
  /** The last migration the rows were written under. */
  readonly migration: string
  readonly recordedAt: string
  readonly tables: Readonly<Record<string, readonly JsonObject[]>>
}

/** Tables that others refer to. */
const FIRST = ['agent.organizations', 'agent.users', 'agent.api_keys', 'agent.definitions', 'agent.runs']

export async function migrationNames(): Promise<readonly string[]> {
  const files = await readdir(MIGRATIONS)
  return files.flatMap((file) => (file.endsWith('.sql') ? [file.slice(0, -'.sql'.length)] : [])).toSorted()
}

export async function readRows(database: Database): Promise<StoredRows> {
  const read = async <Row>(text: string): Promise<readonly Row[]> => (await database.query<Row>(unnamed(text))).rows
  const found = await read<{ name: string }>(
    `SELECT schemaname || '.' || tablename AS name FROM pg_tables
     WHERE schemaname IN ('agent', 'public') AND tablename <> 'agent_migrations' ORDER BY 1`,
  )
  const names = found.map(({ name }) => name)
  const tables: Record<string, readonly JsonObject[]> = {}
  for (const name of [...FIRST, ...names.filter((name) => !FIRST.includes(name))]) {
    // `to_json` keeps the text of `json` columns, and with it the order of their keys.
    const rows = await read<{ row: JsonObject }>(`SELECT to_json(t) AS row FROM ${name} t ORDER BY t::text`)
    if (rows.length > 0) tables[name] = rows.map(({ row }) => row)
  }
  const [clock] = await read<{ now: Date }>('SELECT clock_timestamp() AS now')
  const migration = (await migrationNames()).at(-1)
  if (clock === undefined || migration === undefined) throw new Error('there is no clock or no migration')
  return { migration, recordedAt: clock.now.toISOString(), tables }
}

/**
 * Makes the database what it was when the rows were recorded: its schema, its rows, and its clock, which goes on from
 * the moment of the recording. Newer migrations are left to whoever starts on it.
 */
export async function writeRows(database: Database, stored: StoredRows): Promise<void> {
  await database.execute('DROP SCHEMA agent CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public')
  await migrateTo(database, stored.migration)
  const agoS = (Date.now() - Date.parse(stored.recordedAt)) / 1000
  const { rows: columns } = await database.query<{ table: string; column: string; instant: boolean }>(
    unnamed(`SELECT table_schema || '.' || table_name AS table, column_name AS column,
       data_type = 'timestamp with time zone' AS instant FROM information_schema.columns`),
  )
  for (const [table, rows] of Object.entries(stored.tables)) {
    const recorded = new Set(rows.flatMap((row) => Object.keys(row)))
    const known = columns.filter((one) => one.table === table && recorded.has(one.column))
    if (known.length < recorded.size) throw new Error(`${table} has lost a column under ${stored.migration}`)
    const names = known.map(({ column }) => `"${column}"`).join(', ')
    const values = known.map(({ column, instant }) =>
      instant ? `"${column}" + make_interval(secs => $2::float8)` : `"${column}"`,
    )
    // The type of $2 is said in tables without an instant too, which have no other use for it.
    const text = `INSERT INTO ${table} (${names}) SELECT ${values.join(', ')}
      FROM json_populate_recordset(NULL::${table}, $1::json) WHERE $2::float8 IS NOT NULL`
    await database.query(unnamed(text), [JSON.stringify(rows), agoS])
  }
}

async function migrateTo(database: Database, last: string): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'bailiff-upgrade-'))
  try {
    for (const name of await migrationNames()) {
      if (name <= last) await cp(new URL(`${name}.sql`, MIGRATIONS), join(folder, `${name}.sql`))
    }
    await migrate(database, { directory: pathToFileURL(`${folder}/`) })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
