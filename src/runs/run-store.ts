import type { RunUse } from '../decision/ceilings.ts'
import type { Actor, RunSource } from '../tools/invocation.ts'
import type { JsonValue } from '../tools/json.ts'
import type { RunSnapshot, RunStatus } from './definition.ts'
import type { BeginRules, Lane } from './lane.ts'
import type { ModelUsage, Proposal, SessionState } from './session.ts'

export type RunKind = 'agent' | 'workflow'

/** A run as stored. */
export interface RunRow {
  readonly id: string
  readonly organizationId: string
  readonly kind: RunKind
  readonly rootRunId: string
  /** The run whose step started this one, and the path of that step; null for a root. */
  readonly parentRunId: string | null
  readonly parentStep: string | null
  /** The failed run in whose place this one was started. */
  readonly retryOf: string | null
  readonly definitionId: string
  readonly definition: string
  readonly status: RunStatus
  readonly lane: Lane
  /** Set while an operator has to let the run go on, with the reason. */
  readonly heldAt: Date | null
  readonly heldReason: string | null
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
  /** `agent` unless said otherwise. */
  readonly kind?: RunKind
  /** Of a run that a step of another one starts. */
  readonly parent?: ParentStep
  /** A failed run, which is started again once. */
  readonly retryOf?: string
  readonly organizationId: string
  readonly definitionId: string
  readonly definition: string
  readonly source: RunSource
  readonly lane: Lane
  readonly input: JsonValue
  readonly snapshot: RunSnapshot
  readonly deadline: Date
}

/** The step that starts a child run. */
export interface ParentStep {
  readonly runId: string
  readonly rootRunId: string
  /** Its path. */
  readonly step: string
  /** Its span, under which the child's stands. */
  readonly spanId: string
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
  /** Segments before this one, in a row, that ended with their process and without the run getting on. */
  readonly abandoned: number
}

export type BeginOutcome =
  | { readonly kind: 'begun'; readonly segment: Segment }
  /** Another segment owns the run and its heart beats. */
  | { readonly kind: 'busy' }
  /** It stays where it is until there is a place, the lane goes on, or an operator lets it go. A cancel or its deadline can end it meanwhile. */
  | {
      readonly kind: 'waiting'
      readonly why: 'lane_full' | 'lane_paused' | 'held'
      readonly run: RunRow
      readonly cancel: { readonly reason: string | null } | null
    }
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

/** What ended a segment that nobody wanted to end. */
export interface SegmentFault {
  /** For a person. */
  readonly message: string
  /** How the run ends when more than `maxFailures` segments in a row have failed; null leaves it to whoever drives the run. */
  readonly final: { readonly maxFailures: number; readonly ending: RunEnding } | null
}

export type ReleaseOutcome = {
  /** `failed` when the tries are spent: the run has ended in the same step, so that exactly one segment hears it. */
  readonly kind: 'queued' | 'failed'
  /** In a row. */
  readonly failures: number
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
  /**
   * Takes a queued, parked or abandoned run, if its lane has a place. A running one whose heart stopped for `staleS` seconds
   * counts as abandoned and gives its place back, whichever run of the lane asks.
   */
  begin(runId: string, segmentId: string, rules: BeginRules): Promise<BeginOutcome>
  /** @throws SegmentLost */
  beat(segment: Segment): Promise<void>
  /** @throws SegmentLost */
  recordTurn(segment: Segment, turn: TurnRecord): Promise<void>
  /** Saves the proposals of a pause before any of them is decided. @throws SegmentLost */
  saveSession(segment: Segment, saved: SavedRunSession): Promise<void>
  /** `moved` when something woke the run since the segment began: it must look again instead of parking. */
  park(segment: Segment, request: ParkRequest): Promise<'parked' | 'moved'>
  /**
   * Gives a run back whose segment failed: for a later try, with a doubling delay, or ended when its tries are spent. Without
   * a fault it is queued as it was: the process is leaving, or the lane is paused. @throws SegmentLost
   */
  release(segment: Segment, fault: SegmentFault | null): Promise<ReleaseOutcome>
  /** Ends the run and cancels its open approvals. @throws SegmentLost */
  end(segment: Segment, ending: RunEnding): Promise<void>
  /** Ends a run that no segment owns: it was cancelled, or its time was over, while it waited. Null when one owns it by now, or it has ended. */
  fail(runId: string, ending: RunEnding): Promise<RunRow | null>
  /** Asks a run and everything below it to stop at their next boundary. */
  requestCancel(request: CancelCommand): Promise<CancelOutcome>
  cancelRequested(segment: Segment): Promise<{ readonly reason: string | null } | null>
  /** Something a run waits for may have come: it looks again, whether it waits or is about to. */
  nudge(runId: string): Promise<void>
  /** Whether somebody paused the lane of the segment's run: it leaves at its next boundary. */
  lanePaused(segment: Segment): Promise<boolean>
  /** Runs that are due, of one organization or of all: for the free places of each lane those that wait longest, and running ones with a stopped heart. */
  due(rules: BeginRules, limit: number, organizationId?: string): Promise<readonly string[]>
  spentCents(organizationId: string, rootRunId: string): Promise<number>
}

export interface CancelCommand {
  readonly organizationId: string
  readonly runId: string
  readonly reason: string | null
  readonly by: Actor
}

export interface CancelOutcome {
  readonly accepted: boolean
  /** Calls of the run that were in flight. */
  readonly inFlight: number
  /** Runs below it that were asked to stop as well. */
  readonly below: readonly string[]
}
