import type { JsonValue } from '../tools/json.ts'
import { own } from '../tools/json.ts'
import { partsOf, type Condition, type Position } from './condition.ts'
import {
  BARE_LANGUAGE,
  ExpressionFault,
  invalid,
  MAX_SOURCE_LENGTH,
  textFault,
  valueOf,
  type InvalidText,
} from './expression.ts'
import { lint } from './lint.ts'
import { lower } from './lower.ts'
import { isList, type Value } from './operations.ts'
import type { VariableType } from './vocabulary.ts'

/** An expression of the rule language that answers any JSON value, over names that whoever compiles it declares. */
export interface ValueExpression {
  readonly source: string
  /** What it reads of each name: `name.key`, or the name as a whole. */
  readonly reads: readonly VariableRead[]
  /** @throws ExpressionFault when there is no value. The message names types and names, never values. */
  evaluate(variables: Readonly<Record<string, JsonValue>>): JsonValue
}

export interface VariableRead {
  readonly variable: string
  /** Null where more than one key may be read. */
  readonly key: string | null
  readonly at: Position
}

export interface ValueScope {
  /** Names are `^[a-z][a-z0-9_]{0,47}$` and no word of CEL. */
  readonly variables: Readonly<Record<string, VariableType>>
  /** Refuses a text that can be seen to answer something else than a bool. */
  readonly answers?: 'bool'
}

export type CompiledValue = { readonly kind: 'compiled'; readonly expression: ValueExpression } | InvalidText

/** Same language, same limits and same checks as a condition of a rule. */
export function compileValue(source: string, scope: ValueScope): CompiledValue {
  if (typeof source !== 'string' || source.trim() === '')
    return { kind: 'invalid', message: 'an expression is empty', position: null }
  if (source.length > MAX_SOURCE_LENGTH)
    return { kind: 'invalid', message: `an expression has at most ${MAX_SOURCE_LENGTH} characters`, position: null }
  try {
    const environment = BARE_LANGUAGE.clone()
    for (const [name, type] of Object.entries(scope.variables))
      environment.registerVariable(name, type === 'json' ? 'dyn' : type)
    const parsed = environment.parse(source)
    const condition = lower(parsed.ast, source)
    const found = lint(condition, { source, facts: scope.variables, reserved: [], subject: 'This expression' })
    if (found !== null) return invalid(source, found.message, found.at)
    const checked = parsed.check()
    if (!checked.valid) return textFault(source, checked.error)
    if (scope.answers === 'bool' && checked.type !== 'bool' && checked.type !== 'dyn')
      return invalid(source, `true or false is needed here, and this answers a ${checked.type}`, condition.at)
    return { kind: 'compiled', expression: expressionOf(source, condition, scope.variables) }
  } catch (error) {
    return textFault(source, error)
  }
}

function expressionOf(
  source: string,
  condition: Condition,
  types: Readonly<Record<string, VariableType>>,
): ValueExpression {
  const reads = readsOf(condition, types)
  const read = new Set(reads.map(({ variable }) => variable))
  return {
    source,
    reads,
    evaluate(variables) {
      const names: Record<string, Value> = Object.create(null) as Record<string, Value>
      for (const name of read) {
        const value = own(variables, name)
        if (value === undefined) throw new ExpressionFault(`${name} has no value`, null)
        names[name] = own(types, name) === 'int' && typeof value === 'number' ? BigInt(value) : value
      }
      return jsonOf(valueOf(condition, names))
    },
  }
}

function readsOf(node: Condition, types: Readonly<Record<string, VariableType>>): VariableRead[] {
  const ofName = node.kind === 'field' || node.kind === 'has' || node.kind === 'index' ? node.of : null
  if (ofName?.kind === 'name' && Object.hasOwn(types, ofName.name)) {
    if (node.kind === 'field' || node.kind === 'has') return [{ variable: ofName.name, key: node.key, at: ofName.at }]
    if (node.kind === 'index') {
      const { key } = node
      const text = key.kind === 'literal' && typeof key.value === 'string' ? key.value : null
      return [{ variable: ofName.name, key: text, at: ofName.at }, ...readsOf(key, types)]
    }
  }
  if (node.kind === 'name')
    return Object.hasOwn(types, node.name) ? [{ variable: node.name, key: null, at: node.at }] : []
  return partsOf(node).flatMap((part) => readsOf(part, types))
}

/** @throws ExpressionFault for a whole number that JSON cannot carry without loss */
function jsonOf(value: Value): JsonValue {
  if (typeof value === 'bigint') {
    const number = Number(value)
    if (!Number.isSafeInteger(number)) throw new ExpressionFault('the number is too large for JSON', null)
    return number
  }
  // Only a list that was built here can hold whole numbers; maps come out of JSON as they are.
  if (isList(value)) return value.map(jsonOf)
  return value
}
