import { type ASTNode, Environment, EvaluationError, ParseError, TypeError as CelTypeError } from '@marcbachmann/cel-js'
import type { FactType } from '../tools/handler.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import { own } from '../tools/json.ts'
import type { Condition, Position } from './condition.ts'
import { partsOf } from './condition.ts'
import { evaluateCondition } from './evaluate.ts'
import { lint } from './lint.ts'
import { lower, Refused } from './lower.ts'
import type { Value } from './operations.ts'
import { ConditionError } from './operations.ts'
import { factNameProblem, RESERVED_NAMES } from '../tools/fact-name.ts'
import { isOfFactType, PRINCIPAL_FIELDS, RUN_FIELDS } from './vocabulary.ts'
import { balanced, excerpt, libraryWording } from './wording.ts'

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

export type CompiledExpression = { readonly kind: 'compiled'; readonly expression: Expression } | InvalidText

export interface InvalidText {
  readonly kind: 'invalid'
  readonly message: string
  readonly position: Position | null
}

/** The condition has no answer on this call. The message names types and names, never values. */
export class ExpressionFault extends Error {
  override readonly name = 'ExpressionFault'
  readonly position: Position | null
  constructor(message: string, position: Position | null, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.position = position
  }
}

/** What the library parsed; nothing else of the library leaves this file. */
export type SyntaxNode = ASTNode

export const MAX_SOURCE_LENGTH = 2000

const LIMITS = { maxAstNodes: 200, maxDepth: 20, maxListElements: 100, maxMapEntries: 20, maxCallArguments: 8 }

/** Built once, because it takes three times as long as compiling a condition. Clones add the names. */
export const BARE_LANGUAGE = new Environment({
  unlistedVariablesAreDyn: false,
  homogeneousAggregateLiterals: true,
  enableOptionalTypes: false,
  limits: LIMITS,
})
  // Declared for the type checker; the library never evaluates.
  .registerFunction('string.glob(string): bool', () => false)

const LANGUAGE = BARE_LANGUAGE.clone()
  .registerVariable('tool', 'string')
  .registerVariable('egress', 'bool')
  .registerVariable('principal', { schema: PRINCIPAL_FIELDS })
  .registerVariable('run', { schema: RUN_FIELDS })
  .registerVariable('arguments', 'map')

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
    const found = lint(condition, { source, facts, reserved: RESERVED_NAMES, subject: 'A condition' })
    if (found !== null) return invalid(source, found.message, found.at)
    const checked = parsed.check()
    if (!checked.valid) return textFault(source, checked.error)
    if (checked.type !== 'bool') return invalid(source, resultProblem(checked.type ?? 'dyn'), condition.at)
    return { kind: 'compiled', expression: expressionOf(source, condition, facts) }
  } catch (error) {
    return textFault(source, error)
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
  const result = valueOf(condition, names)
  if (typeof result !== 'boolean')
    throw new ExpressionFault('the condition answered neither true nor false', condition.at)
  return result
}

/** @throws ExpressionFault */
export function valueOf(condition: Condition, names: Readonly<Record<string, Value>>): Value {
  try {
    return evaluateCondition(condition, names)
  } catch (error) {
    const position = error instanceof ConditionError ? error.at : null
    // Anything else is the engine's own limit: arguments nested so deeply that comparing them exhausts the stack.
    const message =
      error instanceof Error && !(error instanceof RangeError) ? error.message : 'the arguments are nested too deeply'
    throw new ExpressionFault(message, position, error)
  }
}

export function invalid(source: string, message: string, at: Position): InvalidText {
  const part = excerpt(source, at)
  return {
    kind: 'invalid',
    message: part === '' || message.includes(part) ? message : `${part}: ${message}`,
    position: at,
  }
}

export function textFault(source: string, error: unknown): InvalidText {
  if (error instanceof Refused) return invalid(source, error.message, error.at)
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
