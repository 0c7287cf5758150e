import { own } from '../tools/json.ts'
import type { Condition, Position } from './condition.ts'
import type { SyntaxNode } from './expression.ts'
import { didYouMean } from './suggest.ts'
import { FAMILIAR_NAMES, FUNCTION_NAMES, isMacro, isMethod, MACROS, METHODS } from './vocabulary.ts'
import { balanced, shown } from './wording.ts'

/** A construct that CEL has and the rule language has not. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly at: Position
  constructor(message: string, at: Position) {
    super(message)
    this.at = at
  }
}

export function lower(ast: SyntaxNode, source: string): Condition {
  const at = balanced(source, { start: ast.start, end: ast.end })
  const inner = (node: SyntaxNode): Condition => lower(node, source)
  switch (ast.op) {
    case 'value':
      return { at, kind: 'literal', value: literal(ast.args, at) }
    case 'id':
      return { at, kind: 'name', name: ast.args }
    case 'list':
      return { at, kind: 'list', items: ast.args.map(inner) }
    case '.':
      return { at, kind: 'field', of: inner(ast.args[0]), key: ast.args[1] }
    case '[]':
      return { at, kind: 'index', of: inner(ast.args[0]), key: inner(ast.args[1]) }
    case '!_':
      return { at, kind: 'not', of: inner(ast.args) }
    case '-_':
      return { at, kind: 'negate', of: inner(ast.args) }
    case '&&':
      return { at, kind: 'and', left: inner(ast.args[0]), right: inner(ast.args[1]) }
    case '||':
      return { at, kind: 'or', left: inner(ast.args[0]), right: inner(ast.args[1]) }
    case '?:':
      return { at, kind: 'choose', test: inner(ast.args[0]), yes: inner(ast.args[1]), no: inner(ast.args[2]) }
    case 'call':
      return lowerCall({ name: ast.args[0], receiver: null, args: ast.args[1], at }, source)
    case 'rcall':
      return lowerCall({ name: ast.args[0], receiver: ast.args[1], args: ast.args[2], at }, source)
    case 'map':
      throw new Refused('a condition cannot build a map; compare the fields one by one', at)
    case '.?':
    case '[?]':
      throw new Refused('optional access is not part of the rule language; ask with has() first', at)
    case '==':
    case '!=':
    case '<':
    case '<=':
    case '>':
    case '>=':
    case 'in':
    case '+':
    case '-':
    case '*':
    case '/':
    case '%':
      return { at, kind: 'binary', operator: ast.op, left: inner(ast.args[0]), right: inner(ast.args[1]) }
    default:
      // What a newer library may parse and this build does not know is no condition.
      return unknownConstruct(at)
  }
}

function unknownConstruct(at: Position): never {
  throw new Refused('this is not part of the rule language', at)
}

function literal(value: unknown, at: Position): null | boolean | number | bigint | string {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number' || typeof value === 'bigint') return value
  throw new Refused('bytes and unsigned numbers are not part of the rule language; write a string or a number', at)
}

interface Call {
  readonly name: string
  readonly receiver: SyntaxNode | null
  readonly args: readonly SyntaxNode[]
  readonly at: Position
}

function lowerCall(call: Call, source: string): Condition {
  const { name, receiver, at } = call
  if (name === 'has' && receiver === null) return lowerHas(call, source)
  if (isMacro(name) && receiver !== null) return lowerMacro(call, receiver, source)
  if (name === 'matches') {
    throw new Refused('regular expressions are not part of the rule language; use glob("*@example.com")', at)
  }
  if (!isMethod(name)) {
    const guess = own(FAMILIAR_NAMES, name)
    const hint = guess === undefined ? didYouMean(name, FUNCTION_NAMES) : `; did you mean ${guess}?`
    throw new Refused(`there is no function ${shown(name)}${hint}`, at)
  }
  const { takes, written } = METHODS[name]
  const global = written === 'global' || (written === 'both' && receiver === null)
  const operands = receiver === null ? call.args : [receiver, ...call.args]
  const [of, argument] = operands
  if (global !== (receiver === null) || of === undefined || operands.length !== takes + 1) {
    throw new Refused(`${name} is written ${usage(name)}`, at)
  }
  return {
    at,
    kind: 'call',
    method: name,
    of: lower(of, source),
    argument: argument === undefined ? null : lower(argument, source),
  }
}

function usage(name: keyof typeof METHODS): string {
  const { takes, written } = METHODS[name]
  if (written !== 'receiver') return `${name}(value)`
  return takes === 0 ? `text.${name}()` : `text.${name}("…")`
}

function lowerHas(call: Call, source: string): Condition {
  const [path] = call.args
  if (call.args.length !== 1 || path?.op !== '.')
    throw new Refused('has() takes a path such as has(arguments.customer.id)', call.at)
  return { at: call.at, kind: 'has', of: lower(path.args[0], source), key: path.args[1] }
}

function lowerMacro(call: Call, over: SyntaxNode, source: string): Condition {
  const { name, args, at } = call
  const [variable, first, second] = args
  if (!isMacro(name) || !MACROS[name].includes(args.length) || variable?.op !== 'id' || first === undefined) {
    throw new Refused(`${shown(name)}() is written list.${shown(name)}(item, …)`, at)
  }
  const last = lower(second ?? first, source)
  const filter = second === undefined ? null : lower(first, source)
  return {
    at,
    kind: 'each',
    macro: name,
    over: lower(over, source),
    variable: variable.args,
    test: name === 'map' ? filter : last,
    value: name === 'map' ? last : null,
  }
}
