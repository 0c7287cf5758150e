import { Ajv } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { Options, ValidateFunction } from 'ajv'
import addFormats from 'ajv-formats'
import { canonicalJson, sha256Hex } from './canonical.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { admitSchema, schemaDialect } from './schema-admission.ts'
import type { SchemaDialect, SchemaRole } from './schema-admission.ts'
import { describeSchemaErrors } from './schema-messages.ts'
import { linearPattern } from './schema-regexp.ts'
import { mapSubschemas } from './schema-walk.ts'
import type { SchemaNode } from './schema-walk.ts'

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
  const invalid = metaProblem(schema)
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

const ENGINES = { '2020-12': Ajv2020, '2019-09': Ajv2019, 'draft-07': Ajv } as const satisfies Record<
  SchemaDialect,
  unknown
>

/**
 * `ownProperties`: otherwise `required: ["toString"]` is satisfied by any object. `inlineRefs` off: a chain of doubled
 * references would be compiled into twice the code at every link.
 */
const OPTIONS = {
  strict: false,
  logger: false,
  ownProperties: true,
  inlineRefs: false,
  multipleOfPrecision: 9,
  addUsedSchema: false,
} as const satisfies Options

/** Milliseconds one validation may take; counted at references and patterns, where hostile schemas spend their time. */
const MAX_VALIDATION_MS = 5000
const STEP_KEYWORD = 'x-bailiff-step'

class ValidationTooLong extends Error {}

function build(schema: JsonObject): SchemaValidator {
  const unenforced: string[] = []
  const clock = { steps: 0, deadline: 0 }
  const step = (): true => {
    if (++clock.steps % 512 === 0 && performance.now() > clock.deadline) throw new ValidationTooLong()
    return true
  }
  const run = compile(ownCopy(schema, unenforced), { dialect: schemaDialect(schema) ?? '2020-12', step })
  return {
    unenforced,
    validate(value) {
      clock.deadline = performance.now() + MAX_VALIDATION_MS
      try {
        if (run(value)) return { kind: 'valid' }
        return { kind: 'invalid', message: describeSchemaErrors(run.errors ?? []) }
      } catch (error) {
        if (error instanceof RangeError) return { kind: 'invalid', message: 'the value is nested too deeply' }
        if (error instanceof ValidationTooLong)
          return { kind: 'invalid', message: 'the value takes too long to validate' }
        throw error
      }
    },
  }
}

function compile(
  schema: JsonObject,
  { dialect, step }: { readonly dialect: SchemaDialect; readonly step: () => true },
): ValidateFunction {
  const regExp = (pattern: string): RegExp => steppedPattern(pattern, step) as unknown as RegExp
  // The text under which Ajv would write the engine into stand-alone code; this project never emits any.
  const engine = Object.assign(regExp, { code: 'linearPattern' })
  const ajv = new ENGINES[dialect]({ ...OPTIONS, meta: false, validateSchema: false, code: { regExp: engine } })
  addFormats.default(ajv)
  ajv.addFormat('url', isShortUrl)
  ajv.addKeyword({ keyword: STEP_KEYWORD, before: '$ref', schemaType: 'boolean', errors: false, validate: step })
  ajv.removeKeyword('uniqueItems')
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must not hold the same item twice' },
    validate: (wanted: boolean, items: readonly JsonValue[]) => !wanted || areUnique(items),
  })
  try {
    return ajv.compile(schema)
  } catch (error) {
    throw new SchemaRefusedError([
      error instanceof Error ? error.message.slice(0, 300) : 'the schema cannot be compiled',
    ])
  }
}

/** The package's own `url` expression backtracks: 33 s on 250 kB of colons. Every other format answers in milliseconds. */
function isShortUrl(text: string): boolean {
  return text.length <= 8192 && URL.canParse(text)
}

function steppedPattern(pattern: string, step: () => true): ReturnType<typeof linearPattern> {
  const matcher = linearPattern(pattern)
  if (matcher === null) throw new SchemaRefusedError([`pattern ${pattern.slice(0, 100)} is not a linear-time pattern`])
  return { test: (text) => step() && matcher.test(text), toString: () => matcher.toString() }
}

/** Ajv compares every pair: five thousand objects took 1.6 s. One text each is enough. */
function areUnique(items: readonly JsonValue[]): boolean {
  const seen = new Set<string>()
  for (const item of items) seen.add(typeof item === 'string' ? `"${item}` : canonicalJson(item))
  return seen.size === items.length
}

/**
 * The copy that is compiled: without the root's identity, so that no two schemas can collide; with a counted step at
 * each reference; and without patterns that would need a backtracking engine.
 */
function ownCopy(schema: SchemaNode, unenforced: string[]): SchemaNode {
  const { $id: _id, $schema: _dialect, ...rest } = schema
  return copyNode(rest, unenforced)
}

function copyNode(schema: SchemaNode, unenforced: string[]): SchemaNode {
  const copy: Record<string, JsonValue> = { ...mapSubschemas(schema, (part) => copyNode(part.schema, unenforced)) }
  const pattern = copy['pattern']
  if (typeof pattern === 'string' && linearPattern(pattern) === null) {
    unenforced.push(pattern)
    delete copy['pattern']
  }
  if (typeof copy['$ref'] === 'string') copy[STEP_KEYWORD] = true
  return copy
}

const metaEngines = new Map<SchemaDialect, Ajv>()

/**
 * What the meta schema of the dialect says; compiling it takes 20 ms, so one engine per dialect does it for all.
 * Formats are left out: its one format that matters, `regex`, was checked on admission, against the engine that runs.
 */
function metaProblem(schema: JsonObject): string | null {
  const dialect = schemaDialect(schema) ?? '2020-12'
  let engine = metaEngines.get(dialect)
  if (engine === undefined) {
    engine = new ENGINES[dialect]({ ...OPTIONS, validateFormats: false })
    metaEngines.set(dialect, engine)
  }
  const { $schema: _dialect, ...rest } = schema
  if (engine.validateSchema(rest) === true) return null
  return `not valid JSON Schema: ${describeSchemaErrors(engine.errors ?? [])}`
}
