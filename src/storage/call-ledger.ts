import { readClaim, type JournalRow } from '../decision/journal.ts'
import type {
  AdmittedCall,
  CallEnding,
  CallLedger,
  CallState,
  ClaimOutcome,
  CloseOutcome,
  DecisionRecord,
  Expected,
  FileOutcome,
  Hold,
  Needs,
  SpanSubject,
  StoredResponse,
} from '../tools/invoker.ts'
import type { JsonValue } from '../tools/json.ts'
import type { Queryable } from './database.ts'
import { CLAIM, CLOSE, CLOSE_CLAIMED, CLOSE_MANY, FILE, OPEN, TOOL_ENABLED } from './call-ledger.sql.ts'

/**
 * Two racers that insert one key: the loser of ON CONFLICT can see zero rows in the same statement (measured, 4,974 of
 * 5,000 races). Zero rows therefore mean *unseen*, and the statement runs again before anything is decided.
 */
const UNSEEN_ROUNDS = 20

/** Successful reads are written in one statement per batch. */
const BATCH_ROWS = 50
const BATCH_MS = 50

interface JournalColumns {
  readonly status: JournalRow['status'] | null
  readonly request_hash: string | null
  readonly attempt: number | null
  readonly lease_until: Date | null
  readonly claimed_at: Date | null
  readonly response: StoredJson | null
  readonly completed_at: Date | null
}

type StoredJson = StoredResponse['result']

interface LedgerOptions {
  readonly newId: () => string
  /** Told of every span that was written, so that a live view need not poll. */
  readonly onSpan?: (organizationId: string, runId: string) => void
}

/** The I/O of a call's decision: three sequential round trips around a write's handler, one before a read's. */
export function callLedger(database: Queryable, options: LedgerOptions): CallLedger {
  return new SqlCallLedger(database, options)
}

class SqlCallLedger implements CallLedger {
  readonly #database: Queryable
  readonly #options: LedgerOptions
  #batch: JsonValue[] = []
  #timer: NodeJS.Timeout | null = null
  #writing: Promise<void> = Promise.resolve()
  #failed: unknown = null

  constructor(database: Queryable, options: LedgerOptions) {
    this.#database = database
    this.#options = options
  }

  async open(call: AdmittedCall, needs: Needs): Promise<CallState> {
    const { organizationId, runId, principal } = call.invocation
    const { rows } = await this.#database.query<OpenRow>(OPEN, [
      organizationId,
      runId,
      call.spec.name,
      principal.agent,
      scopeOf(call),
      call.key,
      call.argsHash,
      JSON.stringify(needs.authorizedBy),
      needs.spend,
      call.rootRunId,
    ])
    const row = rows[0]
    if (row === undefined) throw new Error(`organization ${organizationId} does not exist`)
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
    }
  }

  async toolEnabled(organizationId: string, tool: string): Promise<boolean> {
    const { rows } = await this.#database.query<{ enabled: boolean }>(TOOL_ENABLED, [organizationId, tool])
    return rows[0]?.enabled ?? true
  }

  async file(call: AdmittedCall, hold: Hold): Promise<FileOutcome> {
    for (let round = 0; round < UNSEEN_ROUNDS; round += 1) {
      const { rows } = await this.#database.query<FileRow>(FILE, [
        ...spanValues(call, { status: 'ok', code: null, attributes: { approvalId: hold.approvalId } }),
        ...decisionValues(call, { ...hold.decision, approvalId: hold.approvalId }, this.#options.newId()),
        hold.approvalId,
        call.key,
        hold.pauseId,
        hold.kind,
        JSON.stringify(call.args),
        call.argsHash,
        hold.preview,
        JSON.stringify(hold.decision.policy?.approvers ?? []),
        JSON.stringify(call.invocation.principal),
        hold.ttlS,
        call.spec.version,
        typeof call.args['connection_id'] === 'string' ? call.args['connection_id'] : null,
      ])
      const outcome = fileOutcome(rows[0], hold.approvalId)
      if (outcome === null) continue
      this.#told(call)
      return outcome
    }
    throw new Error(`${call.spec.name}: the approval of one call could not be filed in ${UNSEEN_ROUNDS} attempts`)
  }

  async claim(call: AdmittedCall, decision: DecisionRecord, expected: Expected): Promise<ClaimOutcome> {
    for (let round = 0; round < UNSEEN_ROUNDS; round += 1) {
      const { rows } = await this.#database.query<ClaimRow>(CLAIM, [
        ...spanValues(call, { status: 'running', code: null, attributes: { toolVersion: call.spec.version } }),
        ...decisionValues(call, decision, this.#options.newId()),
        scopeOf(call),
        call.key,
        call.argsHash,
        expected.leaseS,
        expected.rulesVersion,
        call.invocation.principal.agent,
        call.spec.onUnknown === 'reclaim',
      ])
      const outcome = claimOutcome(rows[0], call)
      if (outcome === null) continue
      this.#told(call)
      return outcome
    }
    throw new Error(`${call.spec.name}: the claim of one call could not be read in ${UNSEEN_ROUNDS} attempts`)
  }

  async close(call: SpanSubject | AdmittedCall, ending: CallEnding): Promise<CloseOutcome> {
    const span = spanValues(call, {
      status: ending.status,
      code: ending.code,
      attributes: endingAttributes(call, ending),
    })
    const output =
      ending.result === null
        ? null
        : JSON.stringify({
            ok: ending.result.ok,
            data: ending.result.data,
            error: ending.result.error,
            meta: ending.result.meta,
          })
    if (ending.claim !== null && 'spec' in call) return this.#closeClaimed(call, { ending, span, output })
    const decision =
      ending.decision === null ? NO_DECISION : decisionValues(call, ending.decision, this.#options.newId())
    if ('spec' in call && call.key === null && ending.status === 'ok')
      this.#enqueue(call, [...span, output, ...decision])
    else {
      await this.#database.query(CLOSE, [...span, output, ...decision])
      this.#told(call)
    }
    return 'owned'
  }

  async #closeClaimed(
    call: AdmittedCall,
    closing: { ending: CallEnding; span: readonly SqlValue[]; output: string | null },
  ): Promise<CloseOutcome> {
    const { ending, span, output } = closing
    const response = ending.claim === 'complete' ? JSON.stringify(ending.result) : null
    const { rows } = await this.#database.query<{ owned: boolean }>(CLOSE_CLAIMED, [
      ...span,
      output,
      scopeOf(call),
      call.key,
      ending.claim,
      response,
    ])
    this.#told(call)
    return rows[0]?.owned === true ? 'owned' : 'stale'
  }

  #enqueue(call: AdmittedCall, values: readonly SqlValue[]): void {
    this.#batch.push(Object.fromEntries(values.map((value, index) => [`v${index + 1}`, value])))
    this.#options.onSpan?.(call.invocation.organizationId, call.invocation.runId)
    if (this.#batch.length >= BATCH_ROWS) this.#writeBatch()
    else this.#timer ??= setTimeout(() => this.#writeBatch(), BATCH_MS)
  }

  #writeBatch(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#batch.length === 0) return
    const rows = JSON.stringify(this.#batch)
    this.#batch = []
    this.#writing = this.#writing
      .then(() => this.#database.query(CLOSE_MANY, [rows]))
      .then(
        () => undefined,
        (error: unknown) => {
          this.#failed ??= error
        },
      )
  }

  async flush(): Promise<void> {
    this.#writeBatch()
    await this.#writing
    const failed = this.#failed
    this.#failed = null
    if (failed !== null) throw failed
  }

  #told(call: SpanSubject): void {
    this.#options.onSpan?.(call.invocation.organizationId, call.invocation.runId)
  }
}

type SqlValue = string | number | boolean | null

interface OpenRow extends JournalColumns {
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
  readonly spent_cents: number | null
}

interface FileRow {
  readonly filed: Date | null
  readonly refused: boolean
  readonly refusal_note: string | null
  readonly pending_id: string | null
  readonly pending_expires_at: Date | null
  readonly pending_same: boolean | null
}

interface ClaimRow extends JournalColumns {
  readonly unmoved: boolean
  readonly won: number | null
  readonly now: Date
}

function scopeOf(call: AdmittedCall): string {
  return `tool.${call.spec.name}`
}

/** $1 … $12 of every statement that writes a span. */
function spanValues(
  call: SpanSubject,
  closing: { status: string; code: string | null; attributes: Record<string, JsonValue> },
): SqlValue[] {
  const { organizationId, runId } = call.invocation
  return [
    call.span.id,
    organizationId,
    runId,
    call.rootRunId,
    call.span.parentId,
    call.toolName,
    closing.status,
    closing.code,
    call.span.startedAt.toISOString(),
    JSON.stringify(closing.attributes),
    JSON.stringify(call.span.input),
  ]
}

/** Null decision columns: nothing is written. */
const NO_DECISION: readonly SqlValue[] = [null, null, null, null, null, null, null, null, null]

function decisionValues(call: SpanSubject, decision: DecisionRecord, id: string): SqlValue[] {
  return [
    id,
    call.toolName,
    decision.stage,
    decision.outcome,
    decision.policy?.ruleId ?? null,
    decision.policy?.ruleName ?? null,
    decision.message ?? decision.policy?.message ?? null,
    JSON.stringify({ facts: decision.policy?.facts ?? {}, shadow: decision.policy?.shadow ?? [] }),
    decision.approvalId,
  ]
}

function endingAttributes(call: SpanSubject | AdmittedCall, ending: CallEnding): Record<string, JsonValue> {
  return {
    ...('spec' in call ? { toolVersion: call.spec.version } : {}),
    ...(ending.replayed ? { replayed: true } : {}),
    ...(ending.attempt === null ? {} : { attempt: ending.attempt }),
    ...(ending.result?.meta.usageId === undefined ? {} : { usageId: ending.result.meta.usageId }),
    ...(ending.result?.meta.untrusted === true ? { untrusted: true } : {}),
  }
}

function journalOf(row: JournalColumns): JournalRow | null {
  if (
    row.status === null ||
    row.request_hash === null ||
    row.attempt === null ||
    row.lease_until === null ||
    row.claimed_at === null
  )
    return null
  return {
    status: row.status,
    requestHash: row.request_hash,
    attempt: row.attempt,
    leaseUntil: row.lease_until,
    claimedAt: row.claimed_at,
  }
}

function responseOf(row: JournalColumns): StoredResponse | null {
  return row.response === null || row.completed_at === null
    ? null
    : { result: row.response, completedAt: row.completed_at }
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
  }
}

function fileOutcome(row: FileRow | undefined, approvalId: string): FileOutcome | null {
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

function claimOutcome(row: ClaimRow | undefined, call: AdmittedCall): ClaimOutcome | null {
  if (row === undefined) throw new Error(`organization ${call.invocation.organizationId} does not exist`)
  if (row.won !== null) return { kind: 'claimed', attempt: row.won }
  const journal = journalOf(row)
  const reading = readClaim(
    journal,
    { argsHash: call.argsHash, now: row.now, onUnknown: call.spec.onUnknown },
    row.unmoved,
  )
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
