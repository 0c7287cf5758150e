import { isJsonObject, own, type JsonObject, type JsonValue } from '../../tools/json.ts'
import { mapSubschemas } from '../../tools/schema-walk.ts'

/** What providers accept beside `type` and `properties` at the root of a tool's parameters. */
const ROOT_KEYWORDS: ReadonlySet<string> = new Set([
  'description',
  'properties',
  'patternProperties',
  'required',
  'additionalProperties',
  '$defs',
  'definitions',
])

/** Branches of branches, and references to references, that are followed before the rest is left to the invoker. */
const MAX_DEPTH = 8

/**
 * The schema a provider is shown. OpenAI and Anthropic refuse parameters whose root is not an object, or that combine
 * alternatives at the root, and a dialect URI helps nobody. The result may be wider than the contract, never narrower:
 * the invoker validates the arguments against the frozen schema itself.
 */
export function providerSchema(frozen: JsonObject): JsonObject {
  const plain = withoutPatterns(frozen)
  const { properties, required } = shapeOf(plain, { root: plain, depth: 0 })
  const kept = Object.entries(plain).filter(([keyword]) => ROOT_KEYWORDS.has(keyword))
  return {
    ...Object.fromEntries(kept),
    type: 'object',
    // A property may be named `__proto__`; fromEntries defines it as an own property.
    properties: Object.fromEntries([...properties].map(([name, variants]) => [name, either(variants)])),
    ...(required.size > 0 ? { required: [...required] } : {}),
  }
}

/** Every provider runs another dialect of regular expressions, and refuses the whole request over one it cannot read. */
function withoutPatterns({ pattern: _, ...schema }: JsonObject): JsonObject {
  return mapSubschemas(schema, (part) => withoutPatterns(part.schema))
}

interface Shape {
  /** The distinct descriptions of each property: branches may disagree, as they do about a discriminator. */
  readonly properties: Map<string, readonly JsonValue[]>
  readonly required: Set<string>
}

interface Position {
  readonly root: JsonObject
  readonly depth: number
}

function shapeOf(schema: JsonObject, position: Position): Shape {
  const shape: Shape = { properties: new Map(), required: new Set(strings(schema['required'])) }
  if (position.depth > MAX_DEPTH) return shape
  const deeper: Position = { root: position.root, depth: position.depth + 1 }
  if (isJsonObject(schema['properties'])) {
    for (const [name, property] of Object.entries(schema['properties'])) addVariants(shape, name, [property])
  }
  const target = localReference(schema, position.root)
  const parts = [...(target === null ? [] : [target]), ...objects(schema['allOf'])]
  for (const part of parts) include(shape, shapeOf(part, deeper))
  for (const alternatives of [objects(schema['anyOf']), objects(schema['oneOf'])]) {
    includeAlternatives(
      shape,
      alternatives.map((branch) => shapeOf(branch, deeper)),
    )
  }
  return shape
}

function include(shape: Shape, part: Shape): void {
  for (const [name, variants] of part.properties) addVariants(shape, name, variants)
  for (const name of part.required) shape.required.add(name)
}

/** Only what every alternative requires is required. */
function includeAlternatives(shape: Shape, branches: readonly Shape[]): void {
  for (const branch of branches) {
    for (const [name, variants] of branch.properties) addVariants(shape, name, variants)
  }
  const [first, ...others] = branches
  for (const name of first?.required ?? []) {
    if (others.every((branch) => branch.required.has(name))) shape.required.add(name)
  }
}

function addVariants(shape: Shape, name: string, added: readonly JsonValue[]): void {
  const variants = [...(shape.properties.get(name) ?? [])]
  for (const schema of added) {
    const text = JSON.stringify(schema)
    if (!variants.some((variant) => JSON.stringify(variant) === text)) variants.push(schema)
  }
  shape.properties.set(name, variants)
}

function either(variants: readonly JsonValue[]): JsonValue {
  const [only, ...others] = variants
  return only !== undefined && others.length === 0 ? only : { anyOf: variants }
}

/** The target of a root `$ref` into the same document. */
function localReference(schema: JsonObject, root: JsonObject): JsonObject | null {
  const reference = schema['$ref']
  if (typeof reference !== 'string' || !reference.startsWith('#/')) return null
  let target: JsonValue | undefined = root
  for (const segment of reference.slice(2).split('/')) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~')
    target = isJsonObject(target) ? own(target, key) : undefined
  }
  return isJsonObject(target) ? target : null
}

function strings(value: JsonValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}

function objects(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter((item) => isJsonObject(item)) : []
}
