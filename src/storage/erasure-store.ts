import { createHash, randomBytes } from 'node:crypto'
import { v7 as uuidv7 } from 'uuid'
import type {
  Erasure,
  ErasureCounts,
  ErasureOutcome,
  ErasureRecord,
  ErasureRemains,
  ErasureRequest,
  ErasureStore,
} from '../runs/erasure.ts'
import type { Actor } from '../tools/invocation.ts'
import type { Database, Queryable } from './database.ts'
import {
  ERASE_CONTACTS,
  ERASE_JOURNAL,
  ERASE_MEMORIES,
  ERASE_MENTIONS,
  ERASE_PARTS,
  ERASE_PAYLOADS,
  ERASE_PEOPLE,
  ERASE_RESULTS,
  ERASE_USAGE,
  OPEN_RUNS_OF_SUBJECT,
  REMAINS,
} from './erasure.sql.ts'
import { mentionOf, type Mention } from './mention.ts'

export function erasureStore(database: Database): ErasureStore {
  return {
    async erase(request) {
      const mention = mentionOf(request.email)
      if (mention === null) return { kind: 'no_address' }
      return database.transaction((tx) => erase(tx, request, mention))
    },
    async list(organizationId) {
      const rows = await database.kysely
        .selectFrom('agent.erasures')
        .selectAll()
        .where('organization_id', '=', organizationId)
        .orderBy('id', 'desc')
        .execute()
      return rows.map((row): ErasureRecord => ({
        id: row.id,
        erasedAt: row.erased_at,
        erasedBy: row.erased_by as unknown as Actor,
        counts: row.counts as unknown as ErasureCounts,
      }))
    },
    async erasedAt(organizationId, email) {
      const mention = mentionOf(email)
      if (mention === null) return null
      const rows = await database.kysely
        .selectFrom('agent.erasures')
        .select(['salt', 'subject_hash', 'erased_at'])
        .where('organization_id', '=', organizationId)
        .orderBy('id', 'desc')
        .execute()
      return rows.find((row) => hashOf(row.salt, mention).equals(row.subject_hash))?.erased_at ?? null
    },
  }
}

async function erase(tx: Queryable, request: ErasureRequest, mention: Mention): Promise<ErasureOutcome> {
  const { organizationId } = request
  const values = [organizationId, mention.hint, mention.pattern]
  const open = await tx.query<{ id: string }>(OPEN_RUNS_OF_SUBJECT, values)
  if (open.rows.length > 0) return { kind: 'open_runs', runIds: open.rows.map(({ id }) => id) }
  const domain = await tx.query<{ people: number; list_members: number }>(ERASE_PEOPLE, [
    organizationId,
    mention.address,
  ])
  const counts: Record<string, number> = { ...domain.rows[0] }
  counts['memories'] = (await tx.query(ERASE_MEMORIES, values)).affected
  for (const [table, statement] of ERASE_MENTIONS) counts[table] = (await tx.query(statement, values)).affected
  // The journal by the spans of its calls, which are known by their payloads: before those are gone.
  const payloads = await tx.query<{ id: string }>(ERASE_PAYLOADS, values)
  counts['span_payloads'] = payloads.affected
  const spans = payloads.rows.map(({ id }) => id)
  counts['idempotency_keys'] = (await tx.query(ERASE_JOURNAL, [...values, spans])).affected
  const jobs = (await tx.query<{ id: string }>(ERASE_CONTACTS, values)).rows.map(({ id }) => id)
  counts['provider_job_results'] = (await tx.query(ERASE_RESULTS, [...values, jobs])).affected
  for (const [table, statement] of ERASE_PARTS) counts[table] = (await tx.query(statement, values)).affected
  counts['provider_jobs'] = (counts['provider_jobs'] ?? 0) + jobs.length
  counts['ai_usage_log'] = (await tx.query(ERASE_USAGE, values)).affected
  const remains = await tx.query<ErasureRemains>(REMAINS, [...values, mention.address])
  if (remains.rows[0] === undefined) throw new Error('what remains could not be read')
  return {
    kind: 'erased',
    erasure: { ...(await record(tx, { request, mention, counts })), counts, remains: remains.rows[0] },
  }
}

async function record(
  tx: Queryable,
  {
    request,
    mention,
    counts,
  }: { readonly request: ErasureRequest; readonly mention: Mention; readonly counts: ErasureCounts },
): Promise<Pick<Erasure, 'id' | 'erasedAt'>> {
  const salt = randomBytes(16)
  const row = await tx.kysely
    .insertInto('agent.erasures')
    .values({
      id: uuidv7(),
      organization_id: request.organizationId,
      salt,
      subject_hash: hashOf(salt, mention),
      erased_by: JSON.stringify(request.by),
      counts: JSON.stringify(counts),
    })
    .returning(['id', 'erased_at'])
    .executeTakeFirstOrThrow()
  return { id: row.id, erasedAt: row.erased_at }
}

function hashOf(salt: Buffer, { address }: Mention): Buffer {
  return createHash('sha256').update(salt).update(address, 'utf8').digest()
}
