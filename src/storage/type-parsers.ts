/** Turns the text form of a value of one PostgreSQL type into a JavaScript value. */
export type TextParser = (text: string) => unknown

/** Type oids of PostgreSQL's catalogue, which never change. */
const OID = {
  bool: 16,
  bytea: 17,
  int8: 20,
  int2: 21,
  int4: 23,
  text: 25,
  oid: 26,
  json: 114,
  float4: 700,
  float8: 701,
  varchar: 1043,
  date: 1082,
  timestamp: 1114,
  timestamptz: 1184,
  numeric: 1700,
  uuid: 2950,
  jsonb: 3802,
} as const

const ARRAY_OID: Record<keyof typeof OID, number> = {
  bool: 1000,
  bytea: 1001,
  int8: 1016,
  int2: 1005,
  int4: 1007,
  text: 1009,
  oid: 1028,
  json: 199,
  float4: 1021,
  float8: 1022,
  varchar: 1015,
  date: 1182,
  timestamp: 1115,
  timestamptz: 1185,
  numeric: 1231,
  uuid: 2951,
  jsonb: 3807,
}

const asText: TextParser = (text) => text

const scalars: Record<keyof typeof OID, TextParser> = {
  bool: (text) => text === 't',
  bytea: parseBytea,
  int8: parseInt8,
  int2: Number,
  int4: Number,
  text: asText,
  oid: Number,
  json: (text): unknown => JSON.parse(text),
  float4: Number,
  float8: Number,
  varchar: asText,
  // Neither names an instant: a Date would add a time zone that nobody stored.
  date: asText,
  timestamp: asText,
  timestamptz: parseTimestamptz,
  numeric: Number,
  uuid: asText,
  jsonb: (text): unknown => JSON.parse(text),
}

/** One table for both drivers, so that a value cannot differ between them. A type that is not listed stays text. */
export const textParsers: ReadonlyMap<number, TextParser> = new Map(
  (Object.keys(OID) as (keyof typeof OID)[]).flatMap((type): [number, TextParser][] => [
    [OID[type], scalars[type]],
    [ARRAY_OID[type], (text) => parseArray(text, scalars[type])],
  ]),
)

function parseInt8(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`bigint ${text} is too large for a number`)
  return value
}

function parseBytea(text: string): Buffer {
  if (!text.startsWith('\\x')) throw new TypeError('bytea is not in hex form (bytea_output)')
  return Buffer.from(text.slice(2), 'hex')
}

function parseTimestamptz(text: string): Date {
  const parts = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)([+-]\d\d)(?::(\d\d))?$/.exec(text)
  const date =
    parts === null ? new Date(Number.NaN) : new Date(`${parts[1]}T${parts[2]}${parts[3]}:${parts[4] ?? '00'}`)
  if (Number.isNaN(date.getTime())) throw new RangeError(`timestamptz ${text} is no instant of a Date`)
  return date
}

/** `{1,NULL,"a \"b\""}`; nested arrays keep their shape. */
function parseArray(text: string, element: TextParser): unknown[] {
  const start = text.indexOf('{')
  // Lower bounds other than 1 are written as `[0:2]={…}`.
  const [items, end] = readItems({ text, element }, start + 1)
  if (start < 0 || end !== text.length) throw new TypeError('array value is not in PostgreSQL text form')
  return items
}

interface ArraySource {
  readonly text: string
  readonly element: TextParser
}

function readItems(source: ArraySource, from: number): [items: unknown[], end: number] {
  const items: unknown[] = []
  let at = from
  while (at < source.text.length) {
    const char = source.text[at]
    if (char === '}') return [items, at + 1]
    if (char === ',') {
      at += 1
      continue
    }
    const [item, end] = readItem(source, at)
    items.push(item)
    at = end
  }
  throw new TypeError('array value has no end')
}

function readItem(source: ArraySource, at: number): [item: unknown, end: number] {
  const { text, element } = source
  if (text[at] === '{') return readItems(source, at + 1)
  if (text[at] !== '"') {
    let end = at
    while (end < text.length && text[end] !== ',' && text[end] !== '}') end += 1
    const word = text.slice(at, end)
    return [word === 'NULL' ? null : element(word), end]
  }
  let value = ''
  let end = at + 1
  while (end < text.length && text[end] !== '"') {
    if (text[end] === '\\') end += 1
    value += text[end] ?? ''
    end += 1
  }
  return [element(value), end + 1]
}
