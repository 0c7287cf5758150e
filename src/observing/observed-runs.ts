import { SegmentLost, type RunEnding, type RunRow, type RunStore, type Segment } from '../runs/run-store.ts'
import type { ObservedRun, SegmentEnding } from './observer.ts'
import type { Tell } from './telling.ts'
import { withVerbs } from './with-verbs.ts'

/** A run store that tells how runs and their segments begin and end. */
export function observedRuns(store: RunStore, tell: Tell): RunStore {
  const segments = new SegmentTimes(tell)
  const verbs: Partial<RunStore> = {
    async create(run) {
      const row = await store.create(run)
      tell({ kind: 'run_created', ...runOf(row), lane: row.lane })
      return row
    },
    async begin(runId, segmentId, rules) {
      const begun = await store.begin(runId, segmentId, rules)
      if (begun.kind === 'begun') segments.started(begun.segment)
      return begun
    },
    beat: (segment) => segments.unlessLost(segment, () => store.beat(segment)),
    async recordTurn(segment, turn) {
      await segments.unlessLost(segment, () => store.recordTurn(segment, turn))
      const { id: spanId, startedAt } = turn.span
      const { provider, model, inputTokens, outputTokens, costCents } = turn.usage
      const spent = { provider, model, inputTokens, outputTokens, costCents }
      tell({ kind: 'turn_ended', ...runOf(segment.run), spanId, ...spent, startedAt, ms: since(startedAt) })
    },
    saveSession: (segment, saved) => segments.unlessLost(segment, () => store.saveSession(segment, saved)),
    async park(segment, request) {
      const parked = await segments.unlessLost(segment, () => store.park(segment, request))
      segments.ended(segment, parked)
      return parked
    },
    async release(segment, fault) {
      const released = await segments.unlessLost(segment, () => store.release(segment, fault))
      segments.ended(segment, fault === null ? 'released' : 'failed')
      if (released.kind === 'failed' && fault !== null && fault.final !== null)
        tellEnd(tell, segment.run, fault.final.ending)
      return released
    },
    async end(segment, ending) {
      await segments.unlessLost(segment, () => store.end(segment, ending))
      segments.ended(segment, 'ended')
      tellEnd(tell, segment.run, ending)
    },
    async fail(runId, ending) {
      const ended = await store.fail(runId, ending)
      if (ended !== null) tellEnd(tell, ended, ending)
      return ended
    },
  }
  return withVerbs(store, verbs)
}

class SegmentTimes {
  readonly #tell: Tell
  readonly #begun = new WeakMap<Segment, number>()

  constructor(tell: Tell) {
    this.#tell = tell
  }

  started(segment: Segment): void {
    const at = new Date()
    this.#begun.set(segment, at.getTime())
    this.#tell({
      kind: 'segment_started',
      ...runOf(segment.run),
      segmentId: segment.id,
      lane: segment.run.lane,
      at,
    })
  }

  ended(segment: Segment, ending: SegmentEnding): void {
    const begun = this.#begun.get(segment)
    if (begun === undefined) return
    this.#begun.delete(segment)
    const of = { ...runOf(segment.run), segmentId: segment.id, lane: segment.run.lane }
    this.#tell({ kind: 'segment_ended', ...of, ending, ms: Math.max(0, Date.now() - begun) })
  }

  async unlessLost<T>(segment: Segment, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (error instanceof SegmentLost) this.ended(segment, 'lost')
      throw error
    }
  }
}

function tellEnd(tell: Tell, run: RunRow, { status, reason }: RunEnding): void {
  const startedAt = run.startedAt ?? run.createdAt
  const { turns, toolCalls } = run
  const ended = { lane: run.lane, status, reason, turns, toolCalls, startedAt: run.createdAt, ms: since(startedAt) }
  tell({ kind: 'run_ended', ...runOf(run), ...ended })
}

export function runOf({ organizationId, id, rootRunId, definition }: RunRow): ObservedRun {
  return { organizationId, runId: id, rootRunId, agent: definition }
}

function since(at: Date): number {
  return Math.max(0, Date.now() - at.getTime())
}
