import { isUtf8 } from 'node:buffer'
import { open } from 'node:fs/promises'
import { type CsvError, parse } from 'csv-parse/sync'

export interface CsvProblem {
  /** 1-based line of the file; null when the problem is the file itself. */
  readonly line: number | null
  readonly message: string
  /** What a person can do about it. */
  readonly remedy: string
}

export type CsvInput =
  | {
      readonly kind: 'rows'
      readonly columns: readonly string[]
      readonly rows: readonly Readonly<Record<string, string>>[]
      /** Line on which the row of the same index starts. */
      readonly lines: readonly number[]
    }
  | { readonly kind: 'invalid'; readonly problems: readonly CsvProblem[] }

export const MAX_CSV_BYTES = 5 * 1024 * 1024
export const MAX_CSV_ROWS = 10_000
export const MAX_CSV_PROBLEMS = 20

/**
 * Reads a comma separated file with a header row. Never throws for a bad file: every problem names its line and a
 * remedy, at most {@link MAX_CSV_PROBLEMS} of them. Line endings inside quoted values become `\n`.
 */
export async function readCsvInput(path: string): Promise<CsvInput> {
  const file = await readBounded(path)
  if (file.kind === 'invalid') return file
  const text = decode(file.bytes)
  if (typeof text !== 'string') return invalid([text])
  return parseCsvInput(text)
}

/** The same checks over text that is already in memory. */
export function parseCsvInput(text: string): CsvInput {
  // One line ending, so that files with mixed ones parse and the parser counts each line once.
  const table = parseTable(text.replace(/^\uFEFF/, '').replace(/\r\n?/g, '\n'))
  const header = table.records[0]
  if (header === undefined) {
    return invalid([table.broken ?? problem(1, 'the file is empty', 'Add a header row and one row per record.')])
  }
  const columns = header.values
  const body = table.records.slice(1)
  const problems = [
    ...headerProblems(header),
    ...body.flatMap((record) => raggedProblem(record, columns.length)),
    ...(table.broken === null ? [] : [table.broken]),
    ...sizeProblems(body.length, header.line, table.broken !== null),
  ]
  if (problems.length > 0) return invalid(problems)
  return {
    kind: 'rows',
    columns,
    rows: body.map(({ values }) => Object.fromEntries(columns.map((name, index) => [name, values[index] ?? '']))),
    lines: body.map(({ line }) => line),
  }
}

type Bytes = { readonly kind: 'bytes'; readonly bytes: Buffer } | Extract<CsvInput, { kind: 'invalid' }>

async function readBounded(path: string): Promise<Bytes> {
  try {
    await using file = await open(path, 'r')
    const stat = await file.stat()
    if (!stat.isFile()) {
      const what = stat.isDirectory() ? 'a directory' : 'not a regular file'
      return invalid([problem(null, `${path} is ${what}`, 'Name a CSV file.')])
    }
    // One byte more than allowed: the size seen by stat may be stale by the time the file is read.
    const room = Buffer.alloc(Math.min(stat.size, MAX_CSV_BYTES) + 1)
    let filled = 0
    while (filled < room.length) {
      const { bytesRead } = await file.read(room, filled, room.length - filled, filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    if (filled > MAX_CSV_BYTES || stat.size > MAX_CSV_BYTES) {
      return invalid([
        problem(
          null,
          `${path} is larger than ${MAX_CSV_BYTES / 1024 / 1024} MB`,
          'Split the file and start one run for each part.',
        ),
      ])
    }
    return { kind: 'bytes', bytes: room.subarray(0, filled) }
  } catch (error) {
    return invalid([unreadable(path, error)])
  }
}

function unreadable(path: string, error: unknown): CsvProblem {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return problem(
        null,
        `${path} does not exist`,
        'Check the path; it is relative to the folder the command runs in.',
      )
    case 'EISDIR':
      return problem(null, `${path} is a directory`, 'Name a CSV file.')
    case 'EACCES':
    case 'EPERM':
      return problem(null, `${path} may not be read`, 'Give your user the right to read the file.')
    default:
      return problem(
        null,
        `${path} cannot be read${typeof code === 'string' ? ` (${code})` : ''}`,
        'Check the disk and the path.',
      )
  }
}

function decode(bytes: Buffer): string | CsvProblem {
  if (bytes.subarray(0, 4).equals(Buffer.from('PK\u0003\u0004'))) {
    return problem(null, 'the file is a spreadsheet or zip archive, not CSV', 'Export the sheet as "CSV UTF-8".')
  }
  const mark = bytes.subarray(0, 2).toString('latin1')
  if (mark === '\u00ff\u00fe' || mark === '\u00fe\u00ff') {
    return problem(1, 'the file is UTF-16 text', 'Save it as "CSV UTF-8".')
  }
  const zero = bytes.indexOf(0)
  if (zero !== -1) return problem(lineAt(bytes, zero), 'the file holds binary data', 'Name a text file in CSV form.')
  if (isUtf8(bytes)) return bytes.toString('utf8')
  return problem(firstInvalidLine(bytes), 'the text is not valid UTF-8', 'Save the file as "CSV UTF-8".')
}

function lineAt(bytes: Buffer, offset: number): number {
  return 1 + bytes.subarray(0, offset).filter((byte) => byte === 0x0a).length
}

function firstInvalidLine(bytes: Buffer): number {
  let line = 1
  for (let start = 0; start < bytes.length; line += 1) {
    const newline = bytes.indexOf(0x0a, start)
    const end = newline === -1 ? bytes.length : newline + 1
    if (!isUtf8(bytes.subarray(start, end))) return line
    start = end
  }
  return line
}

interface CsvRecord {
  readonly values: readonly string[]
  readonly line: number
}

/** `broken` is the first fault of quoting: what a parser finds behind it is noise, so reading stops there. */
interface Table {
  readonly records: readonly CsvRecord[]
  readonly broken: CsvProblem | null
}

function parseTable(text: string): Table {
  const records: CsvRecord[] = []
  const broken: CsvProblem[] = []
  let read = 0
  parse(text, {
    relax_column_count: true,
    skip_empty_lines: true,
    skip_records_with_error: true,
    trim: true,
    record_delimiter: '\n',
    on_record(values, { lines }) {
      // The parser counts up to the end of a record; a quoted value may span lines.
      if (broken.length === 0) records.push({ values, line: lines - newlines(values.join('')) })
      read = lines
      return null
    },
    on_skip(error) {
      if (broken.length === 0) broken.push(brokenRow(error, nextLine(text, read)))
      return undefined
    },
  })
  return { records, broken: broken[0] ?? null }
}

/** The first line with text after `read` lines. */
function nextLine(text: string, read: number): number {
  const rest = text.split('\n').slice(read)
  return (
    read +
    1 +
    Math.max(
      0,
      rest.findIndex((line) => line !== ''),
    )
  )
}

/** The parser stops at the end of the text when a quote is never closed; a person needs the line where the row starts. */
function brokenRow(error: CsvError | undefined, start: number): CsvProblem {
  if (error?.code === 'CSV_QUOTE_NOT_CLOSED') {
    return problem(
      start,
      'a quote is opened and never closed',
      'Close it, or double it ("") if it belongs to the value.',
    )
  }
  if (error?.code === 'CSV_MAX_RECORD_SIZE') {
    return problem(start, 'the row is far too long', 'Look for a quote in it that is never closed.')
  }
  const line = error?.['lines']
  return problem(
    typeof line === 'number' ? line : start,
    'a quote stands inside a value',
    'Put the whole value in quotes and double the quotes inside it ("").',
  )
}

function newlines(text: string): number {
  return text.split('\n').length - 1
}

function headerProblems({ values, line }: CsvRecord): CsvProblem[] {
  const only = values.length === 1 ? values[0] : undefined
  const separator = only === undefined ? undefined : [';', '\t'].find((candidate) => only.includes(candidate))
  if (separator !== undefined) {
    const name = separator === ';' ? 'semicolons' : 'tabs'
    return [problem(line, `the columns are separated by ${name}`, 'Separate them with commas.')]
  }
  const seen = new Set<string>()
  return values.flatMap((name, index) => {
    if (name === '') return [problem(line, `column ${index + 1} has no name`, 'Name every column in the header row.')]
    const folded = name.toLowerCase()
    if (seen.has(folded))
      return [problem(line, `column ${shown(name)} appears twice`, 'Rename or remove one of the two.')]
    seen.add(folded)
    return []
  })
}

function raggedProblem({ values, line }: CsvRecord, width: number): CsvProblem[] {
  if (values.length === width) return []
  return [
    problem(
      line,
      `${values.length} value${values.length === 1 ? '' : 's'} for ${width} column${width === 1 ? '' : 's'}`,
      values.length > width
        ? 'Put values that contain a comma in quotes.'
        : 'Fill the missing values; an empty one still needs its comma.',
    ),
  ]
}

function sizeProblems(rows: number, headerLine: number, broken: boolean): CsvProblem[] {
  if (rows > MAX_CSV_ROWS)
    return [
      problem(null, `${rows} rows are more than ${MAX_CSV_ROWS}`, 'Split the file and start one run for each part.'),
    ]
  if (rows === 0 && !broken) return [problem(headerLine, 'no rows follow the header', 'Add one row per record.')]
  return []
}

/** Names from a file go to a terminal: no control characters, and not too long. */
function shown(name: string): string {
  return JSON.stringify(name.length > 40 ? `${name.slice(0, 40)}…` : name)
}

function problem(line: number | null, message: string, remedy: string): CsvProblem {
  return { line, message, remedy }
}

function invalid(problems: readonly CsvProblem[]): { kind: 'invalid'; problems: readonly CsvProblem[] } {
  if (problems.length <= MAX_CSV_PROBLEMS) return { kind: 'invalid', problems }
  const kept = problems.slice(0, MAX_CSV_PROBLEMS - 1)
  const rest = problem(null, `${problems.length - kept.length} more problems`, 'Repair the ones above and try again.')
  return { kind: 'invalid', problems: [...kept, rest] }
}
