import type { ClaimEnding } from '../decision/claim-ending.ts'
import type { DecisionRecord } from '../tools/invoker.ts'
import type { RunStatus } from '../runs/definition.ts'

/** Which run something belongs to. For traces and logs: a metric that had one of these as a label would grow without end. */
export interface ObservedRun {
  readonly organizationId: string
  readonly runId: string
  /** The run itself where it stands in no tree. */
  readonly rootRunId: string
  /** Slug of the definition. */
  readonly agent: string
}

/** A call as far as an observer may know it: never its arguments, never its answer. */
export interface ObservedCall extends ObservedRun {
  readonly spanId: string
  /** Id of the turn or run it stands under; null outside a run tree. */
  readonly parentId: string | null
  /** False where the call was refused before its name was known to be a tool's: then the name is whatever the model wrote. */
  readonly admitted: boolean
  readonly tool: string
}

export interface ObservedDecision {
  readonly effect: DecisionRecord['outcome']
  readonly stage: 1 | 2
  /** Null when the organization's default decided. */
  readonly rule: string | null
}

/** How a segment ended: `lost` when another one had taken the run over. */
export type SegmentEnding = 'ended' | 'parked' | 'moved' | 'released' | 'failed' | 'lost'

interface RunCreated extends ObservedRun {
  readonly kind: 'run_created'
  readonly lane: string
}

interface SegmentStarted extends ObservedRun {
  readonly kind: 'segment_started'
  readonly segmentId: string
  readonly lane: string
  readonly at: Date
}

interface SegmentEnded extends ObservedRun {
  readonly kind: 'segment_ended'
  readonly segmentId: string
  readonly lane: string
  readonly ending: SegmentEnding
  readonly ms: number
}

interface RunEnded extends ObservedRun {
  readonly kind: 'run_ended'
  readonly lane: string
  readonly status: RunStatus
  /** Stable code or ceiling; null when it completed. */
  readonly reason: string | null
  readonly turns: number
  readonly toolCalls: number
  readonly startedAt: Date
  readonly ms: number
}

interface TurnStarted extends ObservedRun {
  readonly kind: 'turn_started'
  readonly spanId: string
  readonly model: string
  readonly at: Date
}

interface TurnEnded extends ObservedRun {
  readonly kind: 'turn_ended'
  readonly spanId: string
  readonly provider: string
  readonly model: string
  readonly inputTokens: number
  readonly outputTokens: number
  readonly costCents: number
  readonly startedAt: Date
  readonly ms: number
}

/** A decision that was written down. */
interface Decided extends ObservedCall, ObservedDecision {
  readonly kind: 'decision'
}

interface CallEnded extends ObservedCall {
  readonly kind: 'call_ended'
  /** `held` when a person is asked: no failure, and not the end of the call either. */
  readonly outcome: 'ok' | 'error' | 'held'
  /** Stable code, or the class of what was raised. */
  readonly code: string | null
  readonly attempt: number | null
  readonly replayed: boolean
  readonly untrusted: boolean
  /** What became of the claim; null when the call took none. */
  readonly claim: ClaimEnding | 'stale' | null
  readonly decision: ObservedDecision | null
  readonly startedAt: Date
  readonly ms: number
}

interface QuestionFiled extends ObservedCall {
  readonly kind: 'question_filed'
  readonly question: 'action' | 'outcome'
}

interface QuestionAnswered {
  readonly kind: 'question_answered'
  readonly organizationId: string
  readonly runId: string
  readonly tool: string
  readonly state: string
  readonly waitedMs: number
}

interface QuestionsExpired {
  readonly kind: 'questions_expired'
  readonly count: number
}

/** A usage row of a tool. */
interface Spent {
  readonly kind: 'spent'
  readonly provider: string
  readonly costCents: number
}

/** Something that was to be recorded and was not. */
interface Dropped {
  readonly kind: 'dropped'
  readonly what: 'read_spans'
}

export type ObservedEvent =
  | RunCreated
  | SegmentStarted
  | SegmentEnded
  | RunEnded
  | TurnStarted
  | TurnEnded
  | Decided
  | CallEnded
  | QuestionFiled
  | QuestionAnswered
  | QuestionsExpired
  | Spent
  | Dropped

/** Where one call stands while it runs. */
export interface CallScope {
  readonly runId: string
  readonly rootRunId: string
  readonly spanId: string
  readonly parentId: string
}

/** Watches what happens and changes nothing: what it raises is logged and dropped. */
export interface Observer {
  observe(event: ObservedEvent): void
  /** Runs `work`, one call, inside a context of the observer's own. It must answer what `work` answers and raise what it raises. */
  insideCall?<T>(scope: CallScope, work: () => Promise<T>): Promise<T>
}
