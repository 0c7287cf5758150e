import { sql } from 'kysely'
import { v7 as uuidv7 } from 'uuid'
import type { Advanced, DeliveryClaim, JobChange } from '../provider-jobs/delivery.ts'
import type { JobKey, JobRecord, JobState, NewJob, ProviderJob } from '../provider-jobs/job.ts'
import type { JobFilter, JobPage } from '../provider-jobs/listing.ts'
import { digestOf } from '../provider-jobs/result.ts'
import type { ProviderJobStore } from '../provider-jobs/store.ts'
import { legalFrom } from '../provider-jobs/transition.ts'
import type { UsageRow } from '../tools/invoker.ts'
import { isJsonObject, type JsonValue } from '../tools/json.ts'
import type { Queryable } from './database.ts'
import { isUniqueViolation } from './errors.ts'
import { pageOf } from './page.ts'
import {
  ADVANCE,
  BIND,
  CLAIM,
  FIND,
  FINISH,
  KEEP_RESULT,
  READ,
  RESERVE,
  RESULT,
  STAMP,
} from './provider-job-store.sql.ts'
import { usageOnce } from './usage-writer.ts'

interface JobRow {
  readonly id: string
  readonly organization_id: string
  readonly root_run_id: string
  readonly run_id: string
  readonly tool_call_id: string
  readonly provider: string
  readonly provider_job_id: string | null
  readonly contact_refs: JsonValue
  readonly state: JobState
  readonly cost: JsonValue | null
  readonly usage_id: string | null
  readonly submitted_at: Date
  readonly updated_at: Date
  readonly terminal_at: Date | null
}

interface WholeRow extends JobRow {
  readonly result: JsonValue | null
}

/** Tries of a statement whose other writer can be met before it can be seen. */
const UNSEEN_TRIES = 5

export function providerJobStore(database: Queryable): ProviderJobStore {
  return {
    reserve: (job) => reserve(database, job),
    bind: (job, providerJobId) => bind(database, job, providerJobId),
    read: (key) => read(database, key),
    result: (job) => result(database, job),
    find: (provider, jobId) => one(database.query<JobRow>(FIND, [provider, jobId])),
    async keepResult(job, { digest, value }) {
      await database.query(KEEP_RESULT, [job.id, job.organizationId, digest, JSON.stringify(value)])
    },
    advance: (job, change) => advance(database, job, change),
    claim: (claim) => claimDelivery(database, claim),
    async finish(claim) {
      await database.query(FINISH, keyOf(claim))
    },
    charge: (row: UsageRow) => usageOnce(database, row),
    async stamp({ organizationId, id }, usageId) {
      const { rows } = await database.query<{ stamped: boolean }>(STAMP, [organizationId, id, usageId])
      return rows[0]?.stamped === true
    },
    list: (organizationId, filter) => list(database, organizationId, filter),
    async get(organizationId, id) {
      const row = await database.kysely
        .selectFrom('agent.provider_jobs')
        .selectAll()
        .where('organization_id', '=', organizationId)
        .where('id', '=', id)
        .executeTakeFirst()
      return row === undefined ? null : { ...jobOf(row), result: row.result }
    },
  }
}

async function reserve(database: Queryable, job: NewJob): Promise<{ readonly won: boolean; readonly job: JobRecord }> {
  const { id, organizationId, rootRunId, runId, toolCallId, provider, contactRefs } = job
  const values = [id, organizationId, rootRunId, runId, toolCallId, provider, JSON.stringify(contactRefs)]
  for (let tried = 0; tried < UNSEEN_TRIES; tried += 1) {
    const { rows } = await database.query<JobRow & { won: boolean }>(RESERVE, values)
    const [row] = rows
    if (row !== undefined) return { won: row.won, job: jobOf(row) }
  }
  throw new Error(`provider job ${id} is there and cannot be read`)
}

async function bind(
  database: Queryable,
  { organizationId, id }: Pick<JobRecord, 'organizationId' | 'id'>,
  providerJobId: string,
): Promise<JobRecord> {
  try {
    await database.query(BIND, [organizationId, id, providerJobId])
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
  }
  const row = await database.kysely
    .selectFrom('agent.provider_jobs')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) throw new Error(`provider job ${id} went while it was submitted`)
  return jobOf(row)
}

async function read(database: Queryable, { organizationId, provider, id }: JobKey): Promise<ProviderJob | null> {
  const { rows } = await database.query<WholeRow>(READ, [organizationId, provider, id])
  const [row] = rows
  return row === undefined ? null : { ...jobOf(row), result: row.result }
}

async function result(database: Queryable, job: ProviderJob): Promise<JsonValue | null> {
  if (job.result === null) return null
  const digest = digestOf(job.id, job.result)
  if (digest === null) return job.result
  const { rows } = await database.query<{ result: JsonValue }>(RESULT, [job.organizationId, job.id, digest])
  const [row] = rows
  if (row === undefined) throw new Error(`the result of provider job ${job.id} is missing`)
  return row.result
}

async function advance(database: Queryable, job: JobRecord, change: JobChange): Promise<Advanced> {
  const { organizationId, id, provider } = job
  const { providerJobId, state, cost, result: value } = change
  const from = legalFrom(state)
  const given = [organizationId, id, providerJobId, state, from, textOf(cost), textOf(value)]
  try {
    const { rows } = await database.query<JobRow & { wake: readonly string[] }>(ADVANCE, given)
    const [row] = rows
    if (row !== undefined) return { kind: 'kept', job: jobOf(row), wake: row.wake }
  } catch (error) {
    // Another job has the vendor's id.
    if (isUniqueViolation(error)) return { kind: 'mismatch' }
    throw error
  }
  const now = await read(database, { organizationId, provider, id })
  if (now === null) return { kind: 'gone' }
  if (now.providerJobId !== providerJobId) return { kind: 'mismatch' }
  return { kind: 'kept', job: now, wake: [] }
}

function textOf(value: JsonValue | null): string | null {
  return value === null ? null : JSON.stringify(value)
}

async function claimDelivery(database: Queryable, claim: DeliveryClaim): Promise<'open' | 'finished' | 'conflict'> {
  const values = [...keyOf(claim), claim.bodyHash, uuidv7()]
  for (let tried = 0; tried < UNSEEN_TRIES; tried += 1) {
    const { rows } = await database.query<{ taken: boolean; status: string | null; same: boolean | null }>(
      CLAIM,
      values,
    )
    const [row] = rows
    if (row?.taken === true) return 'open'
    if (row === undefined || row.status === null) continue
    if (row.same !== true) return 'conflict'
    return row.status === 'completed' ? 'finished' : 'open'
  }
  throw new Error('a delivery was claimed and its claim cannot be read')
}

function keyOf({ organizationId, provider, deliveryId }: DeliveryClaim): [string, string, string] {
  return [organizationId, `webhook.${provider}`, deliveryId]
}

async function list(database: Queryable, organizationId: string, filter: JobFilter): Promise<JobPage> {
  const { state, provider, runId, unsettled, limit, cursor } = filter
  let query = database.kysely
    .selectFrom('agent.provider_jobs as j')
    .selectAll()
    .where('j.organization_id', '=', organizationId)
  if (state !== undefined) query = query.where('j.state', '=', state)
  if (provider !== undefined) query = query.where('j.provider', '=', provider)
  if (runId !== undefined) query = query.where('j.run_id', '=', runId)
  if (unsettled === true) query = query.where('j.usage_id', 'is', null).where('j.terminal_at', 'is not', null)
  if (cursor !== null)
    query = query.where(
      sql<boolean>`(j.submitted_at, j.id) < (SELECT c.submitted_at, c.id FROM agent.provider_jobs c WHERE c.organization_id = ${organizationId}::uuid AND c.id = ${cursor}::uuid)`,
    )
  const rows = await query
    .orderBy('j.submitted_at', 'desc')
    .orderBy('j.id', 'desc')
    .limit(limit + 1)
    .execute()
  return pageOf(rows.map(jobOf), limit)
}

async function one(query: Promise<{ readonly rows: readonly JobRow[] }>): Promise<JobRecord | null> {
  const [row] = (await query).rows
  return row === undefined ? null : jobOf(row)
}

function jobOf(row: JobRow): JobRecord {
  const refs = Array.isArray(row.contact_refs) ? (row.contact_refs as readonly JsonValue[]) : []
  return {
    id: row.id,
    organizationId: row.organization_id,
    rootRunId: row.root_run_id,
    runId: row.run_id,
    toolCallId: row.tool_call_id,
    provider: row.provider,
    providerJobId: row.provider_job_id,
    contactRefs: refs.filter((ref) => typeof ref === 'string'),
    state: row.state,
    cost: isJsonObject(row.cost) ? row.cost : null,
    usageId: row.usage_id,
    submittedAt: row.submitted_at,
    updatedAt: row.updated_at,
    terminalAt: row.terminal_at,
  }
}
