import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type { Database, Queryable, Transaction } from './database.ts'
import { MigrationRefused } from './errors.ts'
import { statement } from './statement.ts'

export interface MigrateOptions {
  /** Folder of `0001_name.sql` files; the package's own when absent. */
  readonly directory?: URL
}

interface Migration {
  readonly name: string
  readonly sha256: string
  readonly sql: string
}

interface AppliedRow {
  readonly name: string
  readonly sha256: string
}

/** Beside the sources and, after a build, beside the compiled files. */
const OWN_MIGRATIONS = new URL('./migrations/', import.meta.url)

/** Same in every process that migrates this database. */
const lockMigrations = statement('migrate.lock', 'SELECT pg_advisory_xact_lock(4706231950117334)')
const findTable = statement('migrate.find_table', `SELECT to_regclass('public.agent_migrations') IS NOT NULL AS found`)
const readApplied = statement('migrate.applied', 'SELECT name, sha256 FROM public.agent_migrations ORDER BY name')
const recordApplied = statement('migrate.record', 'INSERT INTO public.agent_migrations (name, sha256) VALUES ($1, $2)')

const CREATE_TABLE = `CREATE TABLE IF NOT EXISTS public.agent_migrations (
  name       text PRIMARY KEY,
  sha256     text NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT now()
)`

/**
 * Applies what is missing, in order, each file in a transaction of its own. Any number of processes may call it at once:
 * they wait for each other and each file is applied once. Rejects with `MigrationRefused` when an applied file has
 * changed or the database knows migrations that this code does not.
 */
export async function migrate(database: Database, options: MigrateOptions = {}): Promise<{ applied: string[] }> {
  const migrations = await readMigrations(options.directory ?? OWN_MIGRATIONS)
  // A role that may not create tables starts all the same on a database that is up to date.
  if ((await pendingMigrations(database, options)).length === 0) return { applied: [] }
  const applied: string[] = []
  for (;;) {
    const next = await database.transaction(async (tx) => {
      // One session serves the embedded database, so there is nobody to wait for.
      if (database.dialect === 'postgres') await tx.query(lockMigrations)
      await tx.execute(CREATE_TABLE)
      return applyNext(tx, migrations)
    })
    if (next === undefined) return { applied }
    applied.push(next)
  }
}

/** Names of the migrations that `migrate` would apply now. Changes nothing. Rejects like `migrate`. */
export async function pendingMigrations(database: Database, options: MigrateOptions = {}): Promise<string[]> {
  const migrations = await readMigrations(options.directory ?? OWN_MIGRATIONS)
  const { rows } = await database.query<{ found: boolean }>(findTable)
  if (rows[0]?.found !== true) return migrations.map(({ name }) => name)
  return (await pending(database, migrations)).map(({ name }) => name)
}

async function applyNext(tx: Transaction, migrations: readonly Migration[]): Promise<string | undefined> {
  const [next] = await pending(tx, migrations)
  if (next === undefined) return undefined
  await tx.execute(next.sql)
  await tx.query(recordApplied, [next.name, next.sha256])
  return next.name
}

async function pending(handle: Queryable, migrations: readonly Migration[]): Promise<Migration[]> {
  const { rows } = await handle.query<AppliedRow>(readApplied)
  const known = new Map(migrations.map((migration) => [migration.name, migration]))
  for (const row of rows) {
    const migration = known.get(row.name)
    if (migration === undefined) {
      throw new MigrationRefused(
        'newer_database',
        `The database has migration ${row.name}, which this version does not know. Start the newer version again, or restore a backup from before it.`,
      )
    }
    if (migration.sha256 !== row.sha256) {
      throw new MigrationRefused(
        'changed',
        `Migration ${row.name} is not the file that was applied to this database. Restore the file; put changes into a new migration.`,
      )
    }
  }
  const waiting = migrations.slice(rows.length)
  const early = migrations.slice(0, rows.length).find(({ name }) => !rows.some((row) => row.name === name))
  if (early !== undefined) {
    throw new MigrationRefused(
      'out_of_order',
      `Migration ${early.name} comes before ones that this database already has. Give it a number after them.`,
    )
  }
  return waiting
}

async function readMigrations(directory: URL): Promise<Migration[]> {
  const files = (await readdir(directory)).filter((file) => file.endsWith('.sql')).sort()
  const migrations: Migration[] = []
  for (const [index, file] of files.entries()) {
    if (!/^\d{4}_[a-z0-9_]+\.sql$/.test(file) || Number(file.slice(0, 4)) !== index + 1) {
      throw new MigrationRefused(
        'bad_name',
        `Migration files are numbered without gaps (0001_name.sql): ${file} is not.`,
      )
    }
    // A checkout may have rewritten the line ends; the statements are the same.
    const sql = (await readFile(new URL(file, directory), 'utf8')).replaceAll('\r\n', '\n')
    migrations.push({
      name: file.slice(0, -'.sql'.length),
      sha256: createHash('sha256').update(sql).digest('hex'),
      sql,
    })
  }
  return migrations
}
