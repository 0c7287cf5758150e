/*
 * Kills a process at every named point of every scenario, restarts it, answers what is asked, and counts what the
 * receivers got. Prints a table; exits 1 if anything was duplicated or lost where it must not be.
 */
import { pgDatabase } from '../src/storage/pg/index.ts'
import { migrate } from '../src/storage/migrate.ts'
import { casesOf, EXPECTED, runCase, type MatrixResult } from '../test/crash/matrix.ts'
import type { Scenario } from '../test/crash/matrix-worker.ts'
import { startPostgres } from '../test/setup/postgres-server.ts'

const WORKERS = 2
const only = process.argv[2] as Scenario | undefined
const server = await startPostgres()
let bad = 0
try {
  const admin = await pgDatabase({ connectionString: `${server.url}postgres` })
  await admin.execute('CREATE DATABASE bailiff_template')
  await admin.close()
  const template = await pgDatabase({ connectionString: `${server.url}bailiff_template` })
  await migrate(template)
  await template.close()
  for (const scenario of Object.keys(EXPECTED) as Scenario[]) {
    if (only !== undefined && only !== scenario) continue
    const waiting = [...(await casesOf(server.url, scenario))]
    const results: MatrixResult[] = []
    await Promise.all(
      Array.from({ length: WORKERS }, async () => {
        for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
          results.push(await runCase(server.url, next))
      }),
    )
    bad += report(scenario, results)
  }
} finally {
  await server.stop()
}
process.exitCode = bad === 0 ? 0 : 1

function report(scenario: Scenario, results: readonly MatrixResult[]): number {
  const expected = EXPECTED[scenario]
  const lost = results.filter(({ effects }) => expected.some((effect) => !effects.includes(effect)))
  const doubled = results.filter(({ effects }) => effects.length > new Set(effects).size)
  const unfinished = results.filter(({ status }) => status !== 'completed')
  const asked = results.filter((result) => result.asked > 0)
  console.log(
    `${scenario.padEnd(16)} kills ${String(results.filter(({ killed }) => killed).length).padStart(3)}  duplicates ${doubled.length}  losses ${lost.length}  unfinished ${unfinished.length}  asked a person ${asked.length}`,
  )
  for (const { die, effects, status } of new Set([...lost, ...doubled, ...unfinished])) {
    console.log(`    ${die?.point} #${die?.nth}: ${status}; arrived: ${effects.join(', ') || 'nothing'}`)
  }
  for (const { die } of asked) console.log(`    asked after ${die?.point} #${die?.nth}`)
  // A tool that declares reclaim and passes no key on is documented to have this window.
  return scenario === 'reclaimed write'
    ? lost.length + unfinished.length
    : lost.length + doubled.length + unfinished.length
}
