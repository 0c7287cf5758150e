import { ERASED } from '../tools/erased.ts'
import type { Statement } from './database.ts'
import { mentions } from './mention.ts'
import { statement } from './statement.ts'

/*
 * What an erasure changes. $1 is the organization, $2 and $3 what the address is found by. Rows of runs that are open
 * are left alone: there are none that hold the address when the erasure begins, and one that comes meanwhile must not
 * lose its state under its own feet.
 */

type Kind = 'json' | 'text'

interface Part {
  readonly table: string
  readonly columns: Readonly<Record<string, Kind>>
  /** SQL of the run that a row `t` belongs to. */
  readonly run: string
  /** The row is about one call: what stands beside the address is about the same person. */
  readonly whole: boolean
}

const RUN_ID = 't.run_id'
const MARKER = `'${JSON.stringify(ERASED)}'`
const TEXT_MARKER = `'[erased]'`

const PARTS: readonly Part[] = [
  { table: 'agent.runs', columns: { input: 'json', output: 'json', message: 'text' }, run: 't.id', whole: false },
  { table: 'agent.run_sessions', columns: { state: 'json' }, run: RUN_ID, whole: false },
  { table: 'agent.run_steps', columns: { output: 'json', error: 'json', wait: 'json' }, run: RUN_ID, whole: false },
  { table: 'agent.run_signals', columns: { payload: 'json' }, run: RUN_ID, whole: false },
  { table: 'agent.run_control', columns: { cancel_reason: 'text' }, run: RUN_ID, whole: false },
  {
    table: 'agent.approvals',
    columns: { arguments: 'json', preview: 'text', facts: 'json', note: 'text' },
    run: RUN_ID,
    whole: true,
  },
  { table: 'agent.provider_jobs', columns: { result: 'json', cost: 'json' }, run: RUN_ID, whole: false },
  { table: 'agent.spans', columns: { attributes: 'json' }, run: RUN_ID, whole: false },
  {
    table: 'agent.policy_decisions',
    columns: { facts: 'json', shadow: 'json', message: 'text' },
    run: RUN_ID,
    whole: false,
  },
]

function found(columns: readonly string[]): string {
  return columns.map((column) => mentions(`t.${column}`, '$2', '$3')).join(' OR ')
}

function closed(run: string): string {
  return `NOT EXISTS (SELECT FROM agent.runs o WHERE o.id = ${run} AND o.status IN ('queued', 'running', 'parked'))`
}

function erased({ columns, whole }: Part): string {
  return Object.entries(columns)
    .map(([column, kind]) => {
      const hit = whole ? `t.${column} IS NOT NULL` : mentions(`t.${column}`, '$2', '$3')
      return `${column} = CASE WHEN ${hit} THEN ${kind === 'json' ? MARKER : TEXT_MARKER} ELSE t.${column} END`
    })
    .join(', ')
}

export const ERASE_PARTS: readonly (readonly [table: string, statement: Statement])[] = PARTS.map((part) => {
  const name = part.table.slice(part.table.indexOf('.') + 1)
  return [
    name,
    statement(
      `erase_${name}`,
      `UPDATE ${part.table} t SET ${erased(part)}
       WHERE t.organization_id = $1::uuid AND (${found(Object.keys(part.columns))}) AND ${closed(part.run)}`,
    ),
  ]
})

/** What the items of a request were called is often an address; what a job was about is then nobody's any more. */
export const ERASE_CONTACTS = statement(
  'erase_provider_job_contacts',
  `UPDATE agent.provider_jobs t SET contact_refs = '[]', result = CASE WHEN t.result IS NULL THEN NULL ELSE ${MARKER}::jsonb END
   WHERE t.organization_id = $1::uuid AND (${found(['contact_refs'])}) AND ${closed(RUN_ID)}
   RETURNING t.id`,
)

/** $4 jobs whose items named the person. */
export const ERASE_RESULTS = statement(
  'erase_provider_job_results',
  `UPDATE agent.provider_job_results t SET result = ${MARKER}
   WHERE t.organization_id = $1::uuid AND (${found(['result'])} OR t.job_id = ANY ($4::uuid[]))
     AND NOT EXISTS (SELECT FROM agent.provider_jobs j WHERE j.id = t.job_id AND NOT ${closed('j.run_id')})`,
)

/** Arguments and answer of a call, or text of a turn. The spans are answered: what the journal holds of them goes too. */
export const ERASE_PAYLOADS = statement(
  'erase_span_payloads',
  `UPDATE agent.span_payloads t SET
     input = CASE WHEN t.input IS NULL THEN NULL ELSE ${MARKER}::json END,
     output = CASE WHEN t.output IS NULL THEN NULL ELSE ${MARKER}::json END
   WHERE t.organization_id = $1::uuid AND (${found(['input', 'output'])})
     AND NOT EXISTS (SELECT FROM agent.spans s WHERE s.id = t.span_id AND NOT ${closed('s.run_id')})
   RETURNING span_id AS id`,
)

/** $4 spans of calls about the person. Key, hash and status stay: the call was made, and must not be made again. */
export const ERASE_JOURNAL = statement(
  'erase_idempotency_keys',
  `UPDATE agent.idempotency_keys t SET response = ${MARKER}
   WHERE t.organization_id = $1::uuid AND t.response IS NOT NULL AND (${found(['response'])} OR t.owner = ANY ($4::uuid[]))
     AND ${closed(RUN_ID)}`,
)

/** Money stays, and says what for; a name of an item that is an address is no name of one. */
export const ERASE_USAGE = statement(
  'erase_ai_usage_log',
  `UPDATE public.ai_usage_log t SET item = CASE WHEN ${mentions('t.item', '$2', '$3')} THEN ${TEXT_MARKER} ELSE t.item END,
     quantity = CASE WHEN ${mentions('t.quantity', '$2', '$3')} THEN '{}' ELSE t.quantity END
   WHERE t.organization_id = $1::uuid AND (${found(['item', 'quantity'])})`,
)

/** $2 address. Rows that were deleted by an agent too: they only look deleted. */
export const ERASE_PEOPLE = statement(
  'erase_people',
  `WITH gone AS (DELETE FROM public.people WHERE organization_id = $1::uuid AND lower(email) = $2::text RETURNING id),
   members AS (
     DELETE FROM public.list_members WHERE organization_id = $1::uuid AND member_id IN (SELECT id FROM gone) RETURNING 1)
   SELECT (SELECT count(*)::integer FROM gone) AS people, (SELECT count(*)::integer FROM members) AS list_members`,
)

export const ERASE_MEMORIES = statement(
  'erase_memories',
  `DELETE FROM public.memories t WHERE t.organization_id = $1::uuid AND (${found(['subject', 'text'])})`,
)

/** What other rows of the organization's data say about the person. */
export const ERASE_MENTIONS: readonly (readonly [table: string, statement: Statement])[] = [
  ['people_mentions', 'public.people', ['full_name', 'company', 'title', 'location']],
  ['companies', 'public.companies', ['description']],
  ['lists', 'public.lists', ['description']],
].map(([name, table, columns]) => {
  const set = (columns as readonly string[]).map(
    (column) => `${column} = CASE WHEN ${mentions(`t.${column}`, '$2', '$3')} THEN ${TEXT_MARKER} ELSE t.${column} END`,
  )
  return [
    name as string,
    statement(
      `erase_${name as string}`,
      `UPDATE ${table as string} t SET ${set.join(', ')} WHERE t.organization_id = $1::uuid AND (${found(columns as string[])})`,
    ),
  ] as const
})

/** Open runs that hold the address anywhere. */
export const OPEN_RUNS_OF_SUBJECT = statement(
  'erase_open_runs',
  `SELECT r.id FROM agent.runs r
   WHERE r.organization_id = $1::uuid AND r.status IN ('queued', 'running', 'parked') AND (
     ${mentions('r.input', '$2', '$3')} OR ${mentions('r.output', '$2', '$3')} OR ${mentions('r.message', '$2', '$3')}
     ${PARTS.filter(({ table }) => table !== 'agent.runs')
       .map(
         ({ table, columns }) =>
           `OR EXISTS (SELECT FROM ${table} t WHERE t.run_id = r.id AND t.organization_id = $1 AND (${found(Object.keys(columns))}))`,
       )
       .join('\n     ')}
     OR EXISTS (SELECT FROM agent.idempotency_keys t WHERE t.run_id = r.id AND t.organization_id = $1 AND ${mentions('t.response', '$2', '$3')})
     OR EXISTS (SELECT FROM agent.provider_jobs t WHERE t.run_id = r.id AND t.organization_id = $1 AND (${found(['contact_refs'])}))
     OR EXISTS (SELECT FROM agent.provider_jobs j JOIN agent.provider_job_results t ON t.job_id = j.id
       WHERE j.organization_id = $1 AND j.run_id = r.id AND (${found(['result'])}))
     OR EXISTS (SELECT FROM agent.spans s JOIN agent.span_payloads t ON t.span_id = s.id
       WHERE s.organization_id = $1 AND s.run_id = r.id AND (${found(['input', 'output'])})))
   ORDER BY r.id`,
)

/** What people wrote on purpose. $4 address. */
export const REMAINS = statement(
  'erase_remains',
  `SELECT
     (SELECT coalesce(json_agg(DISTINCT t.slug), '[]') FROM agent.definitions t
      WHERE t.organization_id = $1::uuid AND ${mentions('t.body', '$2', '$3')}) AS definitions,
     (SELECT coalesce(json_agg(t.name), '[]') FROM agent.policy_rules t
      WHERE t.organization_id = $1 AND t.deleted_at IS NULL AND (${found(['name', 'condition', 'approvers'])})) AS rules,
     (SELECT coalesce(json_agg(t.provider || '/' || t.label), '[]') FROM agent.connections t
      WHERE t.organization_id = $1 AND (${found(['account', 'label', 'settings'])})) AS connections,
     EXISTS (SELECT FROM agent.memberships m JOIN agent.users u ON u.id = m.user_id
      WHERE m.organization_id = $1 AND lower(u.email) = $4::text) AS member`,
)
