import type { JsonValue } from '../tools/json.ts'
import type { SideEffects } from '../tools/models.ts'

export type Effect = 'allow' | 'deny' | 'require_approval'

/** One rule whose tools match the call, after its condition was evaluated. */
export type RuleReading = {
  readonly ruleId: string
  readonly name: string
  readonly effect: Effect
  readonly mode: 'enforce' | 'shadow'
  /** Seconds a person has to answer; null takes the organization's default. */
  readonly ttlS: number | null
  readonly approvers: readonly string[]
} & ({ readonly matched: boolean } | { readonly fault: string })

/** What stage 2 answers, with what it was decided on. Stored with the decision and shown to the approver. */
export interface Stage2Outcome {
  readonly effect: Effect | 'fault'
  /** The rule that decided; null when the default did. */
  readonly ruleId: string | null
  readonly ruleName: string | null
  readonly message: string | null
  readonly ttlS: number | null
  readonly approvers: readonly string[]
  readonly facts: Readonly<Record<string, JsonValue>>
  /** What the shadow rules that matched would have done. */
  readonly shadow: readonly { readonly ruleName: string; readonly effect: Effect }[]
}

const RESTRICTION: Readonly<Record<Effect, number>> = { allow: 0, require_approval: 1, deny: 2 }

/** What applies when no enforced rule matches; an organization may set its own. */
export type PolicyDefaults = Readonly<Record<SideEffects, Effect>>

export const SAFE_DEFAULTS: PolicyDefaults = { read: 'allow', write: 'allow', send: 'require_approval' }

/**
 * Combines evaluated rules: the most restrictive match wins. A rule or fact that failed to evaluate is a fault of the
 * whole decision: treated as "no match" it would open the gate it was written to close.
 */
export function combineRules(
  readings: readonly RuleReading[],
  facts: Readonly<Record<string, JsonValue>>,
  fallback: Effect,
): Stage2Outcome {
  const shadow = readings.flatMap((rule) =>
    rule.mode === 'shadow' && 'matched' in rule && rule.matched ? [{ ruleName: rule.name, effect: rule.effect }] : [],
  )
  const enforced = readings.filter((rule) => rule.mode === 'enforce')
  const faulty = enforced.find((rule) => 'fault' in rule)
  if (faulty !== undefined && 'fault' in faulty) {
    return { ...ruleIdentity(faulty), effect: 'fault', message: faulty.fault, facts, shadow }
  }
  const strictest = enforced
    .filter((rule) => 'matched' in rule && rule.matched)
    .reduce<RuleReading | null>(
      (best, rule) => (best === null || RESTRICTION[rule.effect] > RESTRICTION[best.effect] ? rule : best),
      null,
    )
  if (strictest === null) {
    return { effect: fallback, ruleId: null, ruleName: null, message: null, ttlS: null, approvers: [], facts, shadow }
  }
  return { ...ruleIdentity(strictest), effect: strictest.effect, message: null, facts, shadow }
}

function ruleIdentity(rule: RuleReading): Pick<Stage2Outcome, 'ruleId' | 'ruleName' | 'ttlS' | 'approvers'> {
  return { ruleId: rule.ruleId, ruleName: rule.name, ttlS: rule.ttlS, approvers: rule.approvers }
}
