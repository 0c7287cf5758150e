import type { Cutoffs, OrganizationRetention, RetentionWindows } from '../runs/retention.ts'
import type { Removed, RetentionBatch, RetentionStore } from '../runs/upkeep.ts'
import type { Queryable, Statement } from './database.ts'
import {
  OLD_RUNS,
  OWN_SETTINGS,
  REMOVE_AUTHORIZATIONS,
  REMOVE_COUNTERS,
  REMOVE_DECISIONS,
  REMOVE_RUNS,
  REMOVE_SESSIONS,
  REMOVE_SPANS,
  REMOVE_USAGE,
  RUN_PARTS,
} from './retention.sql.ts'
import { REMOVE_CLAIMS } from './provider-job-store.sql.ts'

/** A vendor repeats a delivery for two days at most; whatever comes later finds the job ended all the same. */
const CLAIM_DAYS = 30

/** Rows of one statement. */
const ROWS = 1_000

/** Runs that are taken apart together; each has tens to thousands of rows in other tables. */
const RUNS = 50

export interface RetentionStoreOptions {
  /** Rows of one statement; a thousand unless set. */
  readonly rows?: number
}

export function retentionStore(database: Queryable, options: RetentionStoreOptions = {}): RetentionStore {
  const rows = options.rows ?? ROWS
  const kinds: Readonly<Record<string, (windows: RetentionWindows, now: Date) => Promise<RetentionBatch>>> = {
    spans: (windows) => removeSpans(database, windows, rows),
    policy_decisions: ({ usual, organizations }) =>
      removed(database, REMOVE_DECISIONS, {
        table: 'policy_decisions',
        values: values({ usual, organizations }, 'spans'),
        rows,
      }),
    runs: (windows) => removeRuns(database, windows, rows),
    ai_usage_log: (windows) => removeUsage(database, windows, rows),
    rule_counters: (_windows, now) =>
      removed(database, REMOVE_COUNTERS, { table: 'rule_counters', values: [now], rows }),
    console_sessions: (_windows, now) =>
      removed(database, REMOVE_SESSIONS, { table: 'console_sessions', values: [now], rows }),
    connection_authorizations: (_windows, now) =>
      removed(database, REMOVE_AUTHORIZATIONS, { table: 'connection_authorizations', values: [now], rows }),
    webhook_claims: (_windows, now) =>
      removed(database, REMOVE_CLAIMS, { table: 'webhook_claims', values: [daysBefore(now, CLAIM_DAYS)], rows }),
  }
  return {
    kinds: Object.keys(kinds),
    async settings() {
      return (await database.query<OrganizationRetention>(OWN_SETTINGS)).rows
    },
    async remove(kind, windows, now) {
      const remove = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined
      if (remove === undefined) throw new Error(`there is nothing to remove that is called ${kind}`)
      return remove(windows, now)
    },
  }
}

function daysBefore(now: Date, days: number): Date {
  return new Date(now.getTime() - days * 86_400_000)
}

interface Batch {
  readonly table: string
  /** Before the number of rows. */
  readonly values: readonly unknown[]
  readonly rows: number
}

async function removed(database: Queryable, statement: Statement, batch: Batch): Promise<RetentionBatch> {
  const { affected } = await database.query(statement, [...batch.values, batch.rows])
  return { removed: { [batch.table]: affected }, more: affected >= batch.rows }
}

async function removeSpans(database: Queryable, windows: RetentionWindows, rows: number): Promise<RetentionBatch> {
  const answer = await database.query<{ spans: number; span_payloads: number }>(REMOVE_SPANS, [
    ...values(windows, 'spans'),
    rows,
  ])
  const counts = answer.rows[0] ?? { spans: 0, span_payloads: 0 }
  return { removed: counts, more: counts.spans >= rows }
}

/**
 * Parts before the run, each statement on its own: a run that is old is in nobody's hands, and what a process leaves
 * when it dies in between is found by the run, which is still there.
 */
async function removeRuns(database: Queryable, windows: RetentionWindows, rows: number): Promise<RetentionBatch> {
  const found = await database.query<{ id: string; organization_id: string; root_run_id: string }>(OLD_RUNS, [
    ...values(windows, 'runs'),
    Math.min(RUNS, rows),
  ])
  if (found.rows.length === 0) return { removed: {}, more: false }
  const runs = found.rows.map(({ id }) => id)
  const organizations = [...new Set(found.rows.map(({ organization_id }) => organization_id))]
  const counts: Record<string, number> = {}
  for (const [table, statement] of RUN_PARTS) {
    for (;;) {
      const { affected } = await database.query(statement, [runs, organizations, rows])
      counts[table] = (counts[table] ?? 0) + affected
      if (affected < rows) break
    }
  }
  const { affected } = await database.query(REMOVE_RUNS, [runs])
  return { removed: { ...counts, runs: affected }, more: affected > 0 }
}

async function removeUsage(database: Queryable, windows: RetentionWindows, rows: number): Promise<RetentionBatch> {
  const none: Removed = {}
  const configured = [windows.usual, ...windows.organizations.map(({ cutoffs }) => cutoffs)].some(
    (cutoffs) => cutoffs?.usage != null,
  )
  if (!configured) return { removed: none, more: false }
  return removed(database, REMOVE_USAGE, { table: 'ai_usage_log', values: values(windows, 'usage'), rows })
}

/** `-infinity` keeps everything. */
function values({ usual, organizations }: RetentionWindows, kind: keyof Cutoffs): readonly [string, string, string] {
  const cutoff = (cutoffs: Cutoffs | null): string => cutoffs?.[kind]?.toISOString() ?? '-infinity'
  const own = organizations.map(({ organizationId, cutoffs }) => ({
    organization_id: organizationId,
    before: cutoff(cutoffs),
  }))
  const latest = [cutoff(usual), ...own.map(({ before }) => before)].toSorted().at(-1) ?? '-infinity'
  return [cutoff(usual), JSON.stringify(own), latest]
}
