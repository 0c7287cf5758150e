/*
 * Kills a web process at every point of the delivery of one callback, delivers again to another process, and prints what
 * was left and what became of it. Exits 1 if anything was done twice or not at all.
 */
import { pgDatabase } from '../src/storage/pg/index.ts'
import { migrate } from '../src/storage/migrate.ts'
import { KILL_POINTS, killAt } from '../test/crash/provider-jobs.ts'
import { startPostgres } from '../test/setup/postgres-server.ts'

const server = await startPostgres()
try {
  const admin = await pgDatabase({ connectionString: `${server.url}postgres` })
  await admin.execute('CREATE DATABASE bailiff_template')
  await admin.close()
  const template = await pgDatabase({ connectionString: `${server.url}bailiff_template` })
  await migrate(template)
  await template.close()
  console.log('| step | killed at | left behind | delivered again | transitions | usage rows |')
  console.log('|---|---|---|---|---|---|')
  for (const [step, point] of KILL_POINTS) {
    const { killed, left, status, after, transitions } = await killAt(server.url, point)
    const { state, results, claims, usageRows } = left
    const was = `${state}, ${results} results, ${claims} claims, ${usageRows} usage rows`
    console.log(
      `| ${step} | ${killed ? '' : 'NOT KILLED '}${point} | ${was} | ${status} | ${transitions} | ${after.usageRows} |`,
    )
    const right = killed && status === 200 && transitions === 1 && after.usageRows === 1 && after.stamped
    if (!right) process.exitCode = 1
  }
} finally {
  await server.stop()
}
