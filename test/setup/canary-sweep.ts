import { appendFileSync } from 'node:fs'
import { inspect } from 'node:util'
import type { Database } from '../../src/storage/database.ts'
import { unnamed } from '../../src/storage/statement.ts'
import type { ErrorReporter, Logger } from '../../src/tools/invoker.ts'

/*
 * Secrets of tests that sing where they must not be. A test that takes one has every table searched when its rows are
 * removed, and every log line and error report of its world while it runs.
 */

const MARK = 'canary-secret-'

/** The mark as it is, in hexadecimal, and in base64 wherever it stands in a longer text. */
const SONG = new RegExp(
  [
    MARK,
    Buffer.from(MARK).toString('hex'),
    ...[0, 1, 2].map((lead) => {
      const text = Buffer.concat([Buffer.alloc(lead), Buffer.from(MARK)]).toString('base64')
      return text.slice(lead === 0 ? 0 : lead + 1, Math.floor(((lead + MARK.length) * 8) / 6))
    }),
  ].join('|'),
)

let taken = false
const sung: string[] = []
const counts = { sweeps: 0, tables: 0, rows: 0, lines: 0 }

/** A secret for a connection, a vendor or a key. The same for the same name. */
export function canarySecret(name: string): string {
  taken = true
  return `${MARK}${name}-0123456789abcdef`
}

/** A log line or a report that holds one is remembered, and fails the test at its next sweep. */
export function watched(what: string, said: unknown): void {
  if (!taken) return
  counts.lines += 1
  const text = inspect(said, { depth: 9, breakLength: Infinity, maxStringLength: null })
  if (SONG.test(text)) sung.push(`${what}: ${text.slice(0, 300)}`)
}

export const watchedLogger: Logger = {
  info: (message, fields) => watched('log line', [message, fields]),
  warn: (message, fields) => watched('log line', [message, fields]),
  error: (message, fields) => watched('log line', [message, fields]),
}

export const watchedReporter: ErrorReporter = {
  report: (error, context) => watched('error report', [error, context]),
}

/**
 * Searches every row of every table, if a canary was taken at all.
 * @throws Error naming each place a canary was found in
 */
export async function sweep(database: Database): Promise<void> {
  if (!taken) return
  const { rows: tables } = await database.query<{ name: string }>(
    unnamed(`SELECT format('%I.%I', table_schema, table_name) AS name FROM information_schema.tables
             WHERE table_type = 'BASE TABLE' AND table_schema IN ('agent', 'public', 'bailiff_queue')`),
  )
  if (tables.length < 30) throw new Error(`only ${tables.length} tables to search for canaries in`)
  // One statement: a row of bytes shows as hexadecimal in its text.
  const all = tables.map(({ name }) => `SELECT '${name}' AS place, t::text AS row FROM ${name} t`)
  const { rows } = await database.query<{ place: string; row: string }>(unnamed(all.join(' UNION ALL ')))
  counts.sweeps += 1
  counts.tables += tables.length
  counts.rows += rows.length
  const log = process.env['BAILIFF_CANARY_LOG']
  if (log !== undefined) appendFileSync(log, `${JSON.stringify(counts)}\n`)
  const found = [...sung.splice(0), ...rows.filter(({ row }) => SONG.test(row)).map(({ place }) => place)]
  if (found.length > 0) throw new Error(`a secret of the tests is in the clear in ${[...new Set(found)].join('; ')}`)
}
