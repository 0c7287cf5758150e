import type { Rule } from '../bailiff.ts'
import type { LimitUse } from '../decision/limits.ts'
import { checkAuthority } from '../decision/stage-one.ts'
import { SAFE_DEFAULTS, type Effect, type PolicyDefaults, type Stage2Outcome } from '../decision/stage-two.ts'
import { policyCatalogue } from '../policy/catalogue.ts'
import { decidePolicy } from '../policy/decide.ts'
import { compileRules } from '../policy/rule-set.ts'
import { validateRule, type StoredRule } from '../policy/rule.ts'
import { argumentsHash } from '../tools/canonical.ts'
import { parseArguments, type ToolDeclaration } from '../tools/declarations.ts'
import { ValidationError } from '../tools/errors.ts'
import type { FactResolver } from '../tools/handler.ts'
import type { Principal, ToolInvocation } from '../tools/invocation.ts'
import { own, type JsonValue } from '../tools/json.ts'
import { buildRegistry } from '../tools/registry.ts'

export interface TestBailiffOptions<Declarations extends readonly ToolDeclaration[]> {
  readonly tools: Declarations
  readonly rules: readonly Rule<Declarations[number]['spec']['name']>[]
  readonly facts?: readonly FactResolver[]
  readonly defaults?: Partial<PolicyDefaults>
}

export interface TestCall<Name extends string> {
  readonly tool: Name
  readonly args: JsonValue
  /** What the facts answer; a fact that a matching rule reads and that is missing here is a fault, as it would be live. */
  readonly facts?: Readonly<Record<string, JsonValue>>
  readonly principal?: Partial<Principal>
  /** Tools that brought untrusted content into the run tree before this call; none unless given. */
  readonly taintSources?: readonly string[]
  /** What rules with a limit, by name, have let pass in the current period; nothing unless given. */
  readonly used?: Readonly<Record<string, number>>
}

/** What policy would do with a call. `invalid_input` never reaches policy. */
export type TestDecision =
  | {
      readonly decision: Effect | 'fault'
      readonly rule: string | null
      readonly message: string | null
      readonly argumentsHash: string
      readonly shadow: Stage2Outcome['shadow']
    }
  | { readonly decision: 'invalid_input'; readonly message: string }

export interface TestBailiff<Name extends string> {
  decide(call: TestCall<Name>): Promise<TestDecision>
}

/**
 * Decides calls by your tools and rules without a database, a model or a run, for tests of your own rules.
 * @throws RegistryError, ValidationError as {@link createBailiff} would
 */
export function testBailiff<const Declarations extends readonly ToolDeclaration[]>(
  options: TestBailiffOptions<Declarations>,
): TestBailiff<Declarations[number]['spec']['name']> {
  const facts = options.facts ?? []
  const ready = prepare(options, facts)
  return {
    async decide(call) {
      const { registry, rules } = await ready
      const declaration = registry.declaration(call.tool)
      const [spec] = registry.resolve([call.tool])
      if (declaration === undefined || spec === undefined) throw new ValidationError(`there is no tool ${call.tool}`)
      const parsed = parseArguments(declaration, call.args)
      if (parsed.kind === 'invalid') return { decision: 'invalid_input', message: parsed.message }
      const hash = argumentsHash(parsed.args)
      const invocation = invocationFor(call, [...registry.names()])
      const authority = checkAuthority(call.tool, invocation.principal.scopes, true)
      if (authority !== 'held')
        return { decision: 'deny', rule: null, message: authority, argumentsHash: hash, shadow: [] }
      const outcome = decidePolicy({
        rules,
        call: { tool: call.tool, args: parsed.args, invocation, taintSources: call.taintSources ?? [] },
        facts: call.facts ?? {},
        limits: { uses: usesOf(options.rules, call.used ?? {}), countedBy: [] },
        defaults: { ...SAFE_DEFAULTS, ...options.defaults },
        sideEffects: spec.sideEffects,
      })
      return {
        decision: outcome.effect,
        rule: outcome.ruleName,
        message: outcome.message,
        argumentsHash: hash,
        shadow: outcome.shadow,
      }
    },
  }
}

function usesOf(rules: readonly Rule<string>[], used: Readonly<Record<string, number>>): readonly LimitUse[] {
  return rules.flatMap(({ name, limit }) =>
    limit === undefined ? [] : [{ rule: name, per: limit.per, used: own(used, name) ?? 0 }],
  )
}

async function prepare(options: TestBailiffOptions<readonly ToolDeclaration[]>, facts: readonly FactResolver[]) {
  const registry = await buildRegistry(options.tools, { facts })
  const catalogue = policyCatalogue(registry.resolve(registry.names()), facts)
  const stored = options.rules.map((rule, index): StoredRule => {
    const draft = { ...rule, when: rule.when ?? null, mode: rule.mode ?? 'enforce', ttlS: rule.ttlS ?? null } as const
    const validation = validateRule(draft, catalogue)
    if (validation.kind === 'valid') return { ...validation.rule, id: String(index) }
    throw new ValidationError(
      validation.problems.map((problem) => `${rule.name}, ${problem.field}: ${problem.message}`).join('\n'),
    )
  })
  return { registry, rules: compileRules(stored, catalogue, 1) }
}

function invocationFor(call: TestCall<string>, scopes: readonly string[]): ToolInvocation {
  const principal: Principal = {
    agent: 'test',
    userId: null,
    roles: [],
    scopes,
    startedBy: { kind: 'system', id: 'test', name: 'test' },
    ...call.principal,
  }
  return {
    organizationId: '00000000-0000-0000-0000-000000000000',
    userId: principal.userId,
    runId: '00000000-0000-0000-0000-000000000000',
    definitionId: '00000000-0000-0000-0000-000000000000',
    stepPath: 'agent',
    principal,
    ceilings: { maxTurns: 1, maxToolCalls: 1, maxDurationS: 60, maxCostCents: null },
    deadline: new Date(8.64e15),
    source: 'library',
    contracts: {},
  }
}
