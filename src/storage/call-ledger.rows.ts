import { readClaim, takeoverOf, type JournalRow } from '../decision/journal.ts'
import type { LimitUse } from '../decision/limits.ts'
import { isErased } from '../tools/erased.ts'
import type { AdmittedCall, CallState, ClaimOutcome, FileOutcome, StoredResponse } from '../tools/invoker.ts'
import type { JsonValue } from '../tools/json.ts'
import { erasedAnswer } from '../tools/result.ts'

/* What the statements of the ledger answer, and what it means. */

interface JournalColumns {
  readonly status: JournalRow['status'] | null
  readonly request_hash: string | null
  readonly attempt: number | null
  readonly lease_until: Date | null
  readonly first_claimed_at: Date | null
  readonly claimed_at: Date | null
  readonly response: StoredResponse['result'] | null
  readonly completed_at: Date | null
}

export interface OpenRow extends JournalColumns {
  readonly now: Date
  readonly rules_version: number
  readonly enabled: boolean
  readonly granted: boolean
  readonly cancelled: boolean
  readonly cancel_reason: string | null
  readonly approval_id: string | null
  readonly approval_state: 'pending' | 'approved' | 'rejected' | 'expired' | 'cancelled' | 'stale' | null
  readonly approval_note: string | null
  readonly approval_expires_at: Date | null
  readonly approval_connection_id: string | null
  readonly spent_cents: number | null
  readonly taint_sources: readonly string[] | null
  readonly limit_uses: readonly LimitUse[] | null
  readonly counted: Readonly<Record<string, string>> | null
}

export interface FileRow {
  readonly filed: Date | null
  readonly refused: boolean
  readonly refusal_note: string | null
  readonly pending_id: string | null
  readonly pending_expires_at: Date | null
  readonly pending_same: boolean | null
}

export interface ClaimRow extends JournalColumns {
  readonly unmoved: boolean
  readonly won: number | null
  readonly now: Date
}

export function stateOf(row: OpenRow, call: AdmittedCall): CallState {
  return {
    now: row.now,
    journal: journalOf(row),
    response: responseOf(row),
    toolEnabled: row.enabled,
    granted: row.granted,
    rulesVersion: row.rules_version,
    cancelled: row.cancelled ? { reason: row.cancel_reason } : null,
    approval: approvalOf(row, call),
    spentCents: row.spent_cents,
    taintSources: row.taint_sources ?? [],
    limits: { uses: row.limit_uses ?? [], countedBy: Object.keys(row.counted ?? {}) },
  }
}

/** Null when the row that stood in the way was not seen: the statement has to run again. */
export function fileOutcome(row: FileRow | undefined, approvalId: string): FileOutcome | null {
  if (row === undefined) return null
  if (row.refused) return { kind: 'rejected', note: row.refusal_note }
  if (row.filed !== null) return { kind: 'filed', approvalId, expiresAt: row.filed }
  if (row.pending_id === null || row.pending_expires_at === null) return null
  return {
    kind: 'pending',
    approvalId: row.pending_id,
    expiresAt: row.pending_expires_at,
    sameCall: row.pending_same === true,
  }
}

/** Null when the row that stood in the way was not seen: the statement has to run again. */
export function claimOutcome(row: ClaimRow | undefined, call: AdmittedCall): ClaimOutcome | null {
  if (row === undefined) throw new Error(`organization ${call.invocation.organizationId} does not exist`)
  if (row.won !== null) return { kind: 'claimed', attempt: row.won }
  const journal = journalOf(row)
  const question = { argsHash: call.argsHash, now: row.now, takeoverS: takeoverOf(call.spec) }
  const reading = readClaim(journal, question, row.unmoved)
  switch (reading) {
    case 'claimed':
      return null
    case 'completed': {
      const response = responseOf(row)
      if (response === null) throw new Error(`the completed claim of ${call.spec.name} holds no response`)
      return { kind: 'completed', response }
    }
    case 'processing':
      return { kind: 'processing', leaseUntil: journal?.leaseUntil ?? row.now }
    case 'unknown':
      return journal === null ? null : { kind: 'unknown', journal }
    case 'conflict':
    case 'moved':
      return { kind: reading }
  }
}

function journalOf(row: JournalColumns): JournalRow | null {
  const { status, request_hash: requestHash, attempt, lease_until: leaseUntil } = row
  const { first_claimed_at: firstClaimedAt, claimed_at: claimedAt } = row
  if (status === null || requestHash === null || attempt === null) return null
  if (leaseUntil === null || firstClaimedAt === null || claimedAt === null) return null
  return { status, requestHash, attempt, leaseUntil, firstClaimedAt, claimedAt }
}

function responseOf(row: JournalColumns): StoredResponse | null {
  if (row.response === null || row.completed_at === null) return null
  // An erasure writes its marker over whatever stood there.
  const stored: unknown = row.response
  const result = isErased(stored as JsonValue) ? erasedAnswer() : row.response
  return { result, completedAt: row.completed_at }
}

function approvalOf(row: OpenRow, call: AdmittedCall): CallState['approval'] {
  if (row.approval_id === null || row.approval_state === null || row.approval_expires_at === null) return null
  const { organizationId, runId } = call.invocation
  return {
    id: row.approval_id,
    organizationId,
    runId,
    action: call.spec.name,
    argumentsHash: call.argsHash,
    state: row.approval_state,
    note: row.approval_note,
    expiresAt: row.approval_expires_at,
    connectionId: row.approval_connection_id,
  }
}
