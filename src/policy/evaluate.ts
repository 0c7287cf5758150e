import type { Condition, EachNode, Position } from './condition.ts'
import type { Value } from './operations.ts'
import { binary, call, ConditionError, element, field, has, isList, Meter, negate, typeName } from './operations.ts'
import { isJsonObject } from '../tools/json.ts'

/**
 * Steps one evaluation may take; a node is one. A macro of ten nodes over 5,000 items takes 55,000, two lists of 2,000
 * compared all with all are refused. The costliest mix found reaches the limit in 100 ms on one slow core.
 */
const MAX_STEPS = 1_000_000

/** An error that is outweighed still has to be made, which takes as long as a hundred nodes. */
const STEPS_AN_ERROR = 100

interface Scope {
  /** Without a prototype, so that no name finds what nobody put there. */
  readonly names: Readonly<Record<string, Value>>
  readonly meter: Meter
  /** The item of the macro being run; macros do not nest. */
  readonly variable: string | null
  item: Value
}

/**
 * Evaluates a condition. CEL's rule for errors holds: one operand of `&&` or `||` that decides the answer outweighs an
 * error in the other, in either order.
 *
 * @throws ConditionError when it has no value, with the part that had none
 * @throws CostExceeded when it takes more than {@link MAX_STEPS}
 */
export function evaluateCondition(condition: Condition, names: Readonly<Record<string, Value>>): Value {
  return run(condition, { names, meter: new Meter(MAX_STEPS), variable: null, item: null })
}

function run(node: Condition, scope: Scope): Value {
  try {
    return step(node, scope)
  } catch (error) {
    // The innermost part names itself; outer parts leave it.
    if (error instanceof ConditionError) error.at ??= node.at
    throw error
  }
}

function step(node: Condition, scope: Scope): Value {
  scope.meter.spend(1)
  switch (node.kind) {
    case 'literal':
      return node.value
    case 'list':
      return node.items.map((item) => run(item, scope))
    case 'name':
      return named(node.name, scope)
    case 'field':
      return field(run(node.of, scope), node.key)
    case 'index':
      return element(run(node.of, scope), run(node.key, scope))
    case 'has':
      return has(run(node.of, scope), node.key)
    case 'not':
      return !bool(run(node.of, scope), node.of.at)
    case 'negate':
      return negate(run(node.of, scope))
    case 'and':
      return decided([node.left, node.right], scope, false)
    case 'or':
      return decided([node.left, node.right], scope, true)
    case 'choose':
      return bool(run(node.test, scope), node.test.at) ? run(node.yes, scope) : run(node.no, scope)
    case 'binary':
      return binary(node.operator, [run(node.left, scope), run(node.right, scope)], scope.meter)
    case 'call':
      return call(
        node.method,
        [run(node.of, scope), node.argument === null ? null : run(node.argument, scope)],
        scope.meter,
      )
    case 'each':
      return each(node, scope)
  }
}

function named(name: string, scope: Scope): Value {
  if (name === scope.variable) return scope.item
  const value = scope.names[name]
  if (value === undefined) throw new ConditionError(`${name} has no value`)
  return value
}

function bool(value: Value, at: Position): boolean {
  if (typeof value === 'boolean') return value
  const error = new ConditionError(`a bool is needed here, not ${typeName(value)}`)
  error.at = at
  throw error
}

/** `&&` is decided by the first false, `||` by the first true; without either the first error is what it evaluates to. */
function decided(operands: readonly Condition[], scope: Scope, decisive: boolean): boolean {
  let failed: ConditionError | null = null
  for (const operand of operands) {
    const answer = attempt(operand, scope)
    if (answer === decisive) return decisive
    if (answer instanceof ConditionError) failed ??= answer
  }
  if (failed !== null) throw failed
  return !decisive
}

function attempt(node: Condition, scope: Scope): boolean | ConditionError {
  try {
    return bool(run(node, scope), node.at)
  } catch (error) {
    if (!(error instanceof ConditionError)) throw error
    scope.meter.spend(STEPS_AN_ERROR)
    return error
  }
}

function each(node: EachNode, outer: Scope): Value {
  const over = run(node.over, outer)
  if (!isList(over) && !isJsonObject(over)) {
    throw new ConditionError(`${node.macro}() goes over a list or the keys of a map, not ${typeName(over)}`)
  }
  const items = isList(over) ? over : Object.keys(over)
  outer.meter.spend(items.length)
  const scope: Scope = { names: outer.names, meter: outer.meter, variable: node.variable, item: null }
  switch (node.macro) {
    case 'all':
      return quantified(node, { items, scope, decisive: false })
    case 'exists':
      return quantified(node, { items, scope, decisive: true })
    case 'exists_one':
      return kept(node, items, scope).length === 1
    case 'filter':
      return kept(node, items, scope)
    case 'map':
      return kept(node, items, scope).map((item) => {
        scope.item = item
        return node.value === null ? item : run(node.value, scope)
      })
  }
}

interface Quantified {
  readonly items: readonly Value[]
  readonly scope: Scope
  readonly decisive: boolean
}

function quantified(node: EachNode, { items, scope, decisive }: Quantified): boolean {
  let failed: ConditionError | null = null
  for (const item of items) {
    scope.item = item
    const answer = node.test === null ? true : attempt(node.test, scope)
    if (answer === decisive) return decisive
    if (answer instanceof ConditionError) failed ??= answer
  }
  if (failed !== null) throw failed
  return !decisive
}

/** The items that pass the test. An error on any item is an error of the whole: there is no answer that outweighs it. */
function kept(node: EachNode, items: readonly Value[], scope: Scope): readonly Value[] {
  const test = node.test
  if (test === null) return items
  return items.filter((item) => {
    scope.item = item
    return bool(run(test, scope), test.at)
  })
}
