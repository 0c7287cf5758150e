import { own } from '../tools/json.ts'
import type { Condition, EachNode, Position } from './condition.ts'
import { partsOf } from './condition.ts'
import type { NumberKind } from './number-kinds.ts'
import { isArithmetic, numberKind } from './number-kinds.ts'
import { PRINCIPAL_FIELDS, RUN_FIELDS, type VariableType } from './vocabulary.ts'
import { excerpt, notFound, parenthesised, shown } from './wording.ts'

/** A fault that a person can fix in the text of a condition. */
export interface Finding {
  readonly message: string
  readonly at: Position
}

export interface LintScope {
  readonly source: string
  readonly facts: Readonly<Record<string, VariableType>>
  /** Names that can be read beside the facts. */
  readonly reserved: readonly string[]
  /** What reads them, as a sentence about it begins. */
  readonly subject: string
}

/** Whole numbers beyond this have no exact JSON counterpart, so a comparison with one would not mean what it says. */
const MAX_LITERAL = BigInt(Number.MAX_SAFE_INTEGER)

/**
 * Finds what the type checker cannot know: names that do not exist, macros inside macros (a list in the arguments may
 * hold thousands of items), and arithmetic that would fail on every call. The first finding in reading order.
 */
export function lint(condition: Condition, scope: LintScope): Finding | null {
  return visit(condition, { ...scope, inside: null })
}

interface Here extends LintScope {
  /** The macro whose test or value is looked at. */
  readonly inside: EachNode | null
}

function visit(node: Condition, here: Here): Finding | null {
  const found = check(node, here)
  if (found !== null) return found
  if (node.kind === 'each') return visitEach(node, here)
  return firstOf(partsOf(node), (part) => visit(part, here))
}

function visitEach(node: Condition & EachNode, here: Here): Finding | null {
  const body = [node.test, node.value].filter((part) => part !== null)
  return (
    visit(node.over, { ...here, inside: null }) ??
    firstOf([node.over, ...body], (part) => (holdsMacro(part) ? nested(node, part) : null)) ??
    firstOf(body, (part) => visit(part, { ...here, inside: node }))
  )
}

function firstOf(parts: readonly Condition[], look: (part: Condition) => Finding | null): Finding | null {
  for (const part of parts) {
    const found = look(part)
    if (found !== null) return found
  }
  return null
}

function holdsMacro(node: Condition): boolean {
  return node.kind === 'each' || partsOf(node).some(holdsMacro)
}

function nested(outer: EachNode, part: Condition): Finding {
  return finding(part, `${outer.macro}() does not combine with another macro, neither inside it nor in front of it`)
}

function check(node: Condition, here: Here): Finding | null {
  switch (node.kind) {
    case 'literal':
      return typeof node.value === 'bigint' && node.value > MAX_LITERAL
        ? finding(node, `a whole number is at most ${MAX_LITERAL}`)
        : null
    case 'name':
      return checkName(node, here)
    case 'field':
      return checkField(node, here)
    case 'has':
      return checkField(node, here) ?? checkHas(node, here)
    case 'each':
      return checkVariable(node, here)
    case 'call':
      // The type checker would let these read a number out of a text, where languages disagree about `0x10` and ``.
      return (node.method === 'int' || node.method === 'double') && numberKind(node.of, here) === null
        ? finding(node, `${node.method}() takes a number`)
        : null
    case 'binary':
      return isArithmetic(node.operator) ? checkArithmetic(node, here) : checkComparison(node, here)
    case 'and':
    case 'or':
    case 'not':
    case 'negate':
    case 'choose':
    case 'index':
    case 'list':
      return null
  }
}

function checkName(node: Condition & { readonly kind: 'name' }, here: Here): Finding | null {
  const { name } = node
  if (name === here.inside?.variable || here.reserved.includes(name) || Object.hasOwn(here.facts, name)) return null
  const names = [...here.reserved, ...Object.keys(here.facts)]
  return finding(node, notFound(`there is no ${shown(name)}`, name, { names, intro: `${here.subject} reads` }))
}

/** A misspelt field of `principal` or `run`; the type checker does not look inside `has()`. */
function checkField(node: Condition & { readonly kind: 'field' | 'has' }, here: Here): Finding | null {
  if (node.of.kind !== 'name' || !here.reserved.includes(node.of.name)) return null
  const { name } = node.of
  const fields = name === 'principal' ? PRINCIPAL_FIELDS : name === 'run' ? RUN_FIELDS : null
  if (fields === null || Object.hasOwn(fields, node.key)) return null
  const names = Object.keys(fields)
  return finding(node, notFound(`${name} has no field ${shown(node.key)}`, node.key, { names, intro: 'It has' }))
}

function checkHas(node: Condition & { readonly kind: 'has' }, here: Here): Finding | null {
  let root: Condition = node.of
  while (root.kind === 'field') root = root.of
  if (root.kind !== 'name') return finding(node, 'has() takes a path such as has(arguments.customer.id)')
  const type = own(here.facts, root.name)
  if (root.name === 'arguments' || root.name === here.inside?.variable || type === 'map' || type === 'json') return null
  return finding(node, `has() asks about a field that may be absent; ${shown(root.name)} has none of those`)
}

function checkVariable(node: Condition & EachNode, here: Here): Finding | null {
  if (!here.reserved.includes(node.variable) && !Object.hasOwn(here.facts, node.variable)) return null
  return finding(
    node,
    `${node.macro}() calls its item ${shown(node.variable)}, which means something else already; use another name`,
  )
}

/** `a == b in c` is `(a == b) in c` in CEL and `a == (b in c)` to the parser, and to most people. */
function checkComparison(node: Condition & { readonly kind: 'binary' }, here: Here): Finding | null {
  return firstOf([node.left, node.right], (part) =>
    part.kind !== 'binary' || isArithmetic(part.operator) || parenthesised(here.source, part.at)
      ? null
      : finding(part, 'a comparison inside a comparison can be read in two ways; put it in parentheses'),
  )
}

function checkArithmetic(node: Condition & { readonly kind: 'binary' }, here: Here): Finding | null {
  const left = numberKind(node.left, here)
  const right = numberKind(node.right, here)
  if (node.operator === '%') {
    const part = isDouble(left) ? node.left : isDouble(right) ? node.right : null
    if (part === null) return null
    return finding(node, `% works on whole numbers only; write int(${excerpt(here.source, part.at)}) if it is one`)
  }
  const whole = left === 'int' && isDouble(right) ? node.left : right === 'int' && isDouble(left) ? node.right : null
  if (whole === null) return null
  const written = excerpt(here.source, whole.at)
  const remedy = /^-?[0-9]+$/.test(written) ? `${written}.0` : `double(${written})`
  return finding(
    node,
    `${node.operator} does not mix a double with a whole number, and every number in JSON is a double; write ${remedy} instead of ${written}`,
  )
}

function isDouble(kind: NumberKind): boolean {
  return kind === 'json' || kind === 'double'
}

function finding(node: { readonly at: Position }, message: string): Finding {
  return { message, at: node.at }
}
