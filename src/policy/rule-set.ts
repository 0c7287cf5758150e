import type { RuleLimit } from '../decision/limits.ts'
import type { Effect, RuleReading } from '../decision/stage-two.ts'
import type { ToolInvocation } from '../tools/invocation.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { PolicyCatalogue } from './catalogue.ts'
import type { Expression, ExpressionContext } from './expression.ts'
import { compileExpression, ExpressionFault } from './expression.ts'
import type { RuleMode, StoredRule } from './rule.ts'
import { isRuleLimit, shapeProblems } from './rule.ts'
import { isToolPattern, matchesTool } from './tool-pattern.ts'

/** What a condition may know of where a call comes from. */
export type CallOrigin = Pick<ToolInvocation, 'principal' | 'runId' | 'source' | 'stepPath'>

/** The call that rules are asked about. */
export interface PolicyCall {
  readonly tool: string
  /** Validated, with defaults applied: what is hashed, shown and executed. */
  readonly args: JsonObject
  readonly invocation: CallOrigin
  /** Tools that brought untrusted content into the run tree before this call. */
  readonly taintSources: readonly string[]
}

/** The rules of one organization at one version, ready to be asked. */
export interface CompiledRules {
  /** `rules_version` of the organization they were read at. */
  readonly version: number
  /** The rules that are about this tool, in stored order. */
  matching(tool: string): readonly MatchingRule[]
  /** Whether an enforced rule about this tool may want a person. One that cannot be read stops the call instead. */
  mayAsk(tool: string): boolean
  /** Facts that an enforced rule about this tool reads. One that cannot be resolved is a fault of the decision. */
  factsNeeded(tool: string): readonly string[]
  /** Facts that only shadow rules read. One that cannot be resolved costs the shadow result and nothing else. */
  factsForShadow(tool: string): readonly string[]
  /** Evaluates every rule about the tool. Never throws: a rule without an answer reads as a fault. */
  evaluate(call: PolicyCall, facts: Readonly<Record<string, JsonValue>>): readonly RuleReading[]
}

export interface MatchingRule {
  readonly id: string
  readonly name: string
  readonly effect: Effect
  readonly mode: RuleMode
  readonly approvers: readonly string[]
  readonly ttlS: number | null
  readonly limit: RuleLimit | null
  /** Facts its condition reads. */
  readonly facts: readonly string[]
  readonly readsArguments: boolean
  /** Why the rule cannot be evaluated for this tool by this build; null when it can. */
  readonly fault: string | null
}

/**
 * Compiles stored rules. One that this build cannot read any more, because a fact was removed or the row was written by
 * another build, stays and reads as a fault on every call it may be about.
 */
export function compileRules(rules: readonly StoredRule[], catalogue: PolicyCatalogue, version = 0): CompiledRules {
  const compiled = rules.map((rule) => compileRule(rule, catalogue))
  const about = (tool: string): readonly CompiledRule[] => compiled.filter((rule) => isAbout(rule, tool))
  return {
    version,
    matching: (tool) =>
      about(tool).map((rule) => ({
        ...rule.identity,
        facts: rule.facts,
        readsArguments: rule.expression?.readsArguments ?? false,
        fault: faultFor(rule, tool, catalogue),
      })),
    mayAsk: (tool) =>
      about(tool).some(({ identity }) => identity.mode === 'enforce' && identity.effect === 'require_approval'),
    factsNeeded: (tool) => factsOf(about(tool), tool, catalogue).enforced,
    factsForShadow: (tool) => factsOf(about(tool), tool, catalogue).shadow,
    evaluate(call, facts) {
      const context = contextOf(call, facts, catalogue)
      return about(call.tool).map((rule) => read(rule, context, faultFor(rule, call.tool, catalogue)))
    },
  }
}

interface CompiledRule {
  readonly identity: Omit<MatchingRule, 'facts' | 'readsArguments' | 'fault'>
  /** Null when the stored entries cannot be read: then it may be about any tool. */
  readonly tools: readonly string[] | null
  readonly expression: Expression | null
  readonly facts: readonly string[]
  readonly fault: string | null
}

function compileRule(rule: StoredRule, catalogue: PolicyCatalogue): CompiledRule {
  const [wrong] = shapeProblems(rule)
  const base = { identity: identityOf(rule), tools: toolsOf(rule) }
  if (wrong !== undefined) return { ...base, expression: null, facts: [], fault: `it cannot be read: ${wrong.message}` }
  if (rule.when === null) return { ...base, expression: null, facts: [], fault: null }
  const compiled = compileExpression(rule.when, { facts: catalogue.facts })
  if (compiled.kind === 'invalid') {
    return { ...base, expression: null, facts: [], fault: `its condition cannot be read: ${compiled.message}` }
  }
  return { ...base, expression: compiled.expression, facts: compiled.expression.facts, fault: null }
}

/** What cannot be read counts as the strictest it may have meant. */
function identityOf(rule: StoredRule): CompiledRule['identity'] {
  return {
    id: rule.id,
    name: rule.name,
    effect: rule.effect === 'allow' || rule.effect === 'require_approval' ? rule.effect : 'deny',
    mode: rule.mode === 'shadow' ? 'shadow' : 'enforce',
    approvers: Array.isArray(rule.approvers) ? rule.approvers : [],
    ttlS: typeof rule.ttlS === 'number' ? rule.ttlS : null,
    limit: isRuleLimit(rule.limit) ? rule.limit : null,
  }
}

function toolsOf(rule: StoredRule): readonly string[] | null {
  const tools: unknown = rule.tools
  return Array.isArray(tools) && tools.length > 0 && tools.every(isToolPattern) ? tools : null
}

function isAbout(rule: CompiledRule, tool: string): boolean {
  return rule.tools === null || rule.tools.some((pattern) => matchesTool(pattern, tool))
}

/** A wildcard may meet a tool that came after the rule was saved and lacks a fact the rule reads. */
function faultFor(rule: CompiledRule, tool: string, catalogue: PolicyCatalogue): string | null {
  if (rule.fault !== null) return rule.fault
  const declared = catalogue.tools.get(tool) ?? []
  const missing = rule.facts.find((fact) => !declared.includes(fact))
  return missing === undefined ? null : `${tool} does not declare the fact ${missing} that its condition reads`
}

function factsOf(
  rules: readonly CompiledRule[],
  tool: string,
  catalogue: PolicyCatalogue,
): { readonly enforced: readonly string[]; readonly shadow: readonly string[] } {
  const askable = rules.filter((rule) => faultFor(rule, tool, catalogue) === null)
  const of = (mode: RuleMode): readonly string[] =>
    [...new Set(askable.filter((rule) => rule.identity.mode === mode).flatMap((rule) => rule.facts))].sort()
  const enforced = of('enforce')
  return { enforced, shadow: of('shadow').filter((fact) => !enforced.includes(fact)) }
}

function contextOf(
  call: PolicyCall,
  facts: Readonly<Record<string, JsonValue>>,
  catalogue: PolicyCatalogue,
): ExpressionContext {
  const { principal, runId, source, stepPath } = call.invocation
  return {
    tool: call.tool,
    egress: catalogue.egress.has(call.tool),
    principal: {
      agent: principal.agent,
      user_id: principal.userId ?? '',
      roles: principal.roles,
      scopes: principal.scopes,
      started_by: principal.startedBy.kind,
    },
    run: {
      id: runId,
      source,
      step_path: stepPath,
      tainted: call.taintSources.length > 0,
      taint_sources: call.taintSources,
    },
    arguments: call.args,
    facts,
  }
}

function read(rule: CompiledRule, context: ExpressionContext, fault: string | null): RuleReading {
  const { id, name, effect, mode, approvers, ttlS, limit } = rule.identity
  const reading = { ruleId: id, name, effect, mode, approvers, ttlS, limit }
  if (fault !== null) return { ...reading, fault: `rule "${name}": ${fault}` }
  if (rule.expression === null) return { ...reading, matched: true }
  try {
    return { ...reading, matched: rule.expression.evaluate(context) }
  } catch (error) {
    const why =
      error instanceof ExpressionFault ? located(error, rule.expression) : 'its condition could not be evaluated'
    return { ...reading, fault: `rule "${name}": ${why}` }
  }
}

function located(fault: ExpressionFault, expression: Expression): string {
  const at = fault.position
  return at === null ? fault.message : `${expression.source.slice(at.start, at.end)}: ${fault.message}`
}
