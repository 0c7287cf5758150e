import { isJsonObject, own } from './json.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { isEcmaPattern, linearPattern, patternSize } from './schema-regexp.ts'
import { resolveLocalRef, subschemas } from './schema-walk.ts'
import type { SchemaNode, Subschema } from './schema-walk.ts'

/** Limits of a schema that may be compiled. The largest published tool schemas seen are 15 kB and 24 levels deep. */
export const SCHEMA_LIMITS = {
  bytes: 128 * 1024,
  depth: 64,
  subschemas: 2000,
  references: 64,
  enumValues: 2000,
  expansion: 10_000,
  patternSize: 50_000,
  alternatives: 500,
} as const

export type SchemaDialect = '2020-12' | '2019-09' | 'draft-07'

/** Input schemas describe named arguments, so their root is an object; an output may be any JSON. */
export type SchemaRole = 'input' | 'output'

const DIALECTS: Readonly<Record<string, SchemaDialect>> = {
  'https://json-schema.org/draft/2020-12/schema': '2020-12',
  'https://json-schema.org/draft/2019-09/schema': '2019-09',
  'http://json-schema.org/draft-07/schema': 'draft-07',
  'http://json-schema.org/draft-06/schema': 'draft-07',
}

/** The dialect a schema declares, 2020-12 when it declares none; null for one that is not supported. */
export function schemaDialect(schema: JsonObject): SchemaDialect | null {
  const declared = own(schema, '$schema')
  if (declared === undefined) return '2020-12'
  if (typeof declared !== 'string') return null
  return own(DIALECTS, declared.replace(/#$/, '')) ?? null
}

/**
 * Structural limits, checked before any compiler sees the schema: a published schema may be hostile, and a compiler or
 * a validator given one can run without end. Pure; answers every problem found, an empty list when the schema may be
 * compiled.
 */
export function admitSchema(schema: JsonValue, role: SchemaRole): string[] {
  if (!isJsonObject(schema)) return ['a schema must be a JSON object']
  const oversize = sizeProblem(schema)
  if (oversize !== null) return [oversize]
  const parts = collectParts(schema)
  if (parts === null) return [`more than ${SCHEMA_LIMITS.subschemas} subschemas`]
  if (patternsSize(parts) > SCHEMA_LIMITS.patternSize) return ['its patterns are too large together']
  const problems = [
    ...rootProblems(schema, role),
    ...evaluationProblem(schema, parts),
    ...parts.flatMap((part) => partProblems(part, { root: schema, role })),
  ]
  const references = parts.filter(({ schema: node }) => typeof node['$ref'] === 'string').length
  if (references > SCHEMA_LIMITS.references)
    problems.push(`${references} references, at most ${SCHEMA_LIMITS.references}`)
  return problems.length > 0 ? problems : compositionProblems(schema, parts)
}

function rootProblems(schema: SchemaNode, role: SchemaRole): string[] {
  const problems: string[] = []
  if (schemaDialect(schema) === null)
    problems.push('$schema names a dialect that is not supported; use 2020-12 or draft-07')
  if (role === 'input' && own(schema, 'type') !== 'object')
    problems.push('the root of an input schema must have type "object"')
  return problems
}

/** Bytes are counted as UTF-16 units of keys and strings plus one for each other token: close enough for a limit. */
function sizeProblem(schema: JsonObject): string | null {
  let size = 0
  const queue: { value: JsonValue; depth: number }[] = [{ value: schema, depth: 1 }]
  for (let entry = queue.pop(); entry !== undefined; entry = queue.pop()) {
    const { value, depth } = entry
    if (depth > SCHEMA_LIMITS.depth) return `nested deeper than ${SCHEMA_LIMITS.depth} levels`
    size += typeof value === 'string' ? value.length + 2 : 2
    if (typeof value === 'string' && !value.isWellFormed()) return 'text with a lone surrogate'
    if (typeof value === 'object' && value !== null) {
      for (const [key, child] of Object.entries(value)) {
        if (!key.isWellFormed()) return 'a key with a lone surrogate'
        size += Array.isArray(value) ? 1 : key.length + 3
        queue.push({ value: child, depth: depth + 1 })
      }
    }
    if (size > SCHEMA_LIMITS.bytes) return `larger than ${SCHEMA_LIMITS.bytes / 1024} kB`
  }
  return null
}

interface Part {
  readonly schema: SchemaNode
  readonly path: readonly string[]
}

function collectParts(root: SchemaNode): Part[] | null {
  const parts: Part[] = [{ schema: root, path: [] }]
  for (let index = 0; index < parts.length; index++) {
    const part = parts[index]
    if (part === undefined || parts.length > SCHEMA_LIMITS.subschemas) return null
    for (const child of subschemas(part.schema)) {
      parts.push({ schema: child.schema, path: [...part.path, ...child.path] })
    }
  }
  return parts
}

/** What it would take to compile all patterns, known before any is compiled: a page of `{1,1000}` takes seconds. */
function patternsSize(parts: readonly Part[]): number {
  return parts.flatMap((part) => patternsOf(part.schema)).reduce((sum, pattern) => sum + patternSize(pattern), 0)
}

/** The library counts evaluated items from the front, and cannot say which ones a `contains` has picked. */
function evaluationProblem(root: SchemaNode, parts: readonly Part[]): string[] {
  const uses = (keyword: string): boolean => parts.some((part) => Object.hasOwn(part.schema, keyword))
  if (schemaDialect(root) === 'draft-07' || !uses('unevaluatedItems') || !uses('contains')) return []
  return ['unevaluatedItems and contains in one schema are refused']
}

function patternsOf(schema: SchemaNode): string[] {
  const [pattern, patterns] = [own(schema, 'pattern'), own(schema, 'patternProperties')]
  return [...(typeof pattern === 'string' ? [pattern] : []), ...(isJsonObject(patterns) ? Object.keys(patterns) : [])]
}

/** Keywords that nest one check inside of the next; a compiler of code goes only so deep. */
const LISTED = 'anyOf oneOf allOf items prefixItems patternProperties dependentSchemas dependencies'.split(' ')

function membersOf(value: JsonValue | undefined): number {
  if (Array.isArray(value)) return value.length
  return isJsonObject(value) ? Object.keys(value).length : 0
}

interface Surroundings {
  readonly root: SchemaNode
  readonly role: SchemaRole
}

function partProblems({ schema, path }: Part, { root, role }: Surroundings): string[] {
  const problems: string[] = []
  const report = (problem: string): void => void problems.push(`${pointer(path)}: ${problem}`)
  if (path.length > 0 && typeof own(schema, '$id') === 'string') report('a nested $id is refused')
  for (const dynamic of ['$dynamicRef', '$recursiveRef']) {
    if (Object.hasOwn(schema, dynamic)) report(`${dynamic} is refused`)
  }
  const ref = own(schema, '$ref')
  if (typeof ref === 'string' && resolveLocalRef(root, ref) === undefined) {
    report(`$ref ${clip(ref)} does not lead to a schema of this document`)
  }
  const values = own(schema, 'enum')
  if (Array.isArray(values) && values.length > SCHEMA_LIMITS.enumValues) {
    report(`${values.length} enum values, at most ${SCHEMA_LIMITS.enumValues}`)
  }
  for (const keyword of LISTED) {
    const members = membersOf(own(schema, keyword))
    const most = SCHEMA_LIMITS.alternatives
    if (members > most) report(`${members} members of ${keyword}, at most ${most}`)
  }
  const properties = own(schema, 'properties')
  if (role === 'input' && isJsonObject(properties) && Object.hasOwn(properties, '__proto__'))
    report('an argument named __proto__ is refused')
  const pattern = own(schema, 'pattern')
  if (typeof pattern === 'string' && linearPattern(pattern) === null && !isEcmaPattern(pattern)) {
    report(`pattern ${clip(pattern)} is not a regular expression`)
  }
  const patterns = own(schema, 'patternProperties')
  for (const pattern of isJsonObject(patterns) ? Object.keys(patterns) : []) {
    if (linearPattern(pattern) === null) report(`patternProperties ${clip(pattern)} is not a linear-time pattern`)
  }
  return problems
}

/** What applies to the same place of an instance, and how often: cycles there never end, and products explode. */
function compositionProblems(root: SchemaNode, parts: readonly Part[]): string[] {
  const edges = new Map(parts.map(({ schema }) => [schema, edgesOf(schema, root)]))
  const looping = parts.find(({ schema }) => reachesItself(schema, edges))
  if (looping !== undefined)
    return [`${pointer(looping.path)}: a reference cycle that consumes no part of the instance`]
  const cost = expansion(root, { edges, known: new Map(), open: new Set() })
  return cost > SCHEMA_LIMITS.expansion ? [`composition expands to more than ${SCHEMA_LIMITS.expansion} schemas`] : []
}

interface Edges {
  readonly here: readonly SchemaNode[]
  readonly below: readonly SchemaNode[]
}

function edgesOf(schema: SchemaNode, root: SchemaNode): Edges {
  const parts: readonly Subschema[] = subschemas(schema)
  const ref = own(schema, '$ref')
  const target = typeof ref === 'string' ? resolveLocalRef(root, ref) : undefined
  const here = parts.filter((part) => part.placement === 'here').map((part) => part.schema)
  const below = parts.filter((part) => part.placement === 'below').map((part) => part.schema)
  return { here: isJsonObject(target) ? [...here, target] : here, below }
}

function reachesItself(start: SchemaNode, edges: ReadonlyMap<SchemaNode, Edges>): boolean {
  const seen = new Set<SchemaNode>()
  const queue = [...(edges.get(start)?.here ?? [])]
  for (let node = queue.pop(); node !== undefined; node = queue.pop()) {
    if (node === start) return true
    if (seen.has(node)) continue
    seen.add(node)
    queue.push(...(edges.get(node)?.here ?? []))
  }
  return false
}

interface ExpansionWalk {
  readonly edges: ReadonlyMap<SchemaNode, Edges>
  readonly known: Map<SchemaNode, number>
  readonly open: Set<SchemaNode>
}

/** Schemas applied along the costliest path into an instance; a recursive step counts once. */
function expansion(node: SchemaNode, walk: ExpansionWalk): number {
  const known = walk.known.get(node)
  if (known !== undefined) return known
  if (walk.open.has(node)) return 1
  walk.open.add(node)
  const { here, below } = walk.edges.get(node) ?? { here: [], below: [] }
  const beside = here.reduce((sum, child) => sum + expansion(child, walk), 0)
  const deepest = below.reduce((most, child) => Math.max(most, expansion(child, walk)), 0)
  walk.open.delete(node)
  const cost = Math.min(1 + beside + deepest, Number.MAX_SAFE_INTEGER)
  walk.known.set(node, cost)
  return cost
}

function pointer(path: readonly string[]): string {
  return clip(`#${path.map((part) => `/${part}`).join('')}`)
}

function clip(text: string): string {
  return text.length > 120 ? `${text.slice(0, 117)}...` : text
}
