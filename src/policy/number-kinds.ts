import { own } from '../tools/json.ts'
import type { Condition, EachNode } from './condition.ts'
import type { VariableType } from './vocabulary.ts'

/** What a part is to arithmetic: `json` may turn out a double, a string or a list; null is certainly no number. */
export type NumberKind = 'int' | 'double' | 'json' | null

export interface KindScope {
  readonly facts: Readonly<Record<string, VariableType>>
  /** The macro whose test or value is looked at. */
  readonly inside: EachNode | null
}

export function isArithmetic(operator: string): boolean {
  return operator === '+' || operator === '-' || operator === '*' || operator === '/' || operator === '%'
}

export function numberKind(node: Condition, scope: KindScope): NumberKind {
  switch (node.kind) {
    case 'literal':
      return typeof node.value === 'bigint' ? 'int' : typeof node.value === 'number' ? 'double' : null
    case 'call':
      return node.method === 'size' || node.method === 'int' ? 'int' : node.method === 'double' ? 'double' : null
    case 'negate':
      return numberKind(node.of, scope)
    case 'choose':
      return eitherOf(numberKind(node.yes, scope), numberKind(node.no, scope))
    case 'binary':
      return isArithmetic(node.operator) ? resultOf(numberKind(node.left, scope), numberKind(node.right, scope)) : null
    case 'name':
      return kindOfName(node.name, scope)
    case 'index':
      return node.of.kind === 'list' ? itemKind(node.of, scope) : jsonOrNull(node, scope)
    case 'field':
      return jsonOrNull(node, scope)
    case 'and':
    case 'or':
    case 'not':
    case 'has':
    case 'list':
    case 'each':
      return null
  }
}

function eitherOf(yes: NumberKind, no: NumberKind): NumberKind {
  return yes === no ? yes : 'json'
}

/** Both operands of arithmetic have one type, so the one that is known tells the other. */
function resultOf(left: NumberKind, right: NumberKind): NumberKind {
  return left === 'json' ? right : left
}

function kindOfName(name: string, scope: KindScope): NumberKind {
  if (scope.inside !== null && name === scope.inside.variable) return itemKind(scope.inside.over, outside(scope))
  const fact = own(scope.facts, name)
  return fact === 'int' || fact === 'double' || fact === 'json' ? fact : null
}

function itemKind(over: Condition, scope: KindScope): NumberKind {
  if (over.kind !== 'list') return jsonOrNull(over, scope)
  const first = over.items[0]
  return first === undefined ? null : numberKind(first, scope)
}

function jsonOrNull(node: Condition, scope: KindScope): 'json' | null {
  return isJson(node, scope) ? 'json' : null
}

/** Whether the value comes out of JSON whose types nobody declared. */
function isJson(node: Condition, scope: KindScope): boolean {
  if (node.kind === 'field' || node.kind === 'index') return isJson(node.of, scope)
  if (node.kind !== 'name') return false
  if (scope.inside !== null && node.name === scope.inside.variable)
    return itemKind(scope.inside.over, outside(scope)) === 'json'
  const fact = own(scope.facts, node.name)
  return node.name === 'arguments' || fact === 'list' || fact === 'map' || fact === 'json'
}

function outside(scope: KindScope): KindScope {
  return { facts: scope.facts, inside: null }
}
