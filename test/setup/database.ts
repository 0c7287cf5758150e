import { randomBytes, randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Client } from 'pg'
import { inject } from 'vitest'
import type { Database } from '../../src/storage/database.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { pgliteDatabase } from '../../src/storage/pglite/index.ts'
import { sweep } from './canary-sweep.ts'
import { MEMBER, ORGANIZATION, TEMPLATE } from './provided.ts'

export interface TestDatabase {
  readonly database: Database
  /** The owner's handle, for what lies outside of the one organization; the same as `database` unless tests run as a member. */
  readonly admin: Database
  readonly dialect: Database['dialect']
  /** For child processes and other clients; null on PGlite, which has one owner. */
  readonly url: string | null
  /** A second pool on the same data; on PGlite the same handle, since there is only one session. */
  another(): Promise<Database>
  /** Closes every handle that came from here and removes the data. */
  close(): Promise<void>
}

/** Removes every row and keeps the schema: far quicker than a new database, for files whose tests start from nothing. */
export async function empty(database: Database): Promise<void> {
  // A member may not read every table; the owner's handle is swept when the file ends.
  if (inject('role') !== 'member') await sweep(database)
  await database.execute(`DO $$
    DECLARE tables text;
    BEGIN
      SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') INTO tables
      FROM pg_tables WHERE schemaname IN ('agent', 'public') AND tablename <> 'agent_migrations';
      EXECUTE 'TRUNCATE ' || tables || ' CASCADE';
    END $$`)
}

/** Id of an organization without rows. As a member there is only one: it loses the rows it had. */
export async function unusedOrganization(db: TestDatabase): Promise<string> {
  if (inject('role') !== 'member') return randomUUID()
  // Truncation takes several times as long, for files that ask for hundreds of organizations.
  await db.admin.execute(`DO $$
    DECLARE owned regclass;
    BEGIN
      DELETE FROM agent.organizations WHERE id = '${ORGANIZATION}';
      FOR owned IN SELECT attrelid FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE attname = 'organization_id' AND relkind = 'r' LOOP
        EXECUTE format('DELETE FROM %s WHERE organization_id = %L', owned, '${ORGANIZATION}');
      END LOOP;
    END $$`)
  return ORGANIZATION
}

/** A fresh, migrated database of the project's dialect. */
export async function testDatabase(): Promise<TestDatabase> {
  return inject('dialect') === 'pglite' ? embedded() : onServer()
}

async function embedded(): Promise<TestDatabase> {
  const image = new Blob([await readFile(inject('pgliteImage'))])
  const database = await pgliteDatabase({ image, maintenanceMs: 0 })
  return {
    database,
    admin: database,
    dialect: 'pglite',
    url: null,
    another: async () => database,
    close: async () => {
      try {
        await sweep(database)
      } finally {
        await database.close()
      }
    },
  }
}

async function onServer(): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  await administer(`CREATE DATABASE ${name} TEMPLATE ${TEMPLATE}`)
  const owner = `${inject('postgresUrl')}${name}`
  const handles: Database[] = []
  const open = async (connectionString: string): Promise<Database> => {
    const handle = await pgDatabase({ connectionString })
    handles.push(handle)
    return handle
  }
  const url = inject('role') === 'member' ? asMember(owner) : owner
  const database = await open(url)
  return {
    database,
    admin: url === owner ? database : await open(owner),
    dialect: 'postgres',
    url,
    another: () => open(url),
    close: async () => {
      await sweep(handles.at(-1) ?? database)
      await Promise.all(handles.map((handle) => handle.close()))
      await administer(`DROP DATABASE ${name} WITH (FORCE)`)
    },
  }
}

function asMember(owner: string): string {
  const url = new URL(owner)
  url.username = MEMBER.name
  url.password = MEMBER.password
  return url.href
}

async function administer(sql: string): Promise<void> {
  const admin = new Client({ connectionString: `${inject('postgresUrl')}postgres` })
  await admin.connect()
  try {
    await admin.query(sql)
  } finally {
    await admin.end()
  }
}
