/*
 * Three servers on one database, one of them killed at random every two seconds: prints what came of the runs and exits 1
 * if a mail was lost or sent twice, a run did not end, or a lane held more runs than it takes.
 */
import { parseArgs } from 'node:util'
import { migrate } from '../src/storage/migrate.ts'
import { pgDatabase } from '../src/storage/pg/index.ts'
import { runChaos, type ChaosFigures } from '../test/crash/chaos.ts'
import { startPostgres } from '../test/setup/postgres-server.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '120' },
    runs: { type: 'string', default: '200' },
    processes: { type: 'string', default: '3' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    /** Ends the leases of killed servers at once. */
    'end-leases': { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed)
const server = await startPostgres()
try {
  const admin = await pgDatabase({ connectionString: `${server.url}postgres` })
  await admin.execute('CREATE DATABASE bailiff_template')
  await admin.close()
  const template = await pgDatabase({ connectionString: `${server.url}bailiff_template` })
  await migrate(template)
  await template.close()
  const figures = await runChaos({
    postgresUrl: server.url,
    seconds: Number(values.seconds),
    runs: Number(values.runs),
    processes: Number(values.processes),
    killEveryMs: 2_000,
    endLeases: values['end-leases'],
    seed,
  })
  process.exitCode = report(figures) ? 0 : 1
} finally {
  await server.stop()
}

function report(figures: ChaosFigures): boolean {
  const { runs, mails, questions, lanes, processes, left, seconds, pauses, faults } = figures
  const line = (name: string, text: string): void => console.log(`${name.padEnd(20)} ${text}`)
  const byStatus = Object.entries(runs.byStatus).map(([status, count]) => `${status} ${count}`)
  line('seed', String(seed))
  line('time', `${seconds.chaos.toFixed(0)} s of kills, ${seconds.rest.toFixed(0)} s until the last run ended`)
  line('processes', `${processes.started} started, ${processes.kills} killed, ${processes.stops} stopped and woken`)
  line('refused late', `${processes.lost} segments whose run was taken over`)
  line('runs', `${runs.started} started, half of them workflows; ${byStatus.join(', ')}; open ${runs.open}`)
  line('mails', `${mails.arrived} of ${mails.expected}, ${mails.messageIds} message ids`)
  line('duplicates', mails.duplicates.join(' ') || '0')
  line('losses', mails.losses.join(' ') || '0')
  line(
    'questions',
    `${questions.action} to allow a mail; outcome: ${questions.arrived} arrived, ${questions.sendAgain} sent again; open ${questions.pending}`,
  )
  for (const { lane, peak, limit, begun } of lanes)
    line(`lane ${lane}`, `at most ${peak} of ${limit} at a time, ${begun} segments`)
  line('pauses', `${pauses} of the interactive lane`)
  line(
    'left behind',
    `${left.orphans} processes (${left.forced} forced), ${left.claims} claims, ${left.running} running`,
  )
  const counted = Map.groupBy(faults, (text) => text.slice(0, 120))
  for (const [text, many] of counted) line('fault', `${many.length} × ${text}`)
  return (
    runs.open === 0 &&
    Object.keys(runs.byStatus).join(' ') === 'completed' &&
    mails.duplicates.length === 0 &&
    mails.losses.length === 0 &&
    mails.arrived === mails.expected &&
    lanes.every(({ peak, limit }) => peak <= limit) &&
    questions.pending === 0 &&
    left.orphans + left.claims + left.running === 0
  )
}
