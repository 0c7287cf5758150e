import { isJsonObject, own } from './json.ts'
import type { JsonValue } from './json.ts'
import type { SchemaDialect } from './schema-admission.ts'
import { STEP_KEYWORD } from './schema-engine.ts'
import { linearPattern } from './schema-regexp.ts'
import { mapSubschemas, resolveLocalRef, subschemas } from './schema-walk.ts'
import type { SchemaNode, Subschema } from './schema-walk.ts'

export interface CompilableCopy {
  readonly schema: SchemaNode
  /** Patterns left out because they would need an engine that backtracks. */
  readonly unenforced: readonly string[]
  /** Whether any part asks what others have evaluated; otherwise the library need not keep account of it. */
  readonly accounts: boolean
}

/** Members that mean something to the library and nothing to JSON Schema; `$async` would turn every verdict into a promise. */
const FOREIGN: ReadonlySet<string> = new Set(['$async', 'id', STEP_KEYWORD])

/** Members of which the copy needs nothing: identities are gone, and what a reference leads to is placed anew. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  '$id',
  '$schema',
  '$anchor',
  '$dynamicAnchor',
  '$recursiveAnchor',
  '$defs',
  'definitions',
  'contentSchema',
])

/** Parts that apply as often as the value has items or fields. */
const REPEATED: ReadonlySet<string> = new Set([
  'items',
  'additionalItems',
  'contains',
  'unevaluatedItems',
  'additionalProperties',
  'patternProperties',
  'propertyNames',
  'unevaluatedProperties',
])

/**
 * The copy of an admitted schema that is compiled. It says the same in a form the library reads correctly: without an
 * identity, so that no two schemas can meet; with every reference resolved here and written anew; with a counted step
 * wherever work can multiply; without patterns that need an engine that backtracks.
 */
export function compilableCopy(schema: SchemaNode, dialect: SchemaDialect): CompilableCopy {
  const { apart, accounts } = partsApart(schema, dialect)
  const walk: Walk = { root: schema, dialect, apart, accounts, names: new Map(), unenforced: [] }
  const copy: Record<string, JsonValue> = { ...copyNode(schema, walk) }
  const placed: [string, JsonValue][] = []
  // A part placed apart can name further ones; a map goes on over what is added while it is read.
  for (const [part, name] of walk.names) placed.push([name, isJsonObject(part) ? copyNode(part, walk) : part])
  if (placed.length > 0) copy['$defs'] = Object.fromEntries(placed)
  return { schema: copy, unenforced: walk.unenforced, accounts }
}

interface Walk {
  readonly root: SchemaNode
  readonly dialect: SchemaDialect
  readonly apart: ReadonlySet<SchemaNode | boolean>
  readonly accounts: boolean
  /** Where each part that stands apart is placed, in the order in which they were met. */
  readonly names: Map<SchemaNode | boolean, string>
  readonly unenforced: string[]
}

/**
 * Parts that become a function of their own. First, what references lead to. Then, where a part asks what others have
 * evaluated, that part and everything that may fail without failing the whole: the library keeps the account in
 * variables that a failed alternative has already written to, and that a loop does not reset, so that the first item of
 * a list would speak for the second.
 */
function partsApart(root: SchemaNode, dialect: SchemaDialect): Pick<Walk, 'apart' | 'accounts'> {
  const parts: Pick<Subschema, 'schema' | 'placement'>[] = [{ schema: root, placement: 'named' }]
  for (const part of parts) parts.push(...subschemas(part.schema))
  const targets = parts.map(({ schema }) => targetOf(schema, root)).filter((target) => target !== undefined)
  const large = partsTooLarge(root)
  const asking = dialect === 'draft-07' ? [] : parts.filter((part) => asksForEvaluated(part.schema))
  const accounts = asking.length > 0
  const optional = accounts ? parts.filter((part) => part.placement === 'here') : []
  const apart = [...targets, ...large, ...[...asking, ...optional].map((part) => part.schema)]
  return { apart: new Set(apart), accounts }
}

/** Schemas that are compiled into one function. Each nests what follows it, and an engine parses only so deep. */
const MAX_INLINE = 100

/** Parts with so many schemas inside that they are better functions of their own. */
function partsTooLarge(root: SchemaNode): SchemaNode[] {
  const large: SchemaNode[] = []
  const weigh = (node: SchemaNode): number => {
    const weight = subschemas(node).reduce((sum, part) => sum + weigh(part.schema), 1)
    if (weight <= MAX_INLINE) return weight
    large.push(node)
    return 1
  }
  weigh(root)
  return large
}

function targetOf(node: SchemaNode, root: SchemaNode): SchemaNode | boolean | undefined {
  const ref = own(node, '$ref')
  return typeof ref === 'string' ? resolveLocalRef(root, ref) : undefined
}

function asksForEvaluated(node: SchemaNode): boolean {
  return Object.hasOwn(node, 'unevaluatedItems') || Object.hasOwn(node, 'unevaluatedProperties')
}

function copyNode(schema: SchemaNode, walk: Walk): SchemaNode {
  const target = targetOf(schema, walk.root)
  // Up to draft-07 nothing beside a reference counts.
  if (target !== undefined && walk.dialect === 'draft-07') return refTo(target, walk)
  const kept = Object.entries(schema).filter(([name]) => !FOREIGN.has(name) && !LEFT_OUT.has(name))
  const copy: Record<string, JsonValue> = {
    ...mapSubschemas(Object.fromEntries(kept), (part) => placePart(part, walk)),
    ...(target === undefined ? {} : refTo(target, walk)),
  }
  // OpenAPI's way to say "or null"; the library refuses a schema that has no type it could widen.
  if (typeof copy['nullable'] !== 'boolean' || copy['type'] === undefined) delete copy['nullable']
  dropPattern(copy, walk)
  renameProto(copy)
  const grouped = groupFields(copy)
  return walk.accounts && copy['patternProperties'] !== undefined ? fieldsApart(grouped) : grouped
}

/** Fields by the hundred; the names stay, for what applies to all others. */
function groupFields(copy: SchemaNode): SchemaNode {
  const properties = own(copy, 'properties')
  const fields = isJsonObject(properties) ? Object.entries(properties) : []
  if (fields.length <= MAX_INLINE) return copy
  const groups = Array.from({ length: Math.ceil(fields.length / MAX_INLINE) }, (_, index) => ({
    properties: Object.fromEntries(fields.slice(index * MAX_INLINE, (index + 1) * MAX_INLINE)),
  }))
  const names = Object.fromEntries(fields.map(([name]) => [name, true]))
  return { ...copy, properties: names, allOf: [...groups, ...listOf(copy, 'allOf')] }
}

function listOf(node: SchemaNode, keyword: string): readonly JsonValue[] {
  const list = own(node, keyword)
  return Array.isArray(list) ? list : []
}

const FIELD_KEYWORDS: ReadonlySet<string> = new Set(['properties', 'patternProperties', 'additionalProperties'])

/** The library writes what a pattern evaluated into an account that an `anyOf` beside it may not have opened. */
function fieldsApart(copy: SchemaNode): SchemaNode {
  const entries = Object.entries(copy)
  const fields = Object.fromEntries(entries.filter(([keyword]) => FIELD_KEYWORDS.has(keyword)))
  const rest = Object.fromEntries(entries.filter(([keyword]) => !FIELD_KEYWORDS.has(keyword)))
  return { ...rest, allOf: [...listOf(rest, 'allOf'), fields] }
}

function refTo(target: SchemaNode | boolean, walk: Walk): SchemaNode {
  if (target === walk.root) return { $ref: '#', [STEP_KEYWORD]: true }
  const name = walk.names.get(target) ?? `part${walk.names.size}`
  walk.names.set(target, name)
  return { $ref: `#/$defs/${name}`, [STEP_KEYWORD]: true }
}

/** A part that holds nothing stays so: the library skips it. */
function placePart({ schema, placement, path }: Subschema, walk: Walk): SchemaNode {
  if (walk.apart.has(schema)) return refTo(schema, walk)
  const copy = copyNode(schema, walk)
  const multiplies = placement === 'here' || REPEATED.has(path[0] ?? '')
  return multiplies && Object.keys(copy).length > 0 ? { ...copy, [STEP_KEYWORD]: true } : copy
}

function dropPattern(copy: Record<string, JsonValue>, walk: Walk): void {
  const pattern = copy['pattern']
  if (typeof pattern !== 'string' || linearPattern(pattern) !== null) return
  walk.unenforced.push(pattern)
  delete copy['pattern']
}

/** The library passes over names and patterns spelled `__proto__`; the same in other words it does not. */
function renameProto(copy: Record<string, JsonValue>): void {
  const [properties, patterns] = [copy['properties'], copy['patternProperties']]
  const named = isJsonObject(properties) ? own(properties, '__proto__') : undefined
  const matched = isJsonObject(patterns) ? own(patterns, '__proto__') : undefined
  if (named === undefined && matched === undefined) return
  if (isJsonObject(properties)) copy['properties'] = without(properties, '__proto__')
  copy['patternProperties'] = {
    ...(isJsonObject(patterns) ? without(patterns, '__proto__') : {}),
    ...(named === undefined ? {} : { '^(?:__proto__)$': named }),
    ...(matched === undefined ? {} : { '(?:__proto__)': matched }),
  }
}

function without(record: SchemaNode, name: string): SchemaNode {
  return Object.fromEntries(Object.entries(record).filter(([key]) => key !== name))
}
