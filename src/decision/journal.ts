/** A claim as stored. The claim is also the replay record: there is no second table. */
export interface JournalRow {
  /** `reclaimable`: nobody knew whether it arrived, and a person said to send it again. */
  readonly status: 'processing' | 'completed' | 'reclaimable'
  /** Hex sha-256 of the validated arguments the claim was taken for. */
  readonly requestHash: string
  readonly attempt: number
  readonly leaseUntil: Date
  /** When the owner took it; what a person is told about a call nobody knows the outcome of. */
  readonly claimedAt: Date
}

export type JournalReading = 'absent' | 'completed' | 'processing' | 'conflict' | 'unknown'

/**
 * Reads the journal. A dead worker's claim reads as absent, so that the next attempt executes; for a tool that asks
 * about unknown outcomes it reads as `unknown` instead, and a person decides.
 */
export function readJournal(row: JournalRow | null, call: JournalQuestion): JournalReading {
  if (row === null) return 'absent'
  if (row.requestHash !== call.argsHash) return 'conflict'
  if (row.status === 'completed') return 'completed'
  if (row.status === 'reclaimable') return 'absent'
  if (row.leaseUntil > call.now) return 'processing'
  return call.onUnknown === 'ask' ? 'unknown' : 'absent'
}

export interface JournalQuestion {
  readonly argsHash: string
  readonly now: Date
  readonly onUnknown: 'reclaim' | 'ask'
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
