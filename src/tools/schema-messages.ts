import type { ErrorObject } from 'ajv'

/** Characters of one message about arguments, output or a schema. */
const MAX_MESSAGE = 500
const MAX_PATH = 160
const MAX_VALUE = 80

const COMBINATORS: ReadonlySet<string> = new Set(['anyOf', 'oneOf', 'allOf', 'not', 'if', '$ref'])
const SELECTORS: ReadonlySet<string> = new Set(['const', 'enum', 'type', 'required'])

/**
 * One line that names the place and the rule. Keys come from the model, so they are clipped; values are never echoed.
 *
 * A failed alternative reports each branch. The most telling branch is the one that got furthest into the value, and a
 * branch that failed on its discriminator was not the one that was meant.
 */
export function describeSchemaErrors(errors: readonly ErrorObject[]): string {
  const leaves = errors.filter((error) => !COMBINATORS.has(error.keyword))
  const best = (leaves.length > 0 ? leaves : errors).toSorted((a, b) => weight(b) - weight(a))[0]
  if (best === undefined) return 'does not match the schema'
  return clipText(`${place(best.instancePath)} ${rule(best)}`, MAX_MESSAGE)
}

function weight(error: ErrorObject): number {
  return error.instancePath.split('/').length * 2 - (SELECTORS.has(error.keyword) ? 1 : 0)
}

function place(path: string): string {
  return path === '' ? 'the value' : clipText(path, MAX_PATH)
}

function rule(error: ErrorObject): string {
  const params: Readonly<Record<string, unknown>> = error.params
  if (error.propertyName !== undefined) return `has a property name that is not allowed: ${quoted(error.propertyName)}`
  switch (error.keyword) {
    case 'additionalProperties':
    case 'unevaluatedProperties':
      return `must not have the property ${quoted(params['additionalProperty'] ?? params['unevaluatedProperty'])}`
    case 'propertyNames':
      return `has a property name that is not allowed: ${quoted(params['propertyName'])}`
    case 'enum':
      return `must be one of ${quoted(params['allowedValues'])}`
    case 'const':
      return `must be ${quoted(params['allowedValue'])}`
    default:
      return clipText(error.message ?? `fails ${error.keyword}`, MAX_VALUE * 3)
  }
}

function quoted(value: unknown): string {
  return clipText(JSON.stringify(value) ?? 'unknown', Array.isArray(value) ? MAX_VALUE * 3 : MAX_VALUE)
}

/** Cuts on a character, never inside one, and drops control characters. */
function clipText(text: string, limit: number): string {
  // oxlint-disable-next-line no-control-regex
  const clean = text.toWellFormed().replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ')
  return clean.length <= limit
    ? clean
    : `${clean
        .slice(0, limit - 3)
        .toWellFormed()
        .replace(/\ufffd$/, '')}...`
}
