import { isJsonObject, own, type JsonObject, type JsonValue } from '../../tools/json.ts'
import { compileSchema, SchemaRefusedError } from '../../tools/schema.ts'
import type { Template } from './definition.ts'
import { nodeFault, type WorkflowFault } from './fault.ts'
import { isLiteral, sourceOf } from './template.ts'

export interface CheckedTemplate {
  readonly node: string
  readonly field: string
  readonly template: Template
  readonly schema: JsonObject
  /** Who takes the value, for people. */
  readonly takes: string
}

/**
 * What can be known of a template before a run: one without expressions is checked as a whole; of one with expressions,
 * names that do not exist, required fields that are missing, and every part that is literal.
 */
export function templateFaults(checked: CheckedTemplate): readonly WorkflowFault[] {
  const { node, field, template, schema, takes } = checked
  const fault = (at: string, message: string): WorkflowFault =>
    nodeFault(node, at, message, `write it as the schema of ${takes} says now`)
  if (isLiteral(template)) {
    const problem = problemOf(template, schema)
    return problem === null ? [] : [fault(field, problem)]
  }
  return partFaults({ template, schema, at: field }).map(({ at, message }) => fault(at, message))
}

interface Part {
  readonly template: Template
  readonly schema: JsonObject
  readonly at: string
}

function partFaults({ template, schema, at }: Part): { readonly at: string; readonly message: string }[] {
  if (sourceOf(template) !== null || !isPlain(schema)) return []
  if (isLiteral(template)) {
    const message = problemOf(template, schema)
    return message === null ? [] : [{ at, message }]
  }
  if (Array.isArray(template)) {
    const items = own(schema, 'items')
    if (!isJsonObject(items)) return []
    return template.flatMap((item: JsonValue, index) =>
      partFaults({ template: item, schema: items, at: `${at}[${index}]` }),
    )
  }
  return isJsonObject(template) ? objectFaults({ template, schema, at }) : []
}

function objectFaults({
  template,
  schema,
  at,
}: Part & { readonly template: JsonObject }): { at: string; message: string }[] {
  const declared = own(schema, 'properties')
  const properties = isJsonObject(declared) ? declared : {}
  const required = own(schema, 'required')
  const missing = Array.isArray(required)
    ? required.filter((key): key is string => typeof key === 'string' && !Object.hasOwn(template, key))
    : []
  const unknown =
    own(schema, 'additionalProperties') === false
      ? Object.keys(template).filter((key) => !Object.hasOwn(properties, key))
      : []
  return [
    ...missing.map((key) => ({ at, message: `${key} is missing` })),
    ...unknown.map((key) => ({ at, message: `there is no field ${JSON.stringify(key.slice(0, 60))}` })),
    ...Object.entries(template).flatMap(([key, value]) => {
      const part = own(properties, key)
      return isJsonObject(part) ? partFaults({ template: value, schema: part, at: `${at}.${key}` }) : []
    }),
  ]
}

/** A schema that can be read apart from the whole: one that points elsewhere, or combines others, is left to the call. */
function isPlain(schema: JsonObject): boolean {
  return !['$ref', 'allOf', 'anyOf', 'oneOf', 'if', 'not'].some((key) => Object.hasOwn(schema, key))
}

function problemOf(value: JsonValue, schema: JsonObject): string | null {
  if (JSON.stringify(schema).includes('"$ref"') && !Object.hasOwn(schema, '$defs')) return null
  try {
    const verdict = compileSchema(schema).validate(value)
    return verdict.kind === 'valid' ? null : verdict.message
  } catch (error) {
    // A part of a schema that cannot stand alone says nothing about the part of the template.
    if (error instanceof SchemaRefusedError) return null
    throw error
  }
}
