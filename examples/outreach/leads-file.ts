import { fileURLToPath } from 'node:url'
import { readCsvInput } from 'bailiff/server'
import { type Lead, leadsInput } from './leads.ts'

/**
 * Reads the people to write to from a CSV file.
 * @throws Error that lists every problem of the file with its line and what to do about it
 */
export async function readLeads(file: URL): Promise<{ readonly leads: readonly Lead[] }> {
  const path = fileURLToPath(file)
  const csv = await readCsvInput(path)
  const checked = csv.kind === 'rows' ? leadsInput(csv) : csv
  if (checked.kind === 'input') return checked.input
  const lines = checked.problems.map(
    ({ line, message, remedy }) => `${line === null ? '' : `line ${line}: `}${message}. ${remedy}`,
  )
  throw new Error(`${path} cannot be used:\n${lines.join('\n')}`)
}
