import { bound } from './bound.ts'
import { stripInvisible } from './invisible.ts'
import { mapJson } from './json-map.ts'
import type { JsonValue } from './json.ts'
import { nameDropped } from './markers.ts'
import { PLATFORM_OUTPUT_BYTES } from './models.ts'
import type { HandlerAnswer, ToolResultMeta, ToolSpec } from './models.ts'
import { redact, redactText } from './redact.ts'

export interface Crossing {
  readonly spec: Pick<ToolSpec, 'kind' | 'maxResults' | 'maxOutputBytes' | 'itemKind'>
  /** Plain JSON, already valid against the output schema. */
  readonly data: JsonValue
  readonly meta: NonNullable<HandlerAnswer<unknown>['meta']>
  /** Credential values that were in use for this call. */
  readonly secrets: readonly string[]
}

/** Characters of a handler's own note on a partial answer. */
const MAX_REASON = 300

/**
 * Everything between a valid answer and whoever reads it: hidden characters out, credentials out, items limited, bytes
 * bounded, what was dropped named, count and labels set. Credentials go first, so that it does not depend on which
 * item happened to be dropped whether one is still there. Whatever else a handler wrote into its answer, a `stop`
 * among it, is left behind.
 */
export function boundResult({ spec, data, meta, secrets }: Crossing): { data: JsonValue; meta: ToolResultMeta } {
  const untrusted = spec.kind !== 'internal' || meta.untrusted === true
  const visible = untrusted ? mapJson(data, { text: stripInvisible }) : data
  const clean = redact(visible, secrets)
  const limited = limitItems(clean, spec.maxResults)
  const bounded = boundNamed(limited, spec)
  return {
    data: bounded,
    meta: {
      ...(Array.isArray(bounded) ? { count: bounded.length } : {}),
      truncated: bounded !== clean,
      untrusted,
      ...(typeof meta.usageId === 'string' ? { usageId: meta.usageId } : {}),
      ...(typeof meta.partialReason === 'string' ? { partialReason: reason(meta.partialReason, secrets) } : {}),
    },
  }
}

/** Keeps the first items, in order. */
function limitItems(data: JsonValue, maxResults: number | null): JsonValue {
  return maxResults !== null && Array.isArray(data) && data.length > maxResults ? data.slice(0, maxResults) : data
}

/** A reference adds about sixty bytes to its marker, so naming can push an answer over the limit: it is bounded again. */
function boundNamed(data: JsonValue, { maxOutputBytes, itemKind }: Crossing['spec']): JsonValue {
  const limit = Math.min(maxOutputBytes ?? PLATFORM_OUTPUT_BYTES, PLATFORM_OUTPUT_BYTES)
  const first = bound(data, limit)
  return first.truncated ? bound(nameDropped(first.value, data, itemKind), limit).value : data
}

function reason(text: string, secrets: readonly string[]): string {
  return redactText(stripInvisible(text.toWellFormed()), secrets).slice(0, MAX_REASON).toWellFormed()
}
