import { isJsonObject } from './json.ts'
import type { JsonArray, JsonObject, JsonValue } from './json.ts'
import { fieldBytes, fitsInto, frameBytes, jsonBytes } from './json-size.ts'
import type { SizeCache } from './json-size.ts'
import { bareMarker, droppedMarker, isMarker } from './markers.ts'

export interface Bounded {
  readonly value: JsonValue
  readonly truncated: boolean
}

/** Bytes of `[]`, `{}` and `""`, the smallest answers there are. */
const SMALLEST = 2

/**
 * Bounds plain JSON to so many bytes of its compact text without ever cutting a structure or a string.
 *
 * What fits is returned as it is. Otherwise values that are too large give way to markers that say how large they
 * were, in place, so that position `i` of the answer still speaks of position `i` of the original; and only when that
 * is not enough are parts dropped, from the end. The result always fits, so bounding it again changes nothing.
 */
export function bound(value: JsonValue, limit: number): Bounded {
  const room = Math.max(SMALLEST, Math.floor(limit))
  if (fitsInto(value, room)) return { value, truncated: false }
  try {
    return { value: shrink(value, room, new Map()), truncated: true }
  } catch {
    // Nested beyond what can be walked; the boundary's own walk cuts far above that.
    return { value: smallest(value), truncated: true }
  }
}

function smallest(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return []
  return isJsonObject(value) ? {} : ''
}

function shrink(value: JsonValue, room: number, sizes: SizeCache): JsonValue {
  if (isMarker(value)) return markerWithin(bareMarker(value), room, sizes) ?? {}
  if (Array.isArray(value)) return shrinkList(value, room, sizes)
  if (isJsonObject(value)) return shrinkRecord(value, room, sizes)
  return markerWithin(droppedMarker(jsonBytes(value, sizes)), room, sizes) ?? ''
}

function markerWithin(marker: JsonObject, room: number, sizes: SizeCache): JsonObject | null {
  return jsonBytes(marker, sizes) <= room ? marker : null
}

/**
 * Items larger than the whole limit are shrunk to their share of it, each in its place; then items are kept from the
 * front for as long as they fit.
 */
function shrinkList(list: JsonArray, room: number, sizes: SizeCache): JsonValue {
  const share = Math.floor((room - frameBytes(list.length)) / list.length)
  const kept: JsonValue[] = []
  let left = room - frameBytes(0)
  for (const item of list) {
    const fitted = jsonBytes(item, sizes) > room ? shrinkItem(item, share, sizes) : item
    left -= jsonBytes(fitted, sizes) + (kept.length > 0 ? 1 : 0)
    if (left < 0) break
    kept.push(fitted)
  }
  return kept
}

/** Keeps the shape of one oversized item, its largest parts as markers; an item that still does not fit is a marker. */
function shrinkItem(item: JsonValue, share: number, sizes: SizeCache): JsonValue {
  if (isMarker(item)) return bareMarker(item)
  const whole = droppedMarker(jsonBytes(item, sizes))
  if (typeof item !== 'object' || item === null) return whole
  const excess = jsonBytes(item, sizes) - Math.max(share, jsonBytes(whole, sizes))
  const parts = giveWay(Object.values(item), { excess, sizes, shrinkPart: markerOf })
  return parts === null ? whole : rebuilt(item, parts)
}

/**
 * The largest values give way first: a container is bounded into the room that is left for it, and becomes a marker
 * when nothing of it would remain. When names and markers alone are too much, fields are kept from the front.
 */
function shrinkRecord(record: JsonObject, room: number, sizes: SizeCache): JsonValue {
  const excess = jsonBytes(record, sizes) - room
  const parts = giveWay(Object.values(record), { excess, sizes, shrinkPart: shrinkField })
  return parts === null ? firstFields(record, room, sizes) : rebuilt(record, parts)
}

interface GivingWay {
  /** Bytes that have to go. */
  readonly excess: number
  readonly sizes: SizeCache
  /** Makes a part smaller, into so many bytes if it can. */
  readonly shrinkPart: (part: JsonValue, room: number, sizes: SizeCache) => JsonValue
}

/** Shrinks parts in place, largest first, until enough is gone; null when even markers everywhere would be too much. */
function giveWay(parts: readonly JsonValue[], { excess, sizes, shrinkPart }: GivingWay): JsonValue[] | null {
  const gains = parts.reduce<number>((sum, part) => sum + markerGain(part, sizes), 0)
  if (gains < excess) return null
  const shrunk = [...parts]
  let left = excess
  for (const index of bySize(parts, sizes)) {
    if (left <= 0) break
    const part = parts[index] as JsonValue
    if (markerGain(part, sizes) === 0) continue
    const size = jsonBytes(part, sizes)
    const smaller = shrinkPart(part, size - left, sizes)
    shrunk[index] = smaller
    left -= size - jsonBytes(smaller, sizes)
  }
  return shrunk
}

/** Bytes saved by a marker in the place of a part. */
function markerGain(part: JsonValue, sizes: SizeCache): number {
  const size = jsonBytes(part, sizes)
  if (size <= MARKER_BYTES) return 0
  return Math.max(0, size - (isMarker(part) ? jsonBytes(bareMarker(part), sizes) : MARKER_BYTES + String(size).length))
}

/** A marker without the digits of its size. */
const MARKER_BYTES = JSON.stringify(droppedMarker(0)).length - 1

function markerOf(part: JsonValue, _room: number, sizes: SizeCache): JsonObject {
  return isMarker(part) ? bareMarker(part) : droppedMarker(jsonBytes(part, sizes))
}

function shrinkField(field: JsonValue, room: number, sizes: SizeCache): JsonValue {
  if (room > SMALLEST && typeof field === 'object' && field !== null && !isMarker(field)) {
    const part = shrink(field, room, sizes)
    if (jsonBytes(part, sizes) > SMALLEST) return part
  }
  return markerOf(field, room, sizes)
}

/** Positions, the largest part first; equal sizes keep their order. */
function bySize(parts: readonly JsonValue[], sizes: SizeCache): number[] {
  const order = parts.map((part, index) => ({ index, size: jsonBytes(part, sizes) }))
  return order.toSorted((a, b) => b.size - a.size).map(({ index }) => index)
}

function rebuilt(item: JsonArray | JsonObject, parts: readonly JsonValue[]): JsonValue {
  if (Array.isArray(item)) return parts
  return Object.fromEntries(Object.keys(item).map((name, index) => [name, parts[index] as JsonValue]))
}

function firstFields(record: JsonObject, room: number, sizes: SizeCache): JsonObject {
  const kept: [string, JsonValue][] = []
  let left = room - frameBytes(0)
  for (const [name, field] of Object.entries(record)) {
    const part = jsonBytes(field, sizes) > room ? markerOf(field, room, sizes) : field
    left -= fieldBytes(name, part, sizes) + (kept.length > 0 ? 1 : 0)
    if (left < 0) break
    kept.push([name, part])
  }
  return Object.fromEntries(kept)
}
