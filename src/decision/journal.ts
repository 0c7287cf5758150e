import type { ToolSpec } from '../tools/models.ts'

/** A claim as stored. The claim is also the replay record: there is no second table. */
export interface JournalRow {
  /** `reclaimable`: nobody knew whether it arrived, and a person said to send it again. */
  readonly status: 'processing' | 'completed' | 'reclaimable'
  /** Hex sha-256 of the validated arguments the claim was taken for. */
  readonly requestHash: string
  readonly attempt: number
  readonly leaseUntil: Date
  /** When the key was first taken; attempts that took over a dead claim leave it as it is. */
  readonly firstClaimedAt: Date
  /** When the owner took it; what a person is told about a call nobody knows the outcome of. */
  readonly claimedAt: Date
}

export type JournalReading = 'absent' | 'completed' | 'processing' | 'conflict' | 'unknown'

/**
 * Reads the journal. A dead worker's claim reads as absent, so that the next attempt executes; where that may be a second
 * effect it reads as `unknown` instead, and a person decides.
 */
export function readJournal(row: JournalRow | null, call: JournalQuestion): JournalReading {
  if (row === null) return 'absent'
  if (row.requestHash !== call.argsHash) return 'conflict'
  if (row.status === 'completed') return 'completed'
  if (row.status === 'reclaimable') return 'absent'
  if (row.leaseUntil > call.now) return 'processing'
  return mayTakeOver(row, call) ? 'absent' : 'unknown'
}

function mayTakeOver(row: JournalRow, { takeoverS, now }: JournalQuestion): boolean {
  return takeoverS === null || row.firstClaimedAt.getTime() + takeoverS * 1000 > now.getTime()
}

/**
 * Seconds after the first attempt in which a dead claim may be run again: null for always, 0 for never. A receiver that
 * forgets keys must still know this one when the last byte of the new attempt arrives.
 */
export function takeoverOf(
  spec: Pick<ToolSpec, 'onUnknown' | 'downstreamKey' | 'downstreamKeyS' | 'timeoutS'>,
): number | null {
  if (spec.onUnknown === 'ask') return 0
  // A contract frozen by an older build has no such field.
  const keptS = spec.downstreamKey ? (spec.downstreamKeyS ?? null) : null
  return keptS === null ? null : Math.max(0, keptS - spec.timeoutS)
}

export interface JournalQuestion {
  readonly argsHash: string
  readonly now: Date
  readonly takeoverS: number | null
}

export type ClaimReading = 'claimed' | 'completed' | 'processing' | 'conflict' | 'unknown' | 'moved'

/**
 * The pure twin of the claim statement in `storage/call-ledger.ts`. `completed` outranks `moved`: an effect that
 * happened is answered, whatever changed since. Only this reading can say `claimed`, and only `readJournal` `absent`.
 */
export function readClaim(row: JournalRow | null, call: JournalQuestion, unmoved: boolean): ClaimReading {
  const reading = readJournal(row, call)
  if (reading === 'completed' || reading === 'conflict') return reading
  if (!unmoved) return 'moved'
  return reading === 'absent' ? 'claimed' : reading
}
