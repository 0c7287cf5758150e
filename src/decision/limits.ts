import type { DecisionRecord } from '../tools/invoker.ts'
import type { RuleReading } from './stage-two.ts'

/** `run` is the whole run tree; `hour` and `day` are those of the calendar, in UTC by the clock of the database. */
export type LimitPeriod = 'run' | 'hour' | 'day'

/** How many calls a rule lets pass before it applies its effect. */
export interface RuleLimit {
  readonly count: number
  readonly per: LimitPeriod
}

/** What a rule has counted in the period that a call falls into. */
export interface LimitUse {
  readonly rule: string
  readonly per: LimitPeriod
  readonly used: number
}

/** What the limits of a call's rules are judged on. */
export interface LimitGround {
  readonly uses: readonly LimitUse[]
  /** Rules that counted this very call when its claim was taken before; a takeover is the same call. */
  readonly countedBy: readonly string[]
}

export const NOTHING_COUNTED: LimitGround = { uses: [], countedBy: [] }

/** One counter that a call adds to when it runs. */
export interface LimitCount {
  readonly rule: string
  readonly per: LimitPeriod
  /** The counter must not get past it; null counts without a bound. */
  readonly max: number | null
}

/** A rule whose limit has room does not apply: it reads as one that did not match. */
export function withinLimits(readings: readonly RuleReading[], ground: LimitGround): readonly RuleReading[] {
  return readings.map((reading) => (hasRoom(reading, ground) ? { ...reading, matched: false } : reading))
}

function hasRoom(reading: RuleReading, { uses, countedBy }: LimitGround): boolean {
  const { limit, name } = reading
  if (limit === null || 'fault' in reading || !reading.matched) return false
  if (countedBy.includes(name)) return true
  const use = uses.find(({ rule, per }) => rule === name && per === limit.per)
  return (use?.used ?? 0) < limit.count
}

/** The rules that count a call if it runs: every one with a limit whose condition holds. One in shadow bounds nothing. */
export function countersOf(readings: readonly RuleReading[]): readonly Counter[] {
  return readings.flatMap(({ name, limit, mode, effect, ...reading }) =>
    limit !== null && 'matched' in reading && reading.matched
      ? [
          {
            rule: name,
            per: limit.per,
            max: mode === 'shadow' ? null : limit.count,
            asks: effect === 'require_approval',
          },
        ]
      : [],
  )
}

export interface Counter extends LimitCount {
  /** A person who approves the call has answered this rule, so it no longer bounds it. */
  readonly asks: boolean
}

/** What a call that was decided so adds to when it runs. */
export function countsOf(record: DecisionRecord): readonly LimitCount[] {
  return (record.policy?.counters ?? []).map(({ rule, per, max, asks }) => ({
    rule,
    per,
    max: asks && record.approvalId !== null ? null : max,
  }))
}
