import { isJsonObject, own } from './json.ts'
import type { JsonObject, JsonValue } from './json.ts'

/** A schema is an object or a boolean; a boolean has no parts and is never walked into. */
export type SchemaNode = JsonObject

/** `here`: applies to the same instance; `below`: to a part of it; `named`: only where a reference leads to it. */
type Placement = 'here' | 'below' | 'named'

export interface Subschema {
  readonly schema: SchemaNode
  readonly placement: Placement
  readonly path: readonly string[]
}

const SINGLE: Readonly<Record<string, Placement>> = {
  not: 'here',
  if: 'here',
  // oxlint-disable-next-line unicorn/no-thenable -- the name of a JSON Schema keyword, in a table
  then: 'here',
  else: 'here',
  items: 'below',
  additionalItems: 'below',
  unevaluatedItems: 'below',
  contains: 'below',
  additionalProperties: 'below',
  unevaluatedProperties: 'below',
  propertyNames: 'below',
  contentSchema: 'named',
}

const LISTS: Readonly<Record<string, Placement>> = {
  allOf: 'here',
  anyOf: 'here',
  oneOf: 'here',
  prefixItems: 'below',
  items: 'below',
}

const MAPS: Readonly<Record<string, Placement>> = {
  properties: 'below',
  patternProperties: 'below',
  dependentSchemas: 'here',
  dependencies: 'here',
  $defs: 'named',
  definitions: 'named',
}

/** The parts of a schema that are schemas themselves. Values of `const`, `enum`, `default` and `examples` are data. */
export function subschemas(schema: SchemaNode): Subschema[] {
  const found: Subschema[] = []
  mapSubschemas(schema, (part) => {
    found.push(part)
    return part.schema
  })
  return found
}

/** Copies one level of a schema with each part that is a schema replaced by what `change` makes of it. */
export function mapSubschemas(schema: SchemaNode, change: (part: Subschema) => JsonValue): SchemaNode {
  const copy = Object.entries(schema).map(([keyword, value]): [string, JsonValue] => [
    keyword,
    mapKeyword(keyword, value, change),
  ])
  return Object.fromEntries(copy)
}

function mapKeyword(keyword: string, value: JsonValue, change: (part: Subschema) => JsonValue): JsonValue {
  const mapped = (child: JsonValue, placement: Placement, path: readonly string[]): JsonValue =>
    isJsonObject(child) ? change({ schema: child, placement, path }) : child
  const list = own(LISTS, keyword)
  if (Array.isArray(value)) {
    if (list === undefined) return value
    return value.map((child: JsonValue, index) => mapped(child, list, [keyword, String(index)]))
  }
  if (!isJsonObject(value)) return value
  const single = own(SINGLE, keyword)
  if (single !== undefined) return mapped(value, single, [keyword])
  const map = own(MAPS, keyword)
  if (map === undefined) return value
  const entries = Object.entries(value).map(([name, child]): [string, JsonValue] => [
    name,
    mapped(child, map, [keyword, name]),
  ])
  return Object.fromEntries(entries)
}

/**
 * The schema that a local reference (`#`, `#/…`) names; undefined when it leads nowhere, or to a place that holds data.
 */
export function resolveLocalRef(root: SchemaNode, ref: string): SchemaNode | boolean | undefined {
  if (ref === '#') return root
  if (!ref.startsWith('#/')) return undefined
  let node: SchemaNode = root
  let rest = pointerSegments(ref.slice(2))
  while (rest !== null && rest.length > 0) {
    const step = stepInto(node, rest)
    if (step === undefined) return undefined
    if (typeof step.schema === 'boolean') return step.used === rest.length ? step.schema : undefined
    node = step.schema
    rest = rest.slice(step.used)
  }
  return rest === null ? undefined : node
}

function stepInto(
  node: SchemaNode,
  [keyword = '', name]: readonly string[],
): { readonly schema: SchemaNode | boolean; readonly used: number } | undefined {
  const value = own(node, keyword)
  if (own(SINGLE, keyword) !== undefined && isSchema(value)) return { schema: value, used: 1 }
  if (name === undefined) return undefined
  if (own(LISTS, keyword) !== undefined && Array.isArray(value)) {
    const child: JsonValue | undefined = /^(0|[1-9]\d{0,5})$/.test(name) ? value[Number(name)] : undefined
    return isSchema(child) ? { schema: child, used: 2 } : undefined
  }
  if (own(MAPS, keyword) === undefined || !isJsonObject(value)) return undefined
  const child = own(value, name)
  return isSchema(child) ? { schema: child, used: 2 } : undefined
}

function isSchema(value: JsonValue | undefined): value is SchemaNode | boolean {
  return typeof value === 'boolean' || isJsonObject(value)
}

/** A fragment is decoded before it is a pointer (RFC 6901, section 6), so an encoded slash separates like any other. */
function pointerSegments(fragment: string): string[] | null {
  try {
    const parts = decodeURIComponent(fragment).split('/')
    return parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
  } catch {
    return null
  }
}
