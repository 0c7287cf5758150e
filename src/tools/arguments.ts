import { ARGUMENT_LIMITS, parseArgumentsText } from './arguments-text.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { isJsonObject } from './json.ts'
import { compileSchema } from './schema.ts'

export type ArgumentsVerdict =
  | { readonly kind: 'valid'; readonly args: JsonObject }
  | { readonly kind: 'invalid'; readonly message: string }

/**
 * Admits what a model or a caller handed over as arguments and checks it against a contract's input schema. The answer
 * is a copy of plain JSON, so that nothing the caller still holds can change what was checked.
 */
export function validateArguments(inputSchema: JsonObject, args: unknown): ArgumentsVerdict {
  const admitted = admitArguments(args)
  if (admitted.kind === 'invalid') return admitted
  const verdict = compileSchema(inputSchema).validate(admitted.args)
  return verdict.kind === 'valid' ? admitted : { kind: 'invalid', message: `arguments: ${verdict.message}` }
}

/**
 * Copies arguments into plain JSON, or says why they are none. Strict where the result boundary is forgiving: what
 * cannot be hashed, shown and sent exactly as it was written must not be executed. An undefined property is left out.
 */
function admitArguments(args: unknown): ArgumentsVerdict {
  if (typeof args === 'string') return refusedText(args)
  try {
    const copy = copyValue(args, { depth: 1, path: '', budget: { left: ARGUMENT_LIMITS.bytes } })
    if (!isJsonObject(copy)) return invalid('arguments must be a JSON object')
    if (Buffer.byteLength(JSON.stringify(copy), 'utf8') > ARGUMENT_LIMITS.bytes) return invalid(TOO_LARGE)
    return { kind: 'valid', args: copy }
  } catch (error) {
    return invalid(error instanceof NotAdmitted ? error.message : 'arguments could not be read')
  }
}

/**
 * A text is what arguments are handed over as when they could not be read, or when the turn that held them was cut off;
 * it is said why, and never parsed into arguments here.
 */
function refusedText(text: string): ArgumentsVerdict {
  const parsed = parseArgumentsText(text)
  return invalid(`arguments must be a JSON object${parsed.kind === 'invalid' ? `: ${parsed.message}` : ', not a text'}`)
}

const TOO_LARGE = `arguments are larger than ${ARGUMENT_LIMITS.bytes / 1024} kB`

class NotAdmitted extends Error {}

interface Position {
  readonly depth: number
  readonly path: string
  /** Characters that may still be copied; stops a huge value before it is copied whole. */
  readonly budget: { left: number }
}

function copyValue(value: unknown, at: Position): JsonValue {
  at.budget.left -= typeof value === 'string' ? value.length : 1
  if (at.budget.left < 0) throw new NotAdmitted(TOO_LARGE)
  if (value === null || typeof value === 'boolean') return value
  if (typeof value === 'string') {
    if (!value.isWellFormed()) refuse(at, 'holds a broken character (a lone surrogate)')
    return value
  }
  if (typeof value === 'number') return copyNumber(value, at)
  if (typeof value !== 'object') return refuse(at, `is of type ${typeof value}, which JSON cannot carry`)
  if (at.depth > ARGUMENT_LIMITS.depth) return refuse(at, `is nested deeper than ${ARGUMENT_LIMITS.depth} levels`)
  if (Array.isArray(value)) {
    // Not `map`, which leaves holes as they are.
    return Array.from(value, (item: unknown, index) =>
      copyValue(item, { ...at, depth: at.depth + 1, path: `${at.path}/${index}` }),
    )
  }
  return copyObject(value, at)
}

function copyNumber(value: number, at: Position): number {
  if (!Number.isFinite(value)) return refuse(at, 'is not a finite number')
  // Beyond 2^53 two integers a model wrote can be one number here, and then share one hash.
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    return refuse(at, 'is an integer too large to be exact; send it as text')
  return value === 0 ? 0 : value
}

function copyObject(value: object, at: Position): JsonObject {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return refuse(at, 'is an object of a class, not plain JSON')
  const copy: Record<string, JsonValue> = {}
  for (const [key, field] of Object.entries(value)) {
    at.budget.left -= key.length
    if (!key.isWellFormed()) refuse(at, 'has a property name with a broken character')
    if (key === '__proto__') refuse(at, 'has a property named __proto__')
    if (field !== undefined) copy[key] = copyValue(field, { ...at, depth: at.depth + 1, path: `${at.path}/${key}` })
  }
  return copy
}

function refuse(at: Position, problem: string): never {
  const place = at.path === '' ? 'the value' : at.path.slice(0, 160).toWellFormed()
  throw new NotAdmitted(`arguments: ${place} ${problem}`)
}

function invalid(message: string): ArgumentsVerdict {
  return { kind: 'invalid', message }
}

/**
 * A copy whose objects inherit nothing, for a parser that reads `args.constructor` without asking whose it is: an
 * optional argument of that name would otherwise be found in every call.
 */
export function bareCopy(value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(bareCopy)
  const bare: Record<string, JsonValue> = Object.create(null) as Record<string, JsonValue>
  for (const [key, field] of Object.entries(value)) bare[key] = bareCopy(field)
  return bare
}

/** A copy that nothing can write to: what was hashed is what every later reader finds. */
export function frozenCopy(args: JsonObject): JsonObject {
  return frozen(args) as JsonObject
}

function frozen(value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return Object.freeze(value.map(frozen))
  return Object.freeze(Object.fromEntries(Object.entries(value).map(([key, field]) => [key, frozen(field)])))
}
