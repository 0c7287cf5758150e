import { _, Ajv } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { Options, ValidateFunction } from 'ajv'
import addFormats from 'ajv-formats'
import type { JsonObject } from './json.ts'
import type { SchemaDialect } from './schema-admission.ts'
import { replaceKeywords } from './schema-keywords.ts'
import { describeSchemaErrors } from './schema-messages.ts'
import { linearPattern } from './schema-regexp.ts'
import { replaceUnevaluated } from './schema-unevaluated.ts'

/** Marks a place where the work of a validation is counted. */
export const STEP_KEYWORD = 'x-bailiff-step'

const ENGINES = { '2020-12': Ajv2020, '2019-09': Ajv2019, 'draft-07': Ajv } as const satisfies Record<
  SchemaDialect,
  unknown
>

/**
 * `ownProperties`: otherwise `required: ["toString"]` is satisfied by any object. `inlineRefs` off: a chain of doubled
 * references would be compiled into twice the code at every link.
 */
const OPTIONS = { strict: false, logger: false, ownProperties: true, inlineRefs: false } as const satisfies Options

export interface Compilation {
  readonly dialect: SchemaDialect
  /** Whether a part of the schema asks what others have evaluated. */
  readonly accounts: boolean
  /** Counts work; throws to end a validation that has done too much. */
  readonly step: (cost: number) => void
}

/**
 * Compiles a copy made for it, each in an engine of its own, so that no two schemas can meet.
 *
 * @throws Error in the library's words
 */
export function compileWith(schema: JsonObject, { dialect, accounts, step }: Compilation): ValidateFunction {
  const regExp = (pattern: string): PatternTest => steppedPattern(pattern, step)
  // The text under which the library would write the engine into stand-alone code; this project never emits any.
  const engine = Object.assign(regExp, { code: 'linearPattern' })
  // Its optimizer looks at every node once for each node around it: ten seconds for a list of 1,900 alternatives.
  const code = { regExp: engine, optimize: false } as const
  const ajv = new ENGINES[dialect]({ ...OPTIONS, meta: false, validateSchema: false, code })
  // The newer dialects keep the account unless told otherwise, and stumble over it where an `anyOf` left none.
  ajv.opts.unevaluated = accounts
  // Without the package's own keywords (`formatMinimum`), which no dialect has.
  addFormats.default(ajv, { keywords: false })
  ajv.addFormat('url', isShortUrl)
  ajv.addKeyword({
    keyword: STEP_KEYWORD,
    before: '$ref',
    schemaType: 'boolean',
    code: ({ gen }) => void gen.code(_`${gen.scopeValue('func', { ref: step, code: _`step` })}(1)`),
  })
  replaceKeywords(ajv, step)
  if (accounts) replaceUnevaluated(ajv)
  return ajv.compile(schema)
}

/** The package's own `url` expression backtracks: 33 s on 250 kB of colons. Every other format answers in milliseconds. */
function isShortUrl(text: string): boolean {
  return text.length <= 8192 && URL.canParse(text)
}

interface PatternTest {
  test(text: string): boolean
  toString(): string
}

/** Instructions times characters that take as long as one step: 8 ns each against half a microsecond. */
const MATCH_STEPS_PER_STEP = 64

function steppedPattern(pattern: string, step: (cost: number) => void): PatternTest {
  const matcher = linearPattern(pattern)
  if (matcher === null) throw new Error(`pattern ${pattern.slice(0, 100)} is not a linear-time pattern`)
  const test = (text: string): boolean => {
    step(1 + Math.ceil((text.length * matcher.size) / MATCH_STEPS_PER_STEP))
    return matcher.test(text)
  }
  return { test, toString: () => matcher.toString() }
}

const metaEngines = new Map<SchemaDialect, Ajv>()

/**
 * What the meta schema of the dialect says; compiling it takes 20 ms, so one engine per dialect does it for all.
 * Formats are left out: its one format that matters, `regex`, was checked on admission, against the engine that runs.
 */
export function metaProblem(schema: JsonObject, dialect: SchemaDialect): string | null {
  let engine = metaEngines.get(dialect)
  if (engine === undefined) {
    engine = new ENGINES[dialect]({ ...OPTIONS, validateFormats: false })
    metaEngines.set(dialect, engine)
  }
  const { $schema: _dialect, ...rest } = schema
  if (engine.validateSchema(rest) === true) return null
  return `not valid JSON Schema: ${describeSchemaErrors(engine.errors ?? [])}`
}
