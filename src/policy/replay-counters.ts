import type { LimitPeriod } from '../decision/limits.ts'
import type { RuleReading } from '../decision/stage-two.ts'
import type { PastCall } from './past-call.ts'

/** Whether a limit lets another call pass; `unsure` where calls may have counted that nobody can tell of. */
export type Room = 'room' | 'full' | 'unsure'

/** Fewest and most calls that may have been counted. */
interface Span {
  least: number
  most: number
}

/** What limits would have counted. A period that began before the first call that is known may have counted any number. */
export class ReplayedCounters {
  readonly #start: Date | null
  readonly #spans = new Map<string, Span>()

  /** @param start from when on every call is known; null when all are */
  constructor(start: Date | null) {
    this.#start = start
  }

  room(rule: RuleReading, call: PastCall): Room {
    if (rule.limit === null) return 'full'
    const { least, most } = this.#spanOf(rule.name, rule.limit.per, call)
    if (least >= rule.limit.count) return 'full'
    return most < rule.limit.count ? 'room' : 'unsure'
  }

  count(rule: RuleReading, call: PastCall, passed: 'yes' | 'no' | 'maybe'): void {
    if (rule.limit === null || passed === 'no') return
    const span = this.#spanOf(rule.name, rule.limit.per, call)
    span.most += 1
    if (passed === 'yes') span.least += 1
  }

  #spanOf(rule: string, per: LimitPeriod, call: PastCall): Span {
    const period = periodOf(per, call)
    const key = `${period.name} ${rule}`
    const known = this.#spans.get(key)
    if (known !== undefined) return known
    const whole = this.#start === null || period.began >= this.#start
    const span = { least: 0, most: whole ? 0 : Infinity }
    this.#spans.set(key, span)
    return span
  }
}

function periodOf(per: LimitPeriod, call: PastCall): { readonly name: string; readonly began: Date } {
  const at = call.decidedAt.toISOString()
  switch (per) {
    case 'run':
      return { name: call.rootRunId, began: call.rootStartedAt }
    case 'hour':
      return { name: at.slice(0, 13), began: new Date(`${at.slice(0, 13)}:00:00Z`) }
    case 'day':
      return { name: at.slice(0, 10), began: new Date(`${at.slice(0, 10)}T00:00:00Z`) }
  }
}
