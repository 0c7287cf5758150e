import { isJsonObject, own } from './json.ts'
import type { JsonObject, JsonValue } from './json.ts'

/** The one reserved name: a lookup for it finds everything that was taken out. */
const DROPPED = '__dropped__'

/** Names a row that was too large, so that it can be fetched on its own. */
export interface ResourceRef {
  readonly kind: string
  readonly id: string
}

/** Stands in the place of a value that was too large. `bytes` is the size of what it replaced. */
export function droppedMarker(bytes: number): JsonObject {
  return { [DROPPED]: { reason: 'too_large', bytes } }
}

/** Exactly the shape that {@link droppedMarker} and {@link nameDropped} write; look-alikes in an answer are data. */
export function isMarker(value: JsonValue | undefined): value is JsonObject {
  if (!isJsonObject(value) || Object.keys(value).length !== 1) return false
  const note = own(value, DROPPED)
  if (!isJsonObject(note) || own(note, 'reason') !== 'too_large' || !Number.isSafeInteger(own(note, 'bytes')))
    return false
  const ref = own(note, 'ref')
  return Object.keys(note).length === (ref === undefined ? 2 : 3) && (ref === undefined || isRef(ref))
}

function isRef(value: JsonValue): boolean {
  if (!isJsonObject(value)) return false
  return (
    Object.keys(value).length === 2 && typeof own(value, 'kind') === 'string' && typeof own(value, 'id') === 'string'
  )
}

/** The marker without its reference: the only way a marker can shrink, since its size note must not be lost. */
export function bareMarker(marker: JsonObject): JsonObject {
  const note = own(marker, DROPPED)
  const bytes = isJsonObject(note) ? own(note, 'bytes') : undefined
  return droppedMarker(typeof bytes === 'number' ? bytes : 0)
}

/**
 * Puts a reference inside every marker that bounding wrote, by walking the bounded value and its original together:
 * bounding replaces in place and drops only from the end, so a position means the same in both. The reference names
 * the row that lost something. Without an id on the row there is none: a reference built from a guess resolves to
 * nothing, and a reader cannot tell that from a row it may not see.
 */
export function nameDropped(bounded: JsonValue, original: JsonValue, kind: string | null): JsonValue {
  if (kind === null) return bounded
  return nameRows(bounded, original, kind)
}

/** Where the rows are: the items of an array, the object itself when it has an id, else what an envelope holds. */
function nameRows(bounded: JsonValue, original: JsonValue, kind: string): JsonValue {
  if (Array.isArray(bounded) && Array.isArray(original)) {
    return mapShared(bounded, (item, index) => nameRow(item, original[index] ?? null, kind))
  }
  if (!isJsonObject(original)) return bounded
  if (rowId(original) !== null) return nameRow(bounded, original, kind)
  return isJsonObject(bounded) && !isMarker(bounded) ? nameEnvelope(bounded, original, kind) : bounded
}

/** An object without an id: a dictionary of rows when each of its fields has one; else its only list holds the rows. */
function nameEnvelope(bounded: JsonObject, original: JsonObject, kind: string): JsonObject {
  const before = (name: string): JsonValue => own(original, name) ?? null
  const fields = Object.entries(original)
  if (fields.every(([, field]) => rowId(field) !== null)) {
    return mapFields(bounded, (field, name) => nameRow(field, before(name), kind))
  }
  const lists = fields.filter(([, field]) => Array.isArray(field)).map(([name]) => name)
  if (lists.length !== 1) return bounded
  return mapFields(bounded, (field, name) => (name === lists[0] ? nameRows(field, before(name), kind) : field))
}

function nameRow(bounded: JsonValue, original: JsonValue, kind: string): JsonValue {
  const id = rowId(original)
  return id === null ? bounded : refInside(bounded, original, { kind, id })
}

function rowId(row: JsonValue): string | null {
  const id = isJsonObject(row) ? own(row, 'id') : undefined
  if (typeof id === 'string') return id === '' ? null : id
  return typeof id === 'number' && Number.isSafeInteger(id) ? String(id) : null
}

function refInside(bounded: JsonValue, original: JsonValue, ref: ResourceRef): JsonValue {
  if (bounded === original) return bounded
  if (isMarker(bounded)) return isMarker(original) ? bounded : withRef(bounded, ref)
  if (Array.isArray(bounded) && Array.isArray(original)) {
    return mapShared(bounded, (item, index) => refInside(item, original[index] ?? null, ref))
  }
  if (!isJsonObject(bounded) || !isJsonObject(original)) return bounded
  return mapFields(bounded, (field, name) => refInside(field, own(original, name) ?? null, ref))
}

function withRef(marker: JsonObject, ref: ResourceRef): JsonObject {
  const note = own(marker, DROPPED)
  return { [DROPPED]: { ...(isJsonObject(note) ? note : {}), ref: { kind: ref.kind, id: ref.id } } }
}

function mapShared(
  list: readonly JsonValue[],
  change: (item: JsonValue, index: number) => JsonValue,
): readonly JsonValue[] {
  const changed = list.map(change)
  return changed.every((item, index) => item === list[index]) ? list : changed
}

function mapFields(record: JsonObject, change: (field: JsonValue, name: string) => JsonValue): JsonObject {
  // fromEntries defines own properties, so a field named __proto__ stays a field.
  return Object.fromEntries(Object.entries(record).map(([name, field]) => [name, change(field, name)]))
}
