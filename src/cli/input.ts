import { readFile, stat } from 'node:fs/promises'
import { extname } from 'node:path'
import { readCsvInput } from '../server/csv-input.ts'
import { CommandFailed, EXIT } from './exit-codes.ts'
import { oneLine } from './text.ts'

/** Bytes of a JSON file; the server takes less, and says so. */
const MAX_JSON_BYTES = 1024 * 1024

/**
 * Reads the input of a run: a JSON file as it is, a CSV file as `{ [as]: rows }`.
 * @throws CommandFailed names every fault of the file
 */
export async function readInput(path: string, as: string): Promise<unknown> {
  switch (extname(path).toLowerCase()) {
    case '.csv':
      return readRows(path, as)
    case '.json':
      return readJsonFile(path)
    default:
      throw new CommandFailed(
        EXIT.usage,
        `${path} is neither a .csv nor a .json file`,
        'give a CSV file with a header row, or a JSON file',
      )
  }
}

async function readRows(path: string, as: string): Promise<unknown> {
  const read = await readCsvInput(path)
  if (read.kind === 'rows') return { [as]: read.rows }
  const problems = read.problems.map(
    ({ line, message, remedy }) => `${line === null ? '' : `line ${line}: `}${oneLine(message)}. ${oneLine(remedy)}`,
  )
  throw new CommandFailed(EXIT.usage, `${path} cannot be read as CSV:\n${problems.join('\n')}`)
}

/** @throws CommandFailed when it cannot be read, or is no JSON */
export async function readJsonFile(path: string): Promise<unknown> {
  let text: string
  try {
    const { size } = await stat(path)
    if (size > MAX_JSON_BYTES)
      throw new CommandFailed(EXIT.usage, `${path} is larger than 1 MB`, 'the input of a run is at most 256 kB of JSON')
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof CommandFailed) throw error
    const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
    throw new CommandFailed(
      EXIT.usage,
      code === 'ENOENT' ? `there is no file ${path}` : `${path} cannot be read`,
      'check the path given with --input',
    )
  }
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (error) {
    throw new CommandFailed(
      EXIT.usage,
      `${path} is not valid JSON: ${error instanceof Error ? oneLine(error.message) : ''}`,
    )
  }
}
