import { Environment, EvaluationError, ParseError, TypeError as CelTypeError } from '@marcbachmann/cel-js'
import type { ASTNode } from '@marcbachmann/cel-js'
import type { FactType } from '../tools/handler.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import { own } from '../tools/json.ts'
import type { Condition, Position } from './condition.ts'
import { partsOf } from './condition.ts'
import { evaluateCondition } from './evaluate.ts'
import { lint } from './lint.ts'
import type { Value } from './operations.ts'
import { ConditionError } from './operations.ts'
import { didYouMean } from './suggest.ts'
import { factNameProblem } from '../tools/fact-name.ts'
import {
  FAMILIAR_NAMES,
  FUNCTION_NAMES,
  isMacro,
  isMethod,
  isOfFactType,
  MACROS,
  METHODS,
  PRINCIPAL_FIELDS,
  RUN_FIELDS,
} from './vocabulary.ts'
import { balanced, excerpt, libraryWording, shown } from './wording.ts'

/**
 * The condition of a rule, in CEL. The library parses and type-checks; what it parsed becomes a {@link Condition}, and
 * that is what is evaluated. Its own evaluator is not used because it answers wrongly where a rule must not be wrong:
 * `has()` of a string is false, a map with the key `__proto__` equals another map, `1 in {"1": …}` is true,
 * `lowerAscii` folds U+212A to `k`, `matches` backtracks for seconds, and nothing bounds what an evaluation costs.
 */
export interface Expression {
  readonly source: string
  /** Facts the condition reads; all of them must be handed to {@link evaluate}, whichever branch is taken. */
  readonly facts: readonly string[]
  /** Where each of them is read first. */
  readonly factPositions: ReadonlyMap<string, Position>
  /** Whether its answer may depend on what the call was asked to do. */
  readonly readsArguments: boolean
  /** @throws ExpressionFault when there is no answer; it is never "no" */
  evaluate(context: ExpressionContext): boolean
}

export interface ExpressionContext {
  readonly tool: string
  /** Whether the call carries its arguments out of the organization. */
  readonly egress: boolean
  readonly principal: PrincipalView
  readonly run: RunView
  readonly arguments: JsonObject
  readonly facts: Readonly<Record<string, JsonValue>>
}

interface PrincipalView extends Readonly<Record<keyof typeof PRINCIPAL_FIELDS, string | readonly string[]>> {
  readonly agent: string
  readonly user_id: string
  readonly roles: readonly string[]
  readonly scopes: readonly string[]
  readonly started_by: string
}

interface RunView extends Readonly<Record<keyof typeof RUN_FIELDS, string | boolean | readonly string[]>> {
  readonly id: string
  readonly source: string
  readonly step_path: string
  readonly tainted: boolean
  readonly taint_sources: readonly string[]
}

export interface ExpressionScope {
  /** Every fact that has a resolver. */
  readonly facts: ReadonlyMap<string, FactType>
}

export type CompiledExpression =
  | { readonly kind: 'compiled'; readonly expression: Expression }
  | { readonly kind: 'invalid'; readonly message: string; readonly position: Position | null }

/** The condition has no answer on this call. The message names types and names, never values. */
export class ExpressionFault extends Error {
  override readonly name = 'ExpressionFault'
  readonly position: Position | null
  constructor(message: string, position: Position | null, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.position = position
  }
}

export const MAX_SOURCE_LENGTH = 2000

const LIMITS = { maxAstNodes: 200, maxDepth: 20, maxListElements: 100, maxMapEntries: 20, maxCallArguments: 8 }

/** Built once, because it takes three times as long as compiling a condition. Clones add the facts. */
const LANGUAGE = new Environment({
  unlistedVariablesAreDyn: false,
  homogeneousAggregateLiterals: true,
  enableOptionalTypes: false,
  limits: LIMITS,
})
  .registerVariable('tool', 'string')
  .registerVariable('egress', 'bool')
  .registerVariable('principal', { schema: PRINCIPAL_FIELDS })
  .registerVariable('run', { schema: RUN_FIELDS })
  .registerVariable('arguments', 'map')
  // Declared for the type checker; the library never evaluates.
  .registerFunction('string.glob(string): bool', () => false)

/** Checks everything that can be known before a call, so that a rule that is saved can be evaluated. */
export function compileExpression(source: string, scope: ExpressionScope): CompiledExpression {
  const length = lengthProblem(source)
  if (length !== null) return { kind: 'invalid', message: length, position: null }
  try {
    const facts = Object.fromEntries([...scope.facts].filter(([name]) => factNameProblem(name) === null))
    const environment = LANGUAGE.clone()
    for (const [name, type] of Object.entries(facts)) environment.registerVariable(name, type)
    const parsed = environment.parse(source)
    const condition = lower(parsed.ast, source)
    const found = lint(condition, { source, facts })
    if (found !== null) return invalid(source, found.message, found.at)
    const checked = parsed.check()
    if (!checked.valid) return libraryError(source, checked.error)
    if (checked.type !== 'bool') return invalid(source, resultProblem(checked.type ?? 'dyn'), condition.at)
    return { kind: 'compiled', expression: expressionOf(source, condition, facts) }
  } catch (error) {
    if (error instanceof Refused) return invalid(source, error.message, error.at)
    return libraryError(source, error)
  }
}

function lengthProblem(source: string): string | null {
  if (typeof source !== 'string' || source.trim() === '')
    return 'a condition is empty; leave it out to match every call'
  return source.length > MAX_SOURCE_LENGTH ? `a condition has at most ${MAX_SOURCE_LENGTH} characters` : null
}

function resultProblem(type: string): string {
  if (type === 'dyn')
    return 'a condition answers true or false, and this may answer anything; compare it, for example with == true'
  return `a condition answers true or false, and this answers a ${type}`
}

function expressionOf(source: string, condition: Condition, types: Readonly<Record<string, FactType>>): Expression {
  const factPositions = new Map<string, Position>()
  collectFacts(condition, types, factPositions)
  const facts = [...factPositions.keys()].sort()
  return {
    source,
    facts,
    factPositions,
    readsArguments: reads(condition, 'arguments'),
    evaluate(context) {
      const names: Record<string, Value> = Object.assign(Object.create(null), {
        tool: context.tool,
        egress: context.egress,
        principal: context.principal,
        run: context.run,
        arguments: context.arguments,
      })
      for (const fact of facts) names[fact] = factValue(fact, own(types, fact), context.facts)
      return answer(condition, names)
    },
  }
}

function collectFacts(node: Condition, types: Readonly<Record<string, FactType>>, found: Map<string, Position>): void {
  if (node.kind === 'name' && Object.hasOwn(types, node.name) && !found.has(node.name)) found.set(node.name, node.at)
  for (const part of partsOf(node)) collectFacts(part, types, found)
}

function reads(node: Condition, name: string): boolean {
  return (node.kind === 'name' && node.name === name) || partsOf(node).some((part) => reads(part, name))
}

/** A JSON number becomes an int where the fact is declared as one. */
function factValue(name: string, type: FactType | undefined, facts: Readonly<Record<string, JsonValue>>): Value {
  const value = own(facts, name)
  if (value === undefined) throw new ExpressionFault(`the fact ${name} is missing`, null)
  if (type === undefined || !isOfFactType(type, value)) {
    throw new ExpressionFault(`the fact ${name} is not a ${type ?? 'known fact'}`, null)
  }
  return type === 'int' && typeof value === 'number' ? BigInt(value) : value
}

function answer(condition: Condition, names: Readonly<Record<string, Value>>): boolean {
  let result: Value
  try {
    result = evaluateCondition(condition, names)
  } catch (error) {
    const position = error instanceof ConditionError ? error.at : null
    // Anything else is the engine's own limit: arguments nested so deeply that comparing them exhausts the stack.
    const message =
      error instanceof Error && !(error instanceof RangeError) ? error.message : 'the arguments are nested too deeply'
    throw new ExpressionFault(message, position, error)
  }
  if (typeof result !== 'boolean')
    throw new ExpressionFault('the condition answered neither true nor false', condition.at)
  return result
}

/** A construct that CEL has and the rule language has not. */
class Refused extends Error {
  override readonly name = 'Refused'
  readonly at: Position
  constructor(message: string, at: Position) {
    super(message)
    this.at = at
  }
}

function lower(ast: ASTNode, source: string): Condition {
  const at = balanced(source, { start: ast.start, end: ast.end })
  const inner = (node: ASTNode): Condition => lower(node, source)
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
  readonly receiver: ASTNode | null
  readonly args: readonly ASTNode[]
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

function lowerMacro(call: Call, over: ASTNode, source: string): Condition {
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

function invalid(source: string, message: string, at: Position): CompiledExpression {
  const part = excerpt(source, at)
  return {
    kind: 'invalid',
    message: part === '' || message.includes(part) ? message : `${part}: ${message}`,
    position: at,
  }
}

function libraryError(source: string, error: unknown): CompiledExpression {
  if (!(error instanceof ParseError || error instanceof CelTypeError || error instanceof EvaluationError)) {
    // Nothing else is expected; whatever it is, the text is no condition.
    return { kind: 'invalid', message: 'the condition cannot be read; is it nested too deeply?', position: null }
  }
  const message = libraryWording(error.code, error.summary)
  const range = error.range ?? { start: 0, end: source.length }
  if (error instanceof ParseError) return { kind: 'invalid', message, position: range }
  // The range of `a.b` starts at `b`; its node starts at `a`.
  return invalid(source, message, balanced(source, { start: error.node?.start ?? range.start, end: range.end }))
}
