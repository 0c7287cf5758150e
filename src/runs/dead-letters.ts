import type { Page } from './run-store.ts'

/** Why something stays where it is until a person looks. */
export const DEAD_LETTER_KINDS = [
  /** A run that failed after its tries and was not started again. */
  'run_failed',
  /** A run that an operator has to let go on. */
  'run_held',
  /** A question that nobody answered in time; the agent was refused and went on. */
  'approval_expired',
  /** A question whose ground moved before it was answered. */
  'approval_stale',
  /** Nobody has said whether a call took effect. */
  'outcome_unanswered',
] as const

export type DeadLetterKind = (typeof DEAD_LETTER_KINDS)[number]

/** One thing that needs a person. It tells what it is about and quotes nothing of it. */
export interface DeadLetter {
  /** Of the run, or of the approval. */
  readonly id: string
  readonly kind: DeadLetterKind
  readonly runId: string
  readonly definition: string
  /** Of an approval. */
  readonly tool: string | null
  /** Stable code of a failed run; null otherwise. */
  readonly reason: string | null
  /** For a person. */
  readonly message: string | null
  readonly at: Date
}

export interface DeadLetterFilter {
  readonly kind?: DeadLetterKind
  readonly limit: number
  /** Id of the last one of the page before. */
  readonly cursor: string | null
}

export interface DeadLetterStore {
  /** Newest first. */
  list(organizationId: string, filter: DeadLetterFilter): Promise<Page<DeadLetter>>
}
