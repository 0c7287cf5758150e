import type { Database } from '../../src/storage/database.ts'
import { unnamed } from '../../src/storage/statement.ts'

export interface CanarySearch {
  /** Values that must be nowhere. Long enough not to occur by chance. */
  readonly secrets: readonly string[]
  /** Everything else that came out: log lines, results, answers. */
  readonly texts?: readonly string[]
}

/** A place where a secret was found: `agent.spans.attributes`, or `text 3`; and how it was written there. */
export interface CanaryFinding {
  readonly place: string
  readonly form: string
}

/**
 * Looks for secrets, in every spelling a program may leave them in, in every column of every table of a database and in
 * the texts. Written apart from the redaction it checks, so that the two do not share their blind spots.
 */
export async function findCanaries(database: Database, search: CanarySearch): Promise<readonly CanaryFinding[]> {
  const needles = search.secrets.flatMap(formsOf)
  const found: CanaryFinding[] = []
  const look = (place: string, text: string): void => {
    for (const { form, needle } of needles) if (text.includes(needle)) found.push({ place, form })
  }
  for (const column of await columnsOf(database)) {
    const place = `${column.schema}.${column.table}.${column.column}`
    for (const text of await valuesOf(database, column)) look(place, text)
  }
  for (const [index, text] of (search.texts ?? []).entries()) look(`text ${index}`, text)
  return found
}

/** Columns that were looked at; a search that saw none would find nothing. */
export async function searchedColumns(database: Database): Promise<readonly string[]> {
  return (await columnsOf(database)).map(({ schema, table, column }) => `${schema}.${table}.${column}`)
}

interface Column {
  readonly schema: string
  readonly table: string
  readonly column: string
  readonly bytes: boolean
}

async function columnsOf(database: Database): Promise<readonly Column[]> {
  const { rows } = await database.query<Column>(
    unnamed(`SELECT c.table_schema AS schema, c.table_name AS table, c.column_name AS column, c.data_type = 'bytea' AS bytes
             FROM information_schema.columns c
             JOIN information_schema.tables t USING (table_schema, table_name)
             WHERE t.table_type = 'BASE TABLE' AND c.table_schema NOT IN ('pg_catalog', 'information_schema')
             ORDER BY 1, 2, 3`),
  )
  return rows
}

/** Bytes as latin-1 text, so that plain text in them shows, and in hexadecimal. */
async function valuesOf(database: Database, { schema, table, column, bytes }: Column): Promise<readonly string[]> {
  const name = `${quoted(schema)}.${quoted(table)}`
  const value = bytes ? `encode(${quoted(column)}, 'hex')` : `${quoted(column)}::text`
  const { rows } = await database.query<{ value: string }>(
    unnamed(`SELECT ${value} AS value FROM ${name} WHERE ${quoted(column)} IS NOT NULL`),
  )
  return rows.flatMap(({ value: text }) => (bytes ? [text, Buffer.from(text, 'hex').toString('latin1')] : [text]))
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

interface Needle {
  readonly form: string
  readonly needle: string
}

function formsOf(secret: string): Needle[] {
  const bytes = Buffer.from(secret, 'utf8')
  const json = JSON.stringify(secret).slice(1, -1)
  const forms: Record<string, string> = {
    plain: secret,
    'latin-1': bytes.toString('latin1'),
    JSON: json,
    'JSON in JSON': JSON.stringify(json).slice(1, -1),
    'URL-encoded': encodeURIComponent(secret),
    'form-encoded': new URLSearchParams({ k: secret }).toString().slice(2),
    hexadecimal: bytes.toString('hex'),
    base64: bytes.toString('base64').replaceAll('=', ''),
    base64url: bytes.toString('base64url'),
    // Inside a longer text, such as `user:secret`, the groups of three begin elsewhere.
    'base64, shifted by one': inner(Buffer.concat([Buffer.alloc(1), bytes]), 2),
    'base64, shifted by two': inner(Buffer.concat([Buffer.alloc(2), bytes]), 3),
  }
  return Object.entries(forms).map(([form, needle]) => ({ form, needle }))
}

/** The part of the encoding that does not depend on what stands before and behind. */
function inner(bytes: Buffer, from: number): string {
  return bytes.toString('base64').slice(from, Math.floor((bytes.length * 8) / 6))
}
