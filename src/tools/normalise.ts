import { types } from 'node:util'
import type { JsonObject, JsonValue } from './json.ts'

/** Levels of nesting an answer keeps; what lies deeper is named instead of carried. */
export const MAX_PLAIN_DEPTH = 100

/** Values one answer may hold. A shared reference is written out at each place, so a small object graph can unfold without end. */
const MAX_PLAIN_NODES = 3_000_000

/**
 * Turns whatever a handler answered into plain JSON, by a walk of its own. Total: it never throws, whatever getters,
 * proxies or cycles it meets. A value that JSON cannot carry is named, `"<unrenderable bytes>"`, because a list of
 * accepted types would grow with every handler.
 *
 * A date becomes ISO text and an object with a `toJSON` method what that method answers, as in `JSON.stringify`. A set
 * becomes a sorted list, so that its order does not depend on who filled it. An undefined property is left out.
 */
export function normalise(value: unknown): JsonValue {
  return plain(value, { depth: 0, nodes: { left: MAX_PLAIN_NODES }, ancestors: new Set() })
}

interface Walk {
  readonly depth: number
  readonly nodes: { left: number }
  readonly ancestors: Set<object>
}

function unrenderable(what: string): string {
  return `<unrenderable ${what}>`
}

function plain(value: unknown, walk: Walk): JsonValue {
  if (--walk.nodes.left < 0) return unrenderable('excess')
  if (typeof value === 'string') return value.toWellFormed()
  if (typeof value === 'number') return plainNumber(value)
  if (typeof value === 'boolean') return value
  if (value === undefined || value === null) return null
  return typeof value === 'object' ? plainObject(value, walk) : unrenderable(typeof value)
}

function plainNumber(value: number): JsonValue {
  if (!Number.isFinite(value)) return unrenderable('number')
  return value === 0 ? 0 : value
}

function plainObject(value: object, walk: Walk): JsonValue {
  if (walk.ancestors.has(value)) return unrenderable('cycle')
  if (walk.depth >= MAX_PLAIN_DEPTH) return unrenderable('depth')
  walk.ancestors.add(value)
  try {
    return plainContainer(value, { ...walk, depth: walk.depth + 1 })
  } catch {
    return unrenderable('object')
  } finally {
    walk.ancestors.delete(value)
  }
}

function plainContainer(value: object, walk: Walk): JsonValue {
  if (Array.isArray(value)) return plainList(value, walk)
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === Object.prototype || prototype === null) return plainRecord(value, walk)
  if (types.isDate(value)) return plainDate(value)
  if (types.isSet(value)) return sortedList(plainList([...value], walk))
  if (types.isBoxedPrimitive(value)) return plain(value.valueOf(), walk)
  const name = exoticName(value)
  if (name !== null) return unrenderable(name)
  if ('toJSON' in value && typeof value.toJSON === 'function') return plain(value.toJSON(), walk)
  return plainRecord(value, walk)
}

function plainList(items: readonly unknown[], walk: Walk): JsonValue[] {
  const list: JsonValue[] = []
  for (let index = 0; index < items.length && walk.nodes.left >= 0; index++) list.push(plain(items[index], walk))
  return list
}

function plainRecord(value: object, walk: Walk): JsonObject {
  const record: Record<string, JsonValue> = {}
  for (const key of Object.keys(value)) {
    if (walk.nodes.left < 0) break
    setOwn(record, key.toWellFormed(), plainProperty(value, key, walk))
  }
  return record
}

/** A getter that throws is named: leaving it out would hide that there was a value. Undefined means: leave it out. */
function plainProperty(value: object, key: string, walk: Walk): JsonValue | undefined {
  let field: unknown
  try {
    field = (value as Record<string, unknown>)[key]
  } catch {
    return unrenderable('property')
  }
  return field === undefined ? undefined : plain(field, walk)
}

function plainDate(date: Date): JsonValue {
  const time = Date.prototype.getTime.call(date)
  return Number.isFinite(time) ? new Date(time).toISOString() : unrenderable('date')
}

/** Numbers by size, anything else by its JSON text in code unit order. */
function sortedList(items: readonly JsonValue[]): JsonValue[] {
  if (items.every((item) => typeof item === 'number')) return items.toSorted((a, b) => a - b)
  return items
    .map((item) => ({ item, text: JSON.stringify(item) }))
    .toSorted((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0))
    .map(({ item }) => item)
}

const EXOTIC: readonly (readonly [name: string, is: (value: object) => boolean])[] = [
  ['bytes', (value) => ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)],
  ['map', types.isMap],
  ['weak collection', (value) => types.isWeakMap(value) || types.isWeakSet(value)],
  ['promise', types.isPromise],
  ['error', types.isNativeError],
  ['regular expression', types.isRegExp],
  ['iterator', (value) => types.isGeneratorObject(value) || types.isMapIterator(value) || types.isSetIterator(value)],
]

function exoticName(value: object): string | null {
  return EXOTIC.find(([, is]) => is(value))?.[0] ?? null
}

/** Sets an own property whatever its name: plain assignment to `__proto__` would change the prototype instead. */
export function setOwn<T>(record: Record<string, T>, key: string, value: T | undefined): void {
  if (value === undefined) return
  if (key === '__proto__') {
    Object.defineProperty(record, key, { value, enumerable: true, configurable: true, writable: true })
  } else {
    record[key] = value
  }
}
