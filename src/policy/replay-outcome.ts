import { NOTHING_COUNTED } from '../decision/limits.ts'
import { combineRules, type Effect, type PolicyDefaults, type RuleReading } from '../decision/stage-two.ts'
import { own, type JsonObject } from '../tools/json.ts'
import type { SideEffects } from '../tools/models.ts'
import { TAINT_FACT } from './decide.ts'
import type { PastCall } from './past-call.ts'
import { ReplayedCounters, type Room } from './replay-counters.ts'
import type { CompiledRules, MatchingRule } from './rule-set.ts'

export type ReplayedOutcome =
  | { readonly outcome: Effect | 'fault'; readonly rule: string | null }
  /** What was recorded does not tell; `why` says what is missing. */
  | { readonly outcome: 'unknown'; readonly why: string }

export interface ReplayCall {
  readonly call: PastCall
  /** Null when they were not stored whole. */
  readonly args: JsonObject | null
  readonly sideEffects: SideEffects
}

export interface ReplayGround {
  readonly rules: CompiledRules
  readonly defaults: PolicyDefaults
  /** From when on no call of the tools is missing; null when none is. */
  readonly start: Date | null
}

/** Decides past calls by other rules, oldest first, because what is let through is what limits count. Pure. */
export function replayCalls(
  calls: readonly ReplayCall[],
  ground: ReplayGround,
): readonly { readonly call: PastCall; readonly now: ReplayedOutcome }[] {
  const counters = new ReplayedCounters(ground.start)
  return calls.map((one) => {
    const rules = rulesOf(one, ground.rules)
    const judged = rules.map((rule) => judge(rule, one.call, counters))
    const now = combined(judged, ground.defaults[one.sideEffects])
    for (const { reading, holds } of rules) counters.count(reading, one.call, both(holds, ran(now, one.call)))
    return { call: one.call, now }
  })
}

/** Whether something is so, where what was recorded may not tell. */
type Maybe = 'yes' | 'no' | 'maybe'

interface RuleOfCall {
  readonly reading: RuleReading
  /** Whether its condition holds. */
  readonly holds: Maybe
  /** What is missing to tell. */
  readonly why: string
}

/** The enforced rules about a call, each with what can be said about its condition. */
function rulesOf({ call, args }: ReplayCall, rules: CompiledRules): readonly RuleOfCall[] {
  const matching = rules.matching(call.tool)
  const asked = { tool: call.tool, args: args ?? {}, invocation: call.origin, taintSources: taintsOf(call.facts) }
  return rules.evaluate(asked, call.facts).flatMap((reading, index): readonly RuleOfCall[] => {
    const rule = matching[index]
    if (rule === undefined || reading.mode === 'shadow') return []
    const why = rule.fault === null ? missing(rule, call, args) : null
    // Whatever it was read as without what is missing says nothing.
    if (why !== null) return [{ reading: { ...identityOf(reading), matched: true }, holds: 'maybe', why }]
    return [{ reading, holds: 'matched' in reading && reading.matched ? 'yes' : 'no', why: '' }]
  })
}

/** What a condition reads and was not recorded; null when all of it was. */
function missing(rule: MatchingRule, call: PastCall, args: JsonObject | null): string | null {
  if (rule.readsArguments && args === null) return 'the arguments were not stored whole'
  const fact = rule.facts.find((name) => own(call.facts, name) === undefined)
  return fact === undefined ? null : `the fact ${fact} was not recorded`
}

function taintsOf(facts: PastCall['facts']): readonly string[] {
  const sources = own(facts, TAINT_FACT)
  return Array.isArray(sources) ? sources.filter((source) => typeof source === 'string') : []
}

interface Judged {
  readonly reading: RuleReading
  readonly applies: Maybe
  readonly why: string
}

const APPLIES: Readonly<Record<Room, Maybe>> = { room: 'no', full: 'yes', unsure: 'maybe' }
const EARLIER = 'calls that are not among these may have counted'

function judge({ reading, holds, why }: RuleOfCall, call: PastCall, counters: ReplayedCounters): Judged {
  if (reading.limit === null || holds === 'no') return { reading, applies: holds, why }
  const applies = both(holds, APPLIES[counters.room(reading, call)])
  return { reading, applies, why: why === '' ? EARLIER : why }
}

function both(a: Maybe, b: Maybe): Maybe {
  if (a === 'no' || b === 'no') return 'no'
  return a === 'yes' && b === 'yes' ? 'yes' : 'maybe'
}

/**
 * The outcome, if it is the same whichever of the uncertain rules apply: none, any one, or all of them. A rule that
 * would not change it, such as one that asks beside one that denies, leaves it certain.
 */
function combined(rules: readonly Judged[], fallback: Effect): ReplayedOutcome {
  const outcomeWith = (applying: readonly Judged[]) =>
    combineRules(
      rules.map((rule) => settled(rule, rule.applies === 'yes' || applying.includes(rule))),
      { facts: {}, fallback, limits: NOTHING_COUNTED },
    )
  const unsure = rules.filter((rule) => rule.applies === 'maybe')
  const { effect, ruleName } = outcomeWith([])
  const differing = unsure.find((rule) => outcomeWith([rule]).effect !== effect)
  const [first] = unsure
  const together = first !== undefined && outcomeWith(unsure).effect !== effect ? first : undefined
  const doubtful = differing ?? together
  return doubtful === undefined ? { outcome: effect, rule: ruleName } : { outcome: 'unknown', why: doubtful.why }
}

/** A reading whose limit has been judged. */
function settled({ reading }: Judged, matched: boolean): RuleReading {
  const identity = { ...identityOf(reading), limit: null }
  return 'fault' in reading ? { ...identity, fault: reading.fault } : { ...identity, matched }
}

function identityOf({ ruleId, name, effect, mode, ttlS, approvers, limit }: RuleReading) {
  return { ruleId, name, effect, mode, ttlS, approvers, limit }
}

/** Whether a call decided so would have run, going by what became of it. */
function ran(now: ReplayedOutcome, call: PastCall): Maybe {
  switch (now.outcome) {
    case 'deny':
    case 'fault':
      return 'no'
    case 'unknown':
      return 'maybe'
    case 'allow':
      // A failure may have been given back.
      return call.failed && call.outcome === 'allow' ? 'maybe' : 'yes'
    case 'require_approval':
      if (call.approval === null) return 'maybe'
      return call.approval === 'approved' ? 'yes' : 'no'
  }
}
