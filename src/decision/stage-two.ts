import type { JsonValue } from '../tools/json.ts'
import type { SideEffects } from '../tools/models.ts'
import { countersOf, withinLimits, type Counter, type LimitGround, type LimitPeriod, type RuleLimit } from './limits.ts'

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
  /** Null applies the rule to every call it matches. */
  readonly limit: RuleLimit | null
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
  /** What the shadow rules that applied would have done. */
  readonly shadow: readonly { readonly ruleName: string; readonly effect: Effect }[]
  /** What the call adds to if it runs. */
  readonly counters: readonly Counter[]
}

const RESTRICTION: Readonly<Record<Effect, number>> = { allow: 0, require_approval: 1, deny: 2 }

/** What applies when no enforced rule matches; an organization may set its own. */
export type PolicyDefaults = Readonly<Record<SideEffects, Effect>>

export const SAFE_DEFAULTS: PolicyDefaults = { read: 'allow', write: 'allow', send: 'require_approval' }

/** Three days: a question asked on Friday evening can be answered on Monday. */
export const DEFAULT_APPROVAL_TTL_S = 72 * 3600

/** What evaluated rules are combined on. */
export interface RuleGround {
  /** Recorded with the decision. */
  readonly facts: Readonly<Record<string, JsonValue>>
  /** Applies when no rule does. */
  readonly fallback: Effect
  readonly limits: LimitGround
}

/**
 * Combines evaluated rules: the most restrictive one that applies wins. A rule or fact that failed to evaluate is a
 * fault of the whole decision: treated as "no match" it would open the gate it was written to close.
 */
export function combineRules(readings: readonly RuleReading[], ground: RuleGround): Stage2Outcome {
  const applying = withinLimits(readings, ground.limits)
  const decided = { facts: ground.facts, shadow: shadowOf(applying), counters: countersOf(readings) }
  const enforced = applying.filter((rule) => rule.mode === 'enforce')
  const faulty = enforced.find((rule) => 'fault' in rule)
  if (faulty !== undefined && 'fault' in faulty) {
    return { ...ruleIdentity(faulty), ...decided, effect: 'fault', message: faulty.fault }
  }
  const matched = enforced.filter((rule) => 'matched' in rule && rule.matched)
  const strictest = matched.reduce((most, rule) => Math.max(most, RESTRICTION[rule.effect]), -1)
  const deciding = matched.filter((rule) => RESTRICTION[rule.effect] === strictest)
  const [first] = deciding
  if (first === undefined) {
    return {
      ...decided,
      effect: ground.fallback,
      ruleId: null,
      ruleName: null,
      message: null,
      ttlS: null,
      approvers: [],
    }
  }
  const approvers = commonApprovers(deciding)
  if (approvers === null) {
    const message = `no approver satisfies ${deciding.map((rule) => rule.name).join(' and ')} together`
    return { ...ruleIdentity(first), ...decided, effect: 'fault', message }
  }
  const waits = deciding.flatMap((rule) => rule.ttlS ?? [])
  const ttlS = waits.length === 0 ? null : Math.min(...waits)
  return { ...ruleIdentity(first), ...decided, effect: first.effect, message: limitMessage(first), approvers, ttlS }
}

function shadowOf(readings: readonly RuleReading[]): Stage2Outcome['shadow'] {
  return readings.flatMap((rule) =>
    rule.mode === 'shadow' && 'matched' in rule && rule.matched ? [{ ruleName: rule.name, effect: rule.effect }] : [],
  )
}

const PERIOD_WORDS: Readonly<Record<LimitPeriod, string>> = { run: 'a run', hour: 'an hour', day: 'a day' }

function limitMessage({ limit }: RuleReading): string | null {
  if (limit === null) return null
  return `the limit of ${limit.count} ${limit.count === 1 ? 'call' : 'calls'} ${PERIOD_WORDS[limit.per]} is reached`
}

/** Who may answer for all of the rules that ask: those every list names. Null when that is nobody. */
function commonApprovers(rules: readonly RuleReading[]): readonly string[] | null {
  const lists = rules.flatMap((rule) =>
    rule.effect === 'require_approval' && rule.approvers.length > 0 ? [rule.approvers] : [],
  )
  const [first, ...others] = lists
  if (first === undefined) return []
  const common = first.filter((who) => others.every((list) => list.includes(who)))
  return common.length === 0 ? null : common
}

function ruleIdentity(rule: RuleReading): Pick<Stage2Outcome, 'ruleId' | 'ruleName' | 'ttlS' | 'approvers'> {
  return { ruleId: rule.ruleId, ruleName: rule.name, ttlS: rule.ttlS, approvers: rule.approvers }
}
