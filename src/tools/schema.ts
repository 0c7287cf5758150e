import type { ValidateFunction } from 'ajv'
import { canonicalJson, sha256Hex } from './canonical.ts'
import type { JsonObject } from './json.ts'
import { admitSchema, schemaDialect } from './schema-admission.ts'
import type { SchemaRole } from './schema-admission.ts'
import { compilableCopy } from './schema-copy.ts'
import { compileWith, metaProblem } from './schema-engine.ts'
import type { Compilation } from './schema-engine.ts'
import { describeSchemaErrors } from './schema-messages.ts'

type SchemaVerdict = { readonly kind: 'valid' } | { readonly kind: 'invalid'; readonly message: string }

export interface SchemaValidator {
  /** Never throws and never changes the value. The message is short and holds no long text of the value. */
  validate(value: unknown): SchemaVerdict
  /** Patterns that no linear-time engine can run and that are therefore not enforced. */
  readonly unenforced: readonly string[]
}

/** A schema that may not or cannot be compiled. */
export class SchemaRefusedError extends Error {
  override readonly name = 'SchemaRefusedError'
  readonly problems: readonly string[]
  constructor(problems: readonly string[]) {
    super(`the schema is refused: ${problems.join('; ')}`)
    this.problems = problems
  }
}

/**
 * Compiles a schema once per content. Defaults are not filled in and types are not coerced: what a person approves is
 * what was validated.
 *
 * @throws SchemaRefusedError
 */
export function compileSchema(schema: JsonObject): SchemaValidator {
  const same = byIdentity.get(schema)
  if (same !== undefined) return same
  const problems = admitSchema(schema, 'output')
  if (problems.length > 0) throw new SchemaRefusedError(problems)
  const hash = sha256Hex(canonicalJson(schema))
  const validator = byHash.get(hash) ?? build(schema)
  remember(hash, validator)
  byIdentity.set(schema, validator)
  return validator
}

/** Everything that keeps a schema from being used, in words; empty when it can be compiled. */
export function schemaProblems(schema: JsonObject, role: SchemaRole): string[] {
  const problems = admitSchema(schema, role)
  if (problems.length > 0) return problems
  const invalid = metaProblem(schema, schemaDialect(schema) ?? '2020-12')
  if (invalid !== null) return [invalid]
  try {
    compileSchema(schema)
    return []
  } catch (error) {
    return error instanceof SchemaRefusedError ? [...error.problems] : ['the schema cannot be compiled']
  }
}

/** Compiled validators kept; the least recently used one goes first. */
const MAX_CACHED = 1000
const byHash = new Map<string, SchemaValidator>()
const byIdentity = new WeakMap<JsonObject, SchemaValidator>()

function remember(hash: string, validator: SchemaValidator): void {
  byHash.delete(hash)
  byHash.set(hash, validator)
  const oldest = byHash.size > MAX_CACHED ? byHash.keys().next().value : undefined
  if (oldest !== undefined) byHash.delete(oldest)
}

/**
 * Steps of one validation, two or three seconds of work at worst. A count and not a clock, so that a verdict does not depend on how
 * busy the machine is. A step is counted where a schema can multiply work: at references, alternatives and items, and
 * for what a pattern reads.
 */
const MAX_STEPS = 5_000_000

class ValidationTooLong extends Error {}

function build(schema: JsonObject): SchemaValidator {
  let left = 0
  const step = (cost: number): void => {
    left -= cost
    if (left < 0) throw new ValidationTooLong()
  }
  const dialect = schemaDialect(schema) ?? '2020-12'
  const { schema: copy, unenforced, accounts } = compilableCopy(schema, dialect)
  const run = compiled(copy, { dialect, accounts, step })
  return {
    unenforced,
    validate(value) {
      left = MAX_STEPS
      try {
        const valid: unknown = run(value)
        // Anything but `true` is no verdict.
        return valid === true ? { kind: 'valid' } : { kind: 'invalid', message: describeSchemaErrors(run.errors ?? []) }
      } catch (error) {
        return { kind: 'invalid', message: brokenOff(error) }
      }
    },
  }
}

function compiled(copy: JsonObject, compilation: Compilation): ValidateFunction {
  try {
    return compileWith(copy, compilation)
  } catch (error) {
    const reason = error instanceof Error ? error.message.slice(0, 300) : 'the schema cannot be compiled'
    throw new SchemaRefusedError([reason])
  }
}

/** A value that is not plain JSON can throw whatever it likes. */
function brokenOff(error: unknown): string {
  if (error instanceof ValidationTooLong) return 'the value takes too long to validate'
  return error instanceof RangeError ? 'the value is nested too deeply' : 'the value cannot be read as JSON'
}
