import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { unnamed } from './statement.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())

interface Column {
  readonly column: string
  readonly type: string
  readonly nullable: boolean
  readonly defaulted: boolean
}

/** Reads the declared columns back from the source: types leave no trace at run time. */
function declared(): Map<string, Map<string, string>> {
  const source = ['./schema.ts', './domain-schema.ts', './durable-schema.ts']
    .map((file) => readFileSync(new URL(file, import.meta.url), 'utf8'))
    .join('\n')
  const interfaces = new Map(
    [...source.matchAll(/^(?:export )?interface (\w+) \{\n(.*?)^\}/gms)].map(([, name, body]) => [
      name ?? '',
      new Map([...(body ?? '').matchAll(/^ {2}'?([\w.]+)'?: (.+)$/gm)].map(([, key, type]) => [key ?? '', type ?? ''])),
    ]),
  )
  return new Map(
    [...(interfaces.get('DatabaseSchema') ?? [])].map(([table, name]) => [table, interfaces.get(name) ?? new Map()]),
  )
}

async function actual(): Promise<Map<string, Column[]>> {
  const { rows } = await db.database.query<Column & { table: string }>(
    unnamed(`SELECT table_schema || '.' || table_name AS "table", column_name AS "column", data_type AS type,
                    is_nullable = 'YES' AS nullable, column_default IS NOT NULL AS defaulted
             FROM information_schema.columns
             WHERE table_schema IN ('agent', 'public') AND table_name <> 'agent_migrations'
             ORDER BY table_schema, table_name, ordinal_position`),
  )
  return Map.groupBy(rows, ({ table }) => table)
}

test('every table and column of the migrations is declared, and nothing else', async () => {
  const names = (tables: Iterable<[string, Iterable<string>]>): string[] =>
    [...tables].flatMap(([table, columns]) => [...columns].map((column) => `${table}.${column}`)).sort()
  const tables = [...(await actual())].map(([table, columns]): [string, string[]] => [
    table,
    columns.map(({ column }) => column),
  ])
  expect(tables.length).toBeGreaterThan(20)
  expect(names([...declared()].map(([table, columns]) => [table, columns.keys()]))).toStrictEqual(names(tables))
})

test('every column is declared with its type, nullability and default', async () => {
  const wrong: string[] = []
  for (const [table, columns] of await actual()) {
    for (const column of columns) {
      const type = declared().get(table)?.get(column.column) ?? ''
      if (!expected(column).test(type)) wrong.push(`${table}.${column.column}: ${type} for ${JSON.stringify(column)}`)
    }
  }
  expect(wrong).toStrictEqual([])
})

function expected({ type, nullable, defaulted }: Column): RegExp {
  switch (type) {
    case 'json':
    case 'jsonb':
      return nullable ? /^NullableJson$/ : defaulted ? /^DefaultedJson$/ : /^Json$/
    case 'timestamp with time zone':
      return nullable ? /^NullableInstant$/ : defaulted ? /^StampedInstant$/ : /^Instant$/
    case 'bytea':
      return nullable ? /^NullableBytes$/ : /^Bytes$/
    case 'uuid':
    case 'text':
      if (nullable) return /^string \| null$/
      return defaulted ? /^Generated<(string|'\w+'( \| '\w+')*)>$/ : /^(string|'\w+'( \| '\w+')*)$/
    case 'boolean':
      return scalar('boolean', { nullable, defaulted })
    case 'integer':
    case 'smallint':
    case 'bigint':
    case 'numeric':
      return scalar('number', { nullable, defaulted })
    default:
      throw new Error(`type ${type} has no parser: give it one and test it`)
  }
}

function scalar(name: string, { nullable, defaulted }: { nullable: boolean; defaulted: boolean }): RegExp {
  if (defaulted) return new RegExp(`^Generated<${name}>$`)
  return nullable ? new RegExp(`^${name} \\| null$`) : new RegExp(`^${name}$`)
}
