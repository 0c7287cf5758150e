import type { RunCeilings } from '../tools/invocation.ts'

/** What a run has used so far, over all its segments. */
export interface RunUse {
  readonly turns: number
  readonly toolCalls: number
  readonly elapsedS: number
  readonly spentCents: number
}

export type CeilingName = 'max_turns' | 'max_tool_calls' | 'max_duration' | 'max_cost'

/** Checked before *every* proposal of a pause: one pause can carry ten sends, and a remainder of one pays for one. */
export function ceilingBeforeCall(ceilings: RunCeilings, use: RunUse): CeilingName | null {
  // Written as “not below”, so that a figure that is no number stops the run.
  if (!(use.elapsedS < ceilings.maxDurationS)) return 'max_duration'
  if (ceilings.maxCostCents !== null && !(use.spentCents < ceilings.maxCostCents)) return 'max_cost'
  return use.toolCalls < ceilings.maxToolCalls ? null : 'max_tool_calls'
}

/** Checked before every model turn. The calls of the last turn are still answered: only the next turn is refused. */
export function ceilingBeforeTurn(ceilings: RunCeilings, use: RunUse): CeilingName | null {
  return ceilingBeforeCall(ceilings, use) ?? (use.turns < ceilings.maxTurns ? null : 'max_turns')
}

/** What is left for a segment. Cost is not subtracted: the meter answers a total, and a total compares with a total. */
export function remainder(ceilings: RunCeilings, use: RunUse): RunCeilings {
  return {
    maxTurns: Math.max(0, ceilings.maxTurns - use.turns),
    maxToolCalls: Math.max(0, ceilings.maxToolCalls - use.toolCalls),
    maxDurationS: Math.max(0, ceilings.maxDurationS - use.elapsedS),
    maxCostCents: ceilings.maxCostCents,
  }
}
