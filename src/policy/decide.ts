import type { PolicyDefaults, Stage2Outcome } from '../decision/stage-two.ts'
import { combineRules } from '../decision/stage-two.ts'
import type { JsonValue } from '../tools/json.ts'
import type { SideEffects } from '../tools/models.ts'
import type { CompiledRules, PolicyCall } from './rule-set.ts'

export interface PolicyQuestion {
  readonly rules: CompiledRules
  readonly call: PolicyCall
  readonly facts: Readonly<Record<string, JsonValue>>
  readonly defaults: PolicyDefaults
  readonly sideEffects: SideEffects
}

/** Stage 2: what the organization's rules say about one call, or its default where none matches. */
export function decidePolicy(question: PolicyQuestion): Stage2Outcome {
  const { rules, call, facts, defaults, sideEffects } = question
  return combineRules(rules.evaluate(call, facts), facts, defaults[sideEffects])
}
