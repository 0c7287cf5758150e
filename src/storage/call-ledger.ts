import type { ClaimEnding } from '../decision/claim-ending.ts'
import { takeoverOf } from '../decision/journal.ts'
import { countsOf, type LimitCount } from '../decision/limits.ts'
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
} from '../tools/invoker.ts'
import { claimOutcome, fileOutcome, stateOf, type ClaimRow, type FileRow, type OpenRow } from './call-ledger.rows.ts'
import { takesClaim } from '../tools/models.ts'
import {
  CLAIM,
  CLAIM_COUNTED,
  CLOSE,
  CLOSE_MANY,
  COMPLETE,
  COUNT,
  FILE,
  HOLD,
  LIMIT_REACHED,
  OPEN,
  RELEASE,
  TOOL_ENABLED,
} from './call-ledger.sql.ts'
import {
  decisionValues,
  endingAttributes,
  holdValues,
  NO_DECISION,
  outputOf,
  rootOf,
  scopeOf,
  spanValues,
  type SqlValue,
} from './call-ledger.values.ts'
import type { Queryable, Statement } from './database.ts'
import { sqlState } from './errors.ts'
import { KnownTaints } from './known-taints.ts'

/**
 * Two racers that insert one key: the loser of ON CONFLICT can see zero rows in the same statement (measured, 4,974 of
 * 5,000 races). Zero rows therefore mean *unseen*, and the statement runs again before anything is decided.
 */
const UNSEEN_ROUNDS = 20

/** Successful reads are written in one statement per batch. */
const BATCH_ROWS = 50
const BATCH_MS = 50

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
  readonly #taints = new KnownTaints()
  #batch: { readonly row: Readonly<Record<string, SqlValue>>; readonly since: number }[] = []
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
    return stateOf(row, call)
  }

  async toolEnabled(organizationId: string, tool: string): Promise<boolean> {
    const { rows } = await this.#database.query<{ enabled: boolean }>(TOOL_ENABLED, [organizationId, tool])
    return rows[0]?.enabled ?? true
  }

  async file(call: AdmittedCall, hold: Hold): Promise<FileOutcome> {
    const { approvalId } = hold
    for (let round = 0; round < UNSEEN_ROUNDS; round += 1) {
      const { rows } = await this.#database.query<FileRow>(FILE, [
        ...spanValues(call, { status: 'ok', code: null, attributes: { approvalId } }),
        ...decisionValues(call, { ...hold.decision, approvalId }, this.#options.newId()),
        ...holdValues(call, hold),
      ])
      const outcome = fileOutcome(rows[0], approvalId)
      if (outcome === null) continue
      this.#told(call)
      return outcome
    }
    throw new Error(`${call.spec.name}: the approval of one call could not be filed in ${UNSEEN_ROUNDS} attempts`)
  }

  async claim(call: AdmittedCall, decision: DecisionRecord, expected: Expected): Promise<ClaimOutcome> {
    const counts = countsOf(decision)
    for (let round = 0; round < UNSEEN_ROUNDS; round += 1) {
      const values = [
        ...spanValues(call, { status: 'running', code: null, attributes: { toolVersion: call.spec.version } }),
        ...decisionValues(call, decision, this.#options.newId()),
        scopeOf(call),
        call.key,
        expected.leaseS,
        expected.rulesVersion,
        call.invocation.principal.agent,
        takeoverOf(call.spec),
      ]
      const rows =
        counts.length === 0
          ? (await this.#database.query<ClaimRow>(CLAIM, values)).rows
          : await this.#unlessOverLimit<ClaimRow>(CLAIM_COUNTED, [...values, JSON.stringify(counts)])
      if (rows === null) return { kind: 'moved' }
      const outcome = claimOutcome(rows[0], call)
      if (outcome === null) continue
      this.#told(call)
      return outcome
    }
    throw new Error(`${call.spec.name}: the claim of one call could not be read in ${UNSEEN_ROUNDS} attempts`)
  }

  async count(call: AdmittedCall, counts: readonly LimitCount[]): Promise<'counted' | 'moved'> {
    const { organizationId } = call.invocation
    const rows = await this.#unlessOverLimit(COUNT, [organizationId, rootOf(call), JSON.stringify(counts)])
    return rows === null ? 'moved' : 'counted'
  }

  /** Null when a limit had no room left: then the statement changed nothing. */
  async #unlessOverLimit<Row>(statement: Statement, values: readonly SqlValue[]): Promise<readonly Row[] | null> {
    try {
      return (await this.#database.query<Row>(statement, values)).rows
    } catch (error) {
      if (sqlState(error) === LIMIT_REACHED) return null
      throw error
    }
  }

  async close(call: SpanSubject | AdmittedCall, ending: CallEnding): Promise<CloseOutcome> {
    const attributes = endingAttributes(call, ending)
    const span = spanValues(call, { status: ending.status, code: ending.code, attributes })
    const closing = { span: [...span, outputOf(ending)], taint: this.#newTaint(call, ending) }
    const outcome =
      ending.claim !== null && 'spec' in call
        ? await this.#closeClaimed(call, { ...ending, claim: ending.claim }, closing)
        : await this.#closeUnclaimed(call, ending, closing)
    if (closing.taint !== null) this.#taints.add(rootOf(call), closing.taint)
    return outcome
  }

  /** The tool, when its answer brings untrusted content into a run tree that is not known to have any from it. */
  #newTaint(call: SpanSubject, { result }: CallEnding): string | null {
    const untrusted = result?.meta.untrusted === true
    return untrusted && !this.#taints.has(rootOf(call), call.toolName) ? call.toolName : null
  }

  /** Reads that went well are written later, in a batch; but not what taints, which the next decision has to see. */
  async #closeUnclaimed(call: SpanSubject | AdmittedCall, ending: CallEnding, closing: Closing): Promise<CloseOutcome> {
    const admitted = 'spec' in call ? call : null
    const decision =
      ending.decision === null || admitted === null
        ? NO_DECISION
        : decisionValues(admitted, ending.decision, this.#options.newId())
    const values = [...closing.span, ...decision]
    if (admitted !== null && !takesClaim(admitted.spec) && ending.status === 'ok' && closing.taint === null)
      this.#enqueue(admitted, values)
    else {
      await this.#database.query(CLOSE, [...values, closing.taint])
      this.#told(call)
    }
    return 'owned'
  }

  async #closeClaimed(call: AdmittedCall, ending: ClaimedEnding, closing: Closing): Promise<CloseOutcome> {
    const { rows } = await this.#database.query<{ owned: boolean }>(ENDINGS[ending.claim], [
      ...closing.span,
      scopeOf(call),
      call.key,
      closing.taint,
      ...(ending.claim === 'complete' ? [JSON.stringify(ending.result)] : []),
    ])
    this.#told(call)
    return rows[0]?.owned === true ? 'owned' : 'stale'
  }

  #enqueue(call: AdmittedCall, values: readonly SqlValue[]): void {
    const row = Object.fromEntries(values.map((value, index) => [`v${index + 1}`, value]))
    this.#batch.push({ row, since: performance.now() })
    this.#options.onSpan?.(call.invocation.organizationId, call.invocation.runId)
    if (this.#batch.length >= BATCH_ROWS) this.#writeBatch()
    else this.#timer ??= setTimeout(() => this.#writeBatch(), BATCH_MS)
  }

  #writeBatch(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#batch.length === 0) return
    const now = performance.now()
    const rows = JSON.stringify(this.#batch.map(({ row, since }) => ({ ...row, waited: (now - since) / 1000 })))
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

const ENDINGS: Readonly<Record<ClaimEnding, Statement>> = { complete: COMPLETE, release: RELEASE, hold: HOLD }

type ClaimedEnding = CallEnding & { readonly claim: ClaimEnding }

/** Span with output, and what it taints with. */
interface Closing {
  readonly span: readonly SqlValue[]
  readonly taint: string | null
}
