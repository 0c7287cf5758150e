import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import type { JsonObject, JsonValue } from '../src/tools/json.ts'
import { compileSchema, schemaProblems, SchemaRefusedError } from '../src/tools/schema.ts'
import { SUITE_EXCEPTIONS, type SuiteDialect } from './json-schema-suite-exceptions.ts'

interface SuiteGroup {
  readonly description: string
  readonly schema: JsonValue
  readonly tests: readonly { readonly description: string; readonly data: JsonValue; readonly valid: boolean }[]
}

interface Suite {
  readonly dialect: SuiteDialect
  readonly folder: string
  /** What `$schema` says. */
  readonly declared: string
  /** Required cases there are at the very least; fewer were not read. */
  readonly atLeast: number
}

const DIALECTS: readonly Suite[] = [
  {
    dialect: '2020-12',
    folder: 'draft2020-12',
    declared: 'https://json-schema.org/draft/2020-12/schema',
    atLeast: 1200,
  },
  { dialect: 'draft-07', folder: 'draft7', declared: 'http://json-schema.org/draft-07/schema#', atLeast: 900 },
]

/** Optional files that are met in full: patterns mean what ECMA-262 says. */
const PATTERN_FILES = ['optional/ecmascript-regex', 'optional/non-bmp-regex']

const given = process.env['JSON_SCHEMA_TEST_SUITE']
const folder = given ?? besideTheProject()

const present = folder !== null

/** A checkout of the suite next to the project, or among the fixtures of a folder that stands next to it. */
function besideTheProject(): string | null {
  const parent = fileURLToPath(new URL('../..', import.meta.url))
  const places = readdirSync(parent, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => [`${parent}${name}`, `${parent}${name}/fixtures/json-schema-test-suite`])
  return places.find((place) => /json-schema-test-suite$/i.test(place) && existsSync(`${place}/tests`)) ?? null
}

test('the JSON Schema Test Suite is compared with where it is present', ({ skip }) => {
  skip(!present, 'the suite is not present, so nothing was compared')
  expect(existsSync(`${folder}/tests`)).toBe(true)
})

describe.each(present ? DIALECTS : [])('the JSON Schema Test Suite for $dialect', (suite) => {
  const { dialect, folder: name, declared, atLeast } = suite
  const required = readdirSync(`${folder}/tests/${name}`)
    .filter((file) => file.endsWith('.json'))
    .map((file) => file.slice(0, -'.json'.length))
  const read = (file: string): readonly SuiteGroup[] =>
    JSON.parse(readFileSync(`${folder}/tests/${name}/${file}.json`, 'utf8')) as SuiteGroup[]
  const declaring = (group: SuiteGroup): SuiteGroup =>
    typeof group.schema === 'object'
      ? { ...group, schema: { $schema: declared, ...(group.schema as JsonObject) } }
      : group

  test.each([...required, ...PATTERN_FILES])('%s', (file) => {
    const unexpected = read(file)
      .map(declaring)
      .flatMap(answersOf)
      .filter((answer) => answer.surprise !== null)
    expect(unexpected.map(({ name: shown, surprise }) => `${shown}: ${surprise}`).toSorted()).toEqual(
      expectedSurprises(dialect, file),
    )
  })

  test('the whole of it was read', () => {
    const cases = required.flatMap(read).flatMap((group) => group.tests)
    expect(cases.length).toBeGreaterThan(atLeast)
    const listed = SUITE_EXCEPTIONS.flatMap((exception) => Object.keys(exception.cases[dialect] ?? {}))
    expect(listed.filter((file) => !required.includes(file))).toEqual([])
  })

  test('properties named like members of every object are read as any other', () => {
    const groups = required
      .flatMap(read)
      .filter((group) => group.description.includes('Javascript object property names'))
    const answers = groups.map(declaring).flatMap(answersOf)
    expect(answers.length).toBeGreaterThan(groups.length)
    expect(groups.map((group) => group.schema).length).toBe(2)
    expect(answers.filter((answer) => answer.surprise !== null)).toEqual([])
  })
})

interface Answer {
  readonly name: string
  /** Null for an answer as the suite expects it. */
  readonly surprise: string | null
}

/** One answer a case; one for the whole group when its schema is refused. */
function answersOf({ description, schema, tests }: SuiteGroup): Answer[] {
  const problems = refusal(schema as JsonObject)
  if (problems !== null) return [{ name: description, surprise: categoryOf(problems) }]
  const validator = compileSchema(schema as JsonObject)
  return tests.map((one) => {
    const { kind } = validator.validate(one.data)
    return { name: `${description}: ${one.description}`, surprise: (kind === 'valid') === one.valid ? null : kind }
  })
}

/** Checked by both doors: registration, which asks for problems, and use, which compiles. */
function refusal(schema: JsonObject): string | null {
  const problems = schemaProblems(schema, 'output')
  try {
    compileSchema(schema)
    return problems.length === 0 ? null : problems.join('; ')
  } catch (error) {
    if (error instanceof SchemaRefusedError && problems.length > 0) return problems.join('; ')
    throw error
  }
}

/** The first category whose refusal this is: a schema can be refused for more than one reason. */
function categoryOf(problems: string): string {
  const category = CATEGORIES.find(({ problem }) => problem?.test(problems) === true)
  return category?.reason ?? problems
}

const CATEGORIES = SUITE_EXCEPTIONS.toSorted((a, b) => rank(a.problem) - rank(b.problem))

/** A reference that leads nowhere often does so because of an identity or an anchor beside it. */
function rank(problem: RegExp | null): number {
  const order = ['dynamicRef', 'nested', 'contains', 'does not lead']
  return order.findIndex((word) => problem?.source.includes(word) === true)
}

function expectedSurprises(dialect: SuiteDialect, file: string): string[] {
  return SUITE_EXCEPTIONS.flatMap(({ reason, problem, cases }) =>
    (cases[dialect]?.[file] ?? []).map((name) => `${name}: ${problem === null ? 'invalid' : reason}`),
  ).toSorted()
}
