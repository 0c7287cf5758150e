import type { JsonObject, JsonValue } from './json.ts'

/** Sizes already measured. One answer is measured many times over while it is being bounded. */
export type SizeCache = Map<object, number>

/** Text the encoder writes as it is: printable ASCII without quotes and backslashes. */
const UNESCAPED = /^[\u0020\u0021\u0023-\u005b\u005d-\u007e]*$/

/** UTF-8 bytes of the compact JSON text of a value, exactly what the encoder would write. */
export function jsonBytes(value: JsonValue, cache: SizeCache): number {
  if (typeof value === 'string') return textBytes(value)
  if (typeof value !== 'object' || value === null) return String(value).length
  const known = cache.get(value)
  if (known !== undefined) return known
  const size = Array.isArray(value) ? listBytes(value, cache) : recordBytes(value as JsonObject, cache)
  cache.set(value, size)
  return size
}

/** Bytes of `"name":value`. */
export function fieldBytes(name: string, value: JsonValue, cache: SizeCache): number {
  return textBytes(name) + 1 + jsonBytes(value, cache)
}

/** Whether the JSON text of a value has at most so many bytes. A text too long to be written does not. */
export function fitsInto(value: JsonValue, limit: number): boolean {
  try {
    const text = JSON.stringify(value)
    return text.length <= limit && Buffer.byteLength(text, 'utf8') <= limit
  } catch {
    return false
  }
}

function textBytes(text: string): number {
  return UNESCAPED.test(text) ? text.length + 2 : Buffer.byteLength(JSON.stringify(text), 'utf8')
}

/** Brackets and commas of a list or record of so many parts. */
export function frameBytes(parts: number): number {
  return 2 + Math.max(0, parts - 1)
}

function listBytes(list: readonly JsonValue[], cache: SizeCache): number {
  let size = frameBytes(list.length)
  for (const item of list) size += jsonBytes(item, cache)
  return size
}

function recordBytes(record: JsonObject, cache: SizeCache): number {
  const names = Object.keys(record)
  let size = frameBytes(names.length)
  for (const name of names) size += fieldBytes(name, record[name] as JsonValue, cache)
  return size
}
