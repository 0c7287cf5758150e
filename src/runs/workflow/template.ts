import { isJsonObject, own, type JsonObject, type JsonValue } from '../../tools/json.ts'
import type { Template } from './definition.ts'

const EXPRESSION = '$expr'
/** Beside `$expr`, true: a null leaves out the field it stands in. */
const OPTIONAL = '$optional'

/** One expression of a template, or why a place that looks like one is none. */
export interface Spot {
  /** Keys and places on the way, for people. */
  readonly at: string
  readonly source: string | null
}

/** Every expression of a template, in the order they are written. */
export function spotsIn(template: Template, at = ''): readonly Spot[] {
  if (Array.isArray(template)) return template.flatMap((item: JsonValue, index) => spotsIn(item, `${at}[${index}]`))
  if (!isJsonObject(template)) return []
  if (Object.hasOwn(template, EXPRESSION)) return [{ at, source: sourceOf(template) }]
  return Object.entries(template).flatMap(([key, value]) => spotsIn(value, at === '' ? key : `${at}.${key}`))
}

export function isLiteral(template: Template): boolean {
  return spotsIn(template).length === 0
}

/** The text of an expression object; null unless it is one and nothing else. */
export function sourceOf(template: Template): string | null {
  if (!isJsonObject(template)) return null
  const source = own(template, EXPRESSION)
  const rest = Object.keys(template).filter((key) => key !== EXPRESSION)
  const known = rest.length === 0 || (rest.length === 1 && own(template, OPTIONAL) === true)
  return typeof source === 'string' && known ? source : null
}

/** The template with every expression replaced by its value. @throws what `value` raises */
export function render(template: Template, value: (source: string) => JsonValue): JsonValue {
  if (Array.isArray(template)) return template.map((item: JsonValue) => render(item, value))
  if (!isJsonObject(template)) return template
  if (Object.hasOwn(template, EXPRESSION)) {
    const source = sourceOf(template)
    if (source === null) throw new TypeError('a template holds an expression object that is none')
    return value(source)
  }
  return renderObject(template, value)
}

function renderObject(template: JsonObject, value: (source: string) => JsonValue): JsonObject {
  const fields = Object.entries(template).flatMap(([key, part]): [string, JsonValue][] => {
    const rendered = render(part, value)
    return rendered === null && isOptional(part) ? [] : [[key, rendered]]
  })
  return Object.fromEntries(fields)
}

function isOptional(template: Template): boolean {
  return isJsonObject(template) && Object.hasOwn(template, EXPRESSION) && own(template, OPTIONAL) === true
}
