import { redact } from '../tools/redact.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { Database, Queryable, Statement } from './database.ts'
import { keyType, ORGANIZATION_TABLES, type OrganizationTable } from './organization-tables.ts'
import { unnamed } from './statement.ts'

/** One line of an export: `{ "table": …, "row": … }`, or the first, `{ "export": … }`. */
export type ExportLine = JsonObject

export interface ExportRequest {
  readonly organizationId: string
  /** Told one line after the other; the next row is read when it resolves. */
  readonly write: (line: ExportLine) => Promise<void>
}

export interface ExportReport {
  /** Rows by table. */
  readonly rows: Readonly<Record<string, number>>
}

export interface ExportOptions {
  /** Rows of one statement. */
  readonly pageRows?: number
}

/** Of the form, not of the tables: rows are as this build has them. */
const FORMAT = 1
const PAGE_ROWS = 500

/**
 * Writes every row of an organization, table by table, without ever holding more than a page. Secrets are left out:
 * sealed ones, hashes of keys and sessions altogether, and every field of JSON whose name is a credential's is replaced.
 * On PostgreSQL all rows are of one moment; the embedded database goes on serving between two pages.
 * Null when there is no such organization.
 */
export async function exportOrganization(
  database: Database,
  request: ExportRequest,
  options: ExportOptions = {},
): Promise<ExportReport | null> {
  const rows = options.pageRows ?? PAGE_ROWS
  if (database.dialect === 'pglite') return exportFrom(database, request, rows)
  return database.transaction(async (tx) => {
    await tx.execute('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY')
    return exportFrom(tx, request, rows)
  })
}

async function exportFrom(
  db: Queryable,
  { organizationId, write }: ExportRequest,
  pageRows: number,
): Promise<ExportReport | null> {
  const { rows: found } = await db.query<{ row: JsonObject }>(
    unnamed('SELECT to_jsonb(o) AS row FROM agent.organizations o WHERE id = $1::uuid'),
    [organizationId],
  )
  const organization = found[0]?.row
  if (organization === undefined) return null
  await write({ export: 'organization', format: FORMAT, organizationId })
  await write({ table: 'agent.organizations', row: redacted(organization) })
  const rows: Record<string, number> = { 'agent.organizations': 1 }
  for (const table of ORGANIZATION_TABLES) {
    if (table.exported === null) continue
    rows[table.name] = await exportTable(db, table, { organizationId, write, pageRows })
  }
  rows['agent.users'] = await exportMembers(db, organizationId, write)
  return { rows }
}

interface PageRow {
  readonly row: JsonObject
  /** Its key, as text. */
  readonly cursor: readonly string[]
}

interface TableExport extends ExportRequest {
  readonly pageRows: number
}

async function exportTable(
  db: Queryable,
  table: OrganizationTable,
  { organizationId, write, pageRows }: TableExport,
): Promise<number> {
  const page = pageStatement(table)
  let after: readonly string[] | null = null
  let count = 0
  for (;;) {
    const values = [organizationId, pageRows, after === null, ...(after ?? table.key.map(() => null))]
    const rows: readonly PageRow[] = (await db.query<PageRow>(page, values)).rows
    for (const { row } of rows) await write({ table: table.name, row: redacted(row) })
    count += rows.length
    after = rows.at(-1)?.cursor ?? null
    if (rows.length < pageRows || after === null) return count
  }
}

/** $1 organization, $2 rows, $3 whether it is the first page, then the key of the last row before, as text. By the key's index. */
function pageStatement({ name, key, exported }: OrganizationTable): Statement {
  const columns = key.map((column) => `t.${column}`)
  const texts = columns.map((column) => `${column}::text`)
  const cursor = key.map((column, index) => `$${index + 4}::text::${keyType(column)}`)
  const left = (exported?.without ?? []).map((column) => ` - '${column}'`).join('')
  return unnamed(
    `SELECT to_jsonb(t)${left} AS row, ARRAY[${texts.join(', ')}] AS cursor FROM ${name} t
     WHERE t.organization_id = $1::uuid AND ($3::boolean OR (${columns.join(', ')}) > (${cursor.join(', ')}))
     ORDER BY ${columns.join(', ')} LIMIT $2::integer`,
  )
}

/** People belong to no organization; those who are members of this one go with it. */
async function exportMembers(db: Queryable, organizationId: string, write: ExportRequest['write']): Promise<number> {
  const { rows } = await db.query<{ row: JsonObject }>(
    unnamed(
      `SELECT to_jsonb(u) AS row FROM agent.users u JOIN agent.memberships m ON m.user_id = u.id
       WHERE m.organization_id = $1::uuid ORDER BY u.id`,
    ),
    [organizationId],
  )
  for (const { row } of rows) await write({ table: 'agent.users', row: redacted(row) })
  return rows.length
}

/** Field names of credentials inside JSON columns; the columns themselves are ours, and `key` of the journal is no secret. */
function redacted(row: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(row).map(([column, value]): [string, JsonValue] => [
      column,
      typeof value === 'object' ? redact(value, []) : value,
    ]),
  )
}
