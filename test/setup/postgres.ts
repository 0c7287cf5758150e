import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import { migrate } from '../../src/storage/migrate.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { makeMember } from './member.ts'
import { startPostgres } from './postgres-server.ts'
import { TEMPLATE } from './provided.ts'

/** One real server for the whole run, with a migrated database to copy. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startPostgres()
  try {
    const admin = new Client({ connectionString: `${server.url}postgres` })
    await admin.connect()
    await admin.query(`CREATE DATABASE ${TEMPLATE}`)
    await admin.end()
    const template = await pgDatabase({ connectionString: `${server.url}${TEMPLATE}` })
    await migrate(template)
    if (project.config.provide?.role === 'member') await makeMember(template)
    await template.close()
  } catch (error) {
    await server.stop()
    throw error
  }
  project.provide('dialect', 'postgres')
  project.provide('postgresUrl', server.url)
  return () => server.stop()
}
