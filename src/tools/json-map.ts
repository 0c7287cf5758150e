import type { JsonObject, JsonValue } from './json.ts'
import { setOwn } from './normalise.ts'

/** How to change the leaves of a JSON value; what is not given stays as it is. */
export interface JsonChange {
  /** Applied to text and to names. */
  text(text: string): string
  number?(value: number): JsonValue
  /** What stands in for a field of this name, whatever it holds; undefined to go on into it. */
  field?(name: string): JsonValue | undefined
}

/** Changes a JSON value leaf by leaf. Parts that do not change are shared with the original, not copied. */
export function mapJson(value: JsonValue, change: JsonChange): JsonValue {
  if (typeof value === 'string') return change.text(value)
  if (typeof value === 'number') return change.number?.(value) ?? value
  if (typeof value !== 'object' || value === null) return value
  return Array.isArray(value) ? mapList(value, change) : mapObject(value as JsonObject, change)
}

function mapList(list: readonly JsonValue[], change: JsonChange): JsonValue {
  let copy: JsonValue[] | null = null
  for (const [index, item] of list.entries()) {
    const changed = mapJson(item, change)
    if (copy === null && changed !== item) copy = list.slice(0, index)
    copy?.push(changed)
  }
  return copy ?? list
}

function mapObject(record: JsonObject, change: JsonChange): JsonObject {
  const names = Object.keys(record)
  let entries: [string, JsonValue][] | null = null
  for (const [index, name] of names.entries()) {
    const field = record[name] as JsonValue
    const renamed = change.text(name)
    const changed = change.field?.(name) ?? mapJson(field, change)
    if (entries === null && (renamed !== name || changed !== field)) {
      entries = names.slice(0, index).map((before) => [before, record[before] as JsonValue])
    }
    entries?.push([renamed, changed])
  }
  return entries === null ? record : collect(entries)
}

/** Two names that became one keep both fields: the later one is numbered. */
function collect(entries: readonly (readonly [string, JsonValue])[]): JsonObject {
  const record: Record<string, JsonValue> = {}
  for (const [name, field] of entries) {
    let free = name
    for (let copy = 2; Object.hasOwn(record, free); copy++) free = `${name}#${copy}`
    setOwn(record, free, field)
  }
  return record
}
