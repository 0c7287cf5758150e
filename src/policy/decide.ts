import type { LimitGround } from '../decision/limits.ts'
import type { PolicyDefaults, Stage2Outcome } from '../decision/stage-two.ts'
import { combineRules } from '../decision/stage-two.ts'
import type { JsonValue } from '../tools/json.ts'
import type { SideEffects } from '../tools/models.ts'
import type { CompiledRules, PolicyCall } from './rule-set.ts'

export interface PolicyQuestion {
  readonly rules: CompiledRules
  readonly call: PolicyCall
  readonly facts: Readonly<Record<string, JsonValue>>
  readonly limits: LimitGround
  readonly defaults: PolicyDefaults
  readonly sideEffects: SideEffects
}

/** Where a decision records what tainted its run. A fact cannot have this name. */
export const TAINT_FACT = 'run.taint_sources'

/** Stage 2: what the organization's rules say about one call, or its default where none applies. */
export function decidePolicy(question: PolicyQuestion): Stage2Outcome {
  const { rules, call, facts, limits, defaults, sideEffects } = question
  return combineRules(rules.evaluate(call, facts), {
    facts: recorded(facts, call.taintSources),
    fallback: defaults[sideEffects],
    limits,
  })
}

/** A person who decides should see that a run was tainted, whether or not a rule asked. */
function recorded(
  facts: Readonly<Record<string, JsonValue>>,
  taintSources: readonly string[],
): Readonly<Record<string, JsonValue>> {
  return taintSources.length === 0 ? facts : { ...facts, [TAINT_FACT]: taintSources }
}
