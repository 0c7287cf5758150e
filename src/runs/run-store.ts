import type { RunUse } from '../decision/ceilings.ts'
import type { Actor, RunSource } from '../tools/invocation.ts'
import type { JsonValue } from '../tools/json.ts'
import type { RunSnapshot, RunStatus } from './definition.ts'
import type { ModelUsage, Proposal, SessionState } from './session.ts'

/** A run as stored. */
export interface RunRow {
  readonly id: string
  readonly organizationId: string
  readonly rootRunId: string
  readonly definitionId: string
  readonly definition: string
  readonly status: RunStatus
  /** Stable code of a failed run, the ceiling or reason of a partial one. */
  readonly reason: string | null
  readonly message: string | null
  readonly source: RunSource
  readonly input: JsonValue
  readonly output: JsonValue | null
  readonly snapshot: RunSnapshot
  readonly turns: number
  readonly toolCalls: number
  readonly wakeCounter: number
  readonly deadline: Date
  readonly wakeAt: Date | null
  readonly createdAt: Date
  readonly startedAt: Date | null
  readonly endedAt: Date | null
}

export interface NewRun {
  readonly id: string
  readonly organizationId: string
  readonly definitionId: string
  readonly definition: string
  readonly source: RunSource
  readonly input: JsonValue
  readonly snapshot: RunSnapshot
  readonly deadline: Date
}

/** The open proposals of a turn, and the turn they belong to. */
export interface Pause {
  readonly id: string
  readonly turnSpanId: string
  readonly proposals: readonly Proposal[]
}

export interface SavedRunSession {
  readonly session: SessionState
  readonly pause: Pause | null
}

/** One uninterrupted stretch of a run. Every write of a segment is conditional on still owning the run. */
export interface Segment {
  readonly id: string
  readonly run: RunRow
  readonly saved: SavedRunSession | null
  readonly use: RunUse
  /** Approvals filed for the pause that is open, answered or not. */
  readonly approvals: readonly string[]
}

export type BeginOutcome =
  | { readonly kind: 'begun'; readonly segment: Segment }
  /** Another segment owns the run and its heart beats. */
  | { readonly kind: 'busy' }
  | { readonly kind: 'ended' }
  | { readonly kind: 'missing' }

/** What one model turn leaves behind, written together: spend, span, counters and the state to go on from. */
export interface TurnRecord {
  readonly span: { readonly id: string; readonly startedAt: Date; readonly text: string }
  readonly usage: ModelUsage & { readonly costCents: number; readonly usageId: string }
  /** False when a read of the turn stopped the segment: the turn is paid for, and its try still counts as failed. */
  readonly progressed: boolean
  readonly saved: SavedRunSession
  /** Tool calls of the run so far. */
  readonly toolCalls: number
}

export interface RunEnding {
  readonly status: Extract<RunStatus, 'completed' | 'partial' | 'failed' | 'cancelled'>
  readonly reason: string | null
  /** For a person. */
  readonly message: string | null
  readonly output: JsonValue | null
}

export interface ParkRequest {
  /** When to look again if nobody answers: an expiry, a lease, the deadline. */
  readonly wakeAt: Date
}

export interface RunListFilter {
  readonly status?: RunStatus
  readonly definition?: string
  readonly limit: number
  readonly cursor: string | null
}

export interface Page<T> {
  readonly items: readonly T[]
  readonly nextCursor: string | null
}

/** Raised by a segment's write when another segment has taken the run over. */
export class SegmentLost extends Error {
  override readonly name = 'SegmentLost'
  constructor(runId: string) {
    super(`another segment owns run ${runId}`)
  }
}

export interface RunStore {
  create(run: NewRun): Promise<RunRow>
  get(organizationId: string, runId: string): Promise<RunRow | null>
  list(organizationId: string, filter: RunListFilter): Promise<Page<RunRow>>
  /** Takes a queued, parked or abandoned run. A running one whose heart stopped for `staleS` seconds counts as abandoned. */
  begin(runId: string, segmentId: string, staleS: number): Promise<BeginOutcome>
  /** @throws SegmentLost */
  beat(segment: Segment): Promise<void>
  /** @throws SegmentLost */
  recordTurn(segment: Segment, turn: TurnRecord): Promise<void>
  /** Saves the proposals of a pause before any of them is decided. @throws SegmentLost */
  saveSession(segment: Segment, saved: SavedRunSession): Promise<void>
  /** `moved` when something woke the run since the segment began: it must look again instead of parking. */
  park(segment: Segment, request: ParkRequest): Promise<'parked' | 'moved'>
  /** Gives a run whose segment failed back for a later try, with a doubling delay; answers failures in a row. Without a fault it is
   * queued as it was: the process is leaving. @throws SegmentLost
   */
  release(segment: Segment, fault: string | null): Promise<number>
  /** Ends the run and cancels its open approvals. @throws SegmentLost */
  end(segment: Segment, ending: RunEnding): Promise<void>
  /** Ends a run that no segment owns: retries are spent. */
  fail(runId: string, ending: RunEnding): Promise<boolean>
  /** Asks a run to stop at its next boundary; answers how many calls were in flight. */
  requestCancel(request: CancelCommand): Promise<{ readonly accepted: boolean; readonly inFlight: number }>
  cancelRequested(segment: Segment): Promise<{ readonly reason: string | null } | null>
  /** Runs that are due: queued or parked past their time, or running with a stopped heart. */
  due(staleS: number, limit: number): Promise<readonly string[]>
  spentCents(organizationId: string, rootRunId: string): Promise<number>
}

export interface CancelCommand {
  readonly organizationId: string
  readonly runId: string
  readonly reason: string | null
  readonly by: Actor
}
