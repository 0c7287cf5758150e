import { createHash } from 'node:crypto'
import { canonicalJson } from '../tools/canonical.ts'
import { bound } from '../tools/bound.ts'
import { isJsonObject, own, type JsonValue } from '../tools/json.ts'
import { mapJson } from '../tools/json-map.ts'
import { PLATFORM_OUTPUT_BYTES } from '../tools/models.ts'

const KIND = 'provider_job.result'

/** Points from a job to the result that was too large for it. */
export interface ResultRef {
  readonly kind: typeof KIND
  /** `<job id>/<hex sha-256 of the canonical result>`. */
  readonly id: string
}

/** A result as it is kept: in the job itself, or in a row of its own that the job points to. */
export type StoredResult =
  | { readonly kind: 'inline'; readonly value: JsonValue }
  | { readonly kind: 'apart'; readonly value: JsonValue; readonly digest: string; readonly ref: ResultRef }

/** Where a result goes. Decided before anything is written: the row apart has to be there before a job points to it. */
export function storedResult(jobId: string, result: JsonValue): StoredResult {
  const value = storable(result)
  // A vendor's answer that looks like a reference of ours is kept apart, so that it is never read as one.
  if (!isReference(value) && !bound(value, PLATFORM_OUTPUT_BYTES).truncated) return { kind: 'inline', value }
  const digest = createHash('sha256').update(canonicalJson(value), 'utf8').digest('hex')
  return { kind: 'apart', value, digest, ref: { kind: KIND, id: `${jobId}/${digest}` } }
}

/**
 * The digest a job's `result` points to; null for a result that stands in the job.
 * @throws Error for a reference to another job or to nothing: a fault of storage, never an empty result
 */
export function digestOf(jobId: string, result: JsonValue): string | null {
  if (!isReference(result)) return null
  const digest = referredDigest(jobId, result)
  if (digest === null) throw new Error(`provider job ${jobId} refers to a result that is not its own`)
  return digest
}

function isReference(value: JsonValue): boolean {
  return isJsonObject(value) && Object.keys(value).length === 2 && own(value, 'kind') === KIND && 'id' in value
}

function referredDigest(jobId: string, value: JsonValue): string | null {
  const id = isJsonObject(value) ? own(value, 'id') : undefined
  if (!isReference(value) || typeof id !== 'string' || !id.startsWith(`${jobId}/`)) return null
  const digest = id.slice(jobId.length + 1)
  return /^[0-9a-f]{64}$/.test(digest) ? digest : null
}

/** Without what no database text can hold: NUL, and halves of characters. */
function storable(value: JsonValue): JsonValue {
  return mapJson(value, { text: (text) => text.toWellFormed().replaceAll('\0', '') })
}
