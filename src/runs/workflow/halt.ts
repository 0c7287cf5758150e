import { ceilingBeforeCall } from '../../decision/ceilings.ts'
import type { RunCeilings } from '../../tools/invocation.ts'
import { isDaySpent } from '../day-cost.ts'
import type { Ground } from './step-store.ts'

/** Why a segment begins no further step. The first reason stands. */
export type Halt =
  | { readonly kind: 'cancelled'; readonly reason: string | null }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string }
  | { readonly kind: 'partial'; readonly reason: string }
  /** A ceiling that does not undo what waits for a person: the run ends once nothing waits any more. */
  | { readonly kind: 'ceiling'; readonly reason: string }
  | { readonly kind: 'lane_paused' }
  /** The process leaves, or another segment owns the run. */
  | { readonly kind: 'leave'; readonly error: unknown }
  /** A fault of the platform: the run is tried again. */
  | { readonly kind: 'fault'; readonly error: unknown }

export interface Using {
  readonly ceilings: RunCeilings
  readonly elapsedS: number
  /** Whether the time of the run is over. */
  readonly late: boolean
}

/** What is read before every node: run control, the clock, and the money of the run tree and of the organization's day. */
export function haltBeforeNode(ground: Ground, { ceilings, elapsedS, late }: Using): Halt | null {
  if (ground.cancelled !== null) return { kind: 'cancelled', reason: ground.cancelled.reason }
  if (late) return { kind: 'partial', reason: 'max_duration' }
  const use = { turns: 0, toolCalls: 0, elapsedS, spentCents: ground.spentCents }
  // Calls are counted one by one, when they begin: a run of none may still wait or branch.
  const ceiling = ceilingBeforeCall({ ...ceilings, maxToolCalls: 1 }, use)
  if (ceiling === 'max_duration') return { kind: 'partial', reason: ceiling }
  if (ceiling !== null) return { kind: 'ceiling', reason: ceiling }
  if (isDaySpent(ground.day)) return { kind: 'ceiling', reason: 'max_cost_day' }
  return ground.lanePaused ? { kind: 'lane_paused' } : null
}
