import { sql, type Selectable } from 'kysely'
import type {
  AnswerWrite,
  Approval,
  ApprovalFilter,
  ApprovalStore,
  ClaimAnswer,
  Decided,
  LockedApproval,
} from '../approvals/approval-store.ts'
import type { Page } from '../runs/run-store.ts'
import type { Actor, Principal } from '../tools/invocation.ts'
import type { JsonObject } from '../tools/json.ts'
import type { Database, Queryable } from './database.ts'
import { pageOf } from './page.ts'
import type { DatabaseSchema } from './schema.ts'
import { statement } from './statement.ts'

type Row = Selectable<DatabaseSchema['agent.approvals']>

interface LockedRow extends Row {
  readonly now: Date
  readonly enabled: boolean
  readonly granted: boolean
  readonly connection_usable: boolean
  readonly run_open: boolean
  readonly self_approval: boolean
  readonly started_by: string
}

/** The approval row is locked; what it is judged on is read in the same snapshot. */
const LOCK = statement(
  'approval_lock',
  `SELECT a.*, clock_timestamp() AS now, coalesce(ts.enabled, true) AS enabled,
     EXISTS (
       SELECT FROM agent.grants g WHERE g.organization_id = a.organization_id AND g.tool = a.action
         AND g.definition = a.principal ->> 'agent' AND g.revoked_at IS NULL
     ) AS granted,
     a.connection_id IS NULL OR EXISTS (
       SELECT FROM agent.connections c WHERE c.organization_id = a.organization_id AND c.id = a.connection_id AND c.state = 'connected'
     ) AS connection_usable,
     r.status IN ('queued', 'running', 'parked') AS run_open,
     coalesce((o.settings ->> 'selfApproval')::boolean, false) AS self_approval,
     a.principal -> 'startedBy' ->> 'id' AS started_by
   FROM agent.approvals a
   JOIN agent.organizations o ON o.id = a.organization_id
   JOIN agent.runs r ON r.id = a.run_id AND r.organization_id = a.organization_id
   LEFT JOIN agent.tool_states ts ON ts.organization_id = a.organization_id AND ts.tool = a.action
   WHERE a.organization_id = $1::uuid AND a.id = $2::uuid
   FOR UPDATE OF a`,
)

const DECIDE = statement(
  'approval_decide',
  `UPDATE agent.approvals SET state = $3::text, decided_at = clock_timestamp(), decided_by = $4::jsonb, note = $5::text
   WHERE organization_id = $1::uuid AND id = $2::uuid`,
)

const WAKE = statement(
  'approval_wake',
  `UPDATE agent.runs SET wake_counter = wake_counter + 1, wake_at = CASE WHEN status = 'parked' THEN clock_timestamp() ELSE wake_at END
   WHERE id = $1::uuid AND status IN ('queued', 'running', 'parked')`,
)

const STOP = statement(
  'approval_stop_run',
  `UPDATE agent.run_control SET cancel_requested_at = clock_timestamp(), cancel_reason = $3::text, cancelled_by = $4::jsonb
   WHERE organization_id = $1::uuid AND run_id = $2::uuid AND cancel_requested_at IS NULL`,
)

/** The claim a question about an outcome was asked for. A worker that finished meanwhile has completed it, and its answer stands. */
const COMPLETE_CLAIM = statement(
  'approval_complete_claim',
  `UPDATE agent.idempotency_keys SET status = 'completed', response = $4::json, completed_at = clock_timestamp()
   WHERE organization_id = $1::uuid AND scope = $2::text AND key = $3::text AND status = 'processing' AND lease_until <= clock_timestamp()`,
)

const RECLAIM = statement(
  'approval_reclaim',
  `UPDATE agent.idempotency_keys SET status = 'reclaimable'
   WHERE organization_id = $1::uuid AND scope = $2::text AND key = $3::text AND status = 'processing' AND lease_until <= clock_timestamp()`,
)

export function approvalStore(database: Database): ApprovalStore {
  return new SqlApprovalStore(database)
}

class SqlApprovalStore implements ApprovalStore {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  async get(organizationId: string, id: string): Promise<Approval | null> {
    const row = await this.#database.kysely
      .selectFrom('agent.approvals')
      .selectAll()
      .where('organization_id', '=', organizationId)
      .where('id', '=', id)
      .executeTakeFirst()
    return row === undefined ? null : approvalOf(row)
  }

  async list(organizationId: string, filter: ApprovalFilter): Promise<Page<Approval>> {
    let query = this.#database.kysely
      .selectFrom('agent.approvals')
      .selectAll()
      .where('organization_id', '=', organizationId)
      .orderBy('id', 'asc')
      .limit(filter.limit + 1)
    if (filter.state !== undefined) query = query.where('state', '=', filter.state)
    if (filter.runId !== undefined) query = query.where('run_id', '=', filter.runId)
    if (filter.runIds !== undefined) query = query.where('run_id', 'in', [...filter.runIds])
    if (filter.cursor !== null) query = query.where('id', '>', filter.cursor)
    return pageOf((await query.execute()).map(approvalOf), filter.limit)
  }

  async answer<T>(
    organizationId: string,
    id: string,
    decide: (locked: LockedApproval) => AnswerWrite<T>,
  ): Promise<T | null> {
    return this.#database.transaction(async (tx) => {
      const { rows } = await tx.query<LockedRow>(LOCK, [organizationId, id])
      const row = rows[0]
      if (row === undefined) return null
      const approval = approvalOf(row)
      const { write, value } = decide({ approval, subject: subjectOf(approval, row), context: contextOf(row) })
      if (write !== null) await close(tx, approval, { decided: write, key: row.idempotency_key })
      return value
    })
  }

  async expireDue(limit: number, claimAnswer: ClaimAnswer): Promise<readonly string[]> {
    return this.#database.transaction(async (tx) => {
      const rows = await tx.kysely
        .selectFrom('agent.approvals')
        .selectAll()
        .where('state', '=', sql.lit('pending'))
        .where('expires_at', '<=', sql<Date>`clock_timestamp()`)
        .orderBy('expires_at')
        .limit(limit)
        .forUpdate()
        .skipLocked()
        .execute()
      // Runs in one order for every sweep, so that no two of them wait for each other.
      for (const row of rows.toSorted((a, b) => (a.run_id < b.run_id ? -1 : 1))) {
        const claim = row.kind === 'outcome' ? claimAnswer : null
        await close(tx, approvalOf(row), {
          decided: { state: 'expired', by: null, note: null, claim },
          key: row.idempotency_key,
        })
      }
      return rows.map((row) => row.run_id)
    })
  }
}

/** Writes an answer, what it means for the claim, and the wake-up of the run, in the caller's transaction. */
async function close(
  tx: Queryable,
  approval: Approval,
  closing: { readonly decided: Decided; readonly key: string },
): Promise<void> {
  const { decided, key } = closing
  const by = decided.by === null ? null : JSON.stringify(decided.by)
  await tx.query(DECIDE, [approval.organizationId, approval.id, decided.state, by, decided.note])
  const claim = [approval.organizationId, `tool.${approval.tool}`, key]
  if (decided.claim?.kind === 'complete')
    await tx.query(COMPLETE_CLAIM, [...claim, JSON.stringify(decided.claim.result)])
  if (decided.claim?.kind === 'reclaim') await tx.query(RECLAIM, claim)
  // The run before its control, as a cancel takes them: the other way round, the two could wait for each other.
  await tx.query(WAKE, [approval.runId])
  if (decided.stopRun !== undefined) {
    const { reason, by } = decided.stopRun
    await tx.query(STOP, [approval.organizationId, approval.runId, reason, JSON.stringify(by)])
  }
}

function subjectOf(approval: Approval, row: LockedRow): LockedApproval['subject'] {
  return {
    state: approval.state,
    argumentsHash: approval.argumentsHash,
    expiresAt: approval.expiresAt,
    toolVersion: approval.toolVersion,
    connectionId: approval.connectionId,
    startedByActorId: row.started_by,
    approvers: approval.approvers,
  }
}

function contextOf(row: LockedRow): LockedApproval['context'] {
  return {
    now: row.now,
    toolEnabled: row.enabled,
    granted: row.granted,
    connectionUsable: row.connection_usable,
    runOpen: row.run_open,
    selfApproval: row.self_approval,
  }
}

function approvalOf(row: Row): Approval {
  return {
    id: row.id,
    organizationId: row.organization_id,
    runId: row.run_id,
    spanId: row.span_id,
    kind: row.kind,
    state: row.state,
    tool: row.action,
    toolVersion: row.tool_version,
    arguments: row.arguments as JsonObject,
    argumentsHash: Buffer.from(row.arguments_hash).toString('hex'),
    connectionId: row.connection_id,
    preview: row.preview,
    rule: row.rule_name,
    facts: row.facts as JsonObject,
    approvers: row.approvers as readonly string[],
    principal: row.principal as unknown as Principal,
    requestedAt: row.requested_at,
    expiresAt: row.expires_at,
    decidedAt: row.decided_at,
    decidedBy: row.decided_by as unknown as Actor | null,
    note: row.note,
  }
}
