import { afterAll, beforeAll, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../../test/setup/database.ts'
import {
  CLAIM,
  CLAIM_COUNTED,
  CLOSE,
  CLOSE_MANY,
  COMPLETE,
  COUNT,
  FILE,
  HOLD,
  OPEN,
  RELEASE,
  TOOL_ENABLED,
} from './call-ledger.sql.ts'
import type { Database, Statement } from './database.ts'
import { BEGIN, LOCK_LANE_OF_RUN, NEXT, REAP_LANE } from './lane-store.sql.ts'
import { PAST_DECISIONS, PAST_RUNS } from './past-calls.ts'
import { unnamed } from './statement.ts'

/*
 * The hot statements, and what replays past calls, on the tables of a thousand organizations. Their plans must not
 * depend on whose data they meet, so they are made without looking at the parameters, as PostgreSQL does after five
 * executions.
 */

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
  for (const fill of FILL) await db.database.query(unnamed(fill))
  await db.database.execute('ANALYZE')
})
afterAll(() => db.close())

/** Ids that can be computed, so that rows of different tables belong together. */
const id = (kind: string, number: string): string => `md5('${kind}' || ${number})::uuid`
const ORGANIZATION = id('organization', '(n % 1000)')
const RUN = id('run', '(n % 20000)')

const FILL: readonly string[] = [
  `INSERT INTO agent.organizations (id, slug, name) SELECT ${ORGANIZATION}, 'slug-' || n, 'x' FROM generate_series(0, 999) n`,
  `INSERT INTO agent.definitions (id, organization_id, slug, version, body, body_hash)
   SELECT ${id('definition', 'n')}, ${ORGANIZATION}, 'outreach', 1, '{}', '' FROM generate_series(0, 999) n`,
  `INSERT INTO agent.tool_states (organization_id, tool, enabled, changed_by)
   SELECT ${ORGANIZATION}, 'tool.' || n, true, '{}' FROM generate_series(0, 4999) n`,
  `INSERT INTO agent.grants (id, organization_id, definition, tool, granted_by)
   SELECT gen_random_uuid(), ${ORGANIZATION}, 'outreach', 'tool.' || n, '{}' FROM generate_series(0, 19999) n`,
  `INSERT INTO agent.policy_rules (id, organization_id, name, tools, effect, mode, created_by)
   SELECT gen_random_uuid(), ${ORGANIZATION}, 'rule ' || n, '["*"]', 'deny', 'enforce', '{}' FROM generate_series(0, 4999) n`,
  `INSERT INTO agent.runs (id, organization_id, root_run_id, definition_id, definition, status, source, input, snapshot, deadline)
   SELECT ${RUN}, ${ORGANIZATION}, ${RUN}, ${id('definition', '(n % 1000)')}, 'outreach', 'completed', 'api', '{}', '{}', now()
   FROM generate_series(0, 19999) n`,
  `INSERT INTO agent.runs (id, organization_id, root_run_id, definition_id, definition, status, source, input, snapshot, deadline, wake_at, begun_at)
   SELECT gen_random_uuid(), ${ORGANIZATION}, ${RUN}, ${id('definition', '(n % 1000)')}, 'outreach',
     (ARRAY['queued', 'parked', 'parked', 'running'])[n % 4 + 1], 'api', '{}', '{}', now(), now() + n * interval '1 second', now()
   FROM generate_series(0, 19999) n`,
  `INSERT INTO agent.run_heartbeats (run_id, organization_id, segment_id, beat_at)
   SELECT id, organization_id, id, now() FROM agent.runs WHERE status = 'running'`,
  `INSERT INTO agent.lanes (organization_id, lane, max_active) SELECT ${ORGANIZATION}, 'batch', 3 FROM generate_series(0, 999) n`,
  `INSERT INTO agent.run_control (run_id, organization_id) SELECT ${RUN}, ${ORGANIZATION} FROM generate_series(0, 19999) n`,
  `INSERT INTO agent.run_taints (organization_id, root_run_id, source)
   SELECT ${ORGANIZATION}, ${RUN}, 'tool.' || n FROM generate_series(0, 39999) n`,
  `INSERT INTO agent.rule_counters (organization_id, period, rule, used)
   SELECT ${ORGANIZATION}, 'day:' || n / 4000, 'rule ' || n, 1 FROM generate_series(0, 39999) n`,
  `INSERT INTO agent.idempotency_keys (organization_id, scope, key, run_id, status, request_hash, owner, lease_until, response)
   SELECT ${ORGANIZATION}, 'tool.' || n % 20, n::text, ${RUN}, CASE WHEN n % 50 = 0 THEN 'processing' ELSE 'completed' END,
     sha256(n::text::bytea), ${RUN}, now(), '{"ok":true}' FROM generate_series(0, 59999) n`,
  `INSERT INTO agent.approvals (id, organization_id, run_id, idempotency_key, span_id, kind, state, action, tool_version, arguments,
     arguments_hash, principal, expires_at)
   SELECT gen_random_uuid(), ${ORGANIZATION}, ${RUN}, n::text, ${RUN}, 'action', CASE WHEN n % 20 = 0 THEN 'pending' ELSE 'approved' END,
     'tool.1', 1, '{}', sha256(n::text::bytea), '{}', now() FROM generate_series(0, 39999) n`,
  `INSERT INTO agent.spans (id, organization_id, run_id, kind, name, status, started_at)
   SELECT gen_random_uuid(), ${ORGANIZATION}, ${RUN}, 'tool', 'tool.1', 'ok', now() FROM generate_series(0, 59999) n`,
  `INSERT INTO agent.span_payloads (span_id, organization_id, input) SELECT id, organization_id, '{}' FROM agent.spans`,
  `INSERT INTO agent.policy_decisions (id, organization_id, run_id, span_id, tool, arguments_hash, stage, outcome, decided_at)
   SELECT gen_random_uuid(), organization_id, run_id, id, name, '', 2, 'allow', started_at FROM agent.spans`,
  `INSERT INTO public.ai_usage_log (id, organization_id, root_run_id, run_id, kind, provider, item, quantity, cost_cents)
   SELECT gen_random_uuid(), ${ORGANIZATION}, ${RUN}, ${RUN}, 'model', 'x', 'y', '{}', 1 FROM generate_series(0, 59999) n`,
]

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Cond'?: string
  readonly 'Recheck Cond'?: string
  readonly Plans?: readonly PlanNode[]
}

/** Every node of the plan that the statement has for any parameters. */
async function planOf(database: Database, { name, text }: Statement): Promise<readonly PlanNode[]> {
  const parameters = new Set([...text.matchAll(/\$(\d+)/g)].map(([, number]) => number)).size
  const nulls = Array.from({ length: parameters }, () => 'NULL').join(', ')
  return database.transaction(async (tx) => {
    await tx.execute(`SET LOCAL plan_cache_mode = force_generic_plan; PREPARE ${name} AS ${text}`)
    const { rows } = await tx.query<{ 'QUERY PLAN': readonly [{ readonly Plan: PlanNode }] }>(
      unnamed(`EXPLAIN (FORMAT JSON) EXECUTE ${name}(${nulls})`),
    )
    await tx.execute(`DEALLOCATE ${name}`)
    return nodesOf(rows[0]!['QUERY PLAN'][0].Plan)
  })
}

function nodesOf(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}

/** An index that is read from end to end is no look-up, nor is one that is read for all an organization has. */
function isLookup(node: PlanNode): boolean {
  const condition = node['Index Cond'] ?? node['Recheck Cond']
  return condition !== undefined && !/^\(organization_id = \$\d+\)$/.test(condition)
}

const scansOf = (nodes: readonly PlanNode[]): readonly PlanNode[] =>
  nodes.filter((node) => node['Relation Name'] !== undefined && node['Node Type'].endsWith('Scan'))

const readWhole = (scans: readonly PlanNode[]): readonly string[] =>
  scans.filter((node) => !isLookup(node)).map((node) => `${node['Node Type']} on ${node['Relation Name']}`)

test.each([
  ['no index fits', 'SELECT FROM agent.spans WHERE name = $1::text', /^Seq Scan on spans$/],
  // By way of an index each time; which is cheapest depends on whether autovacuum has been there.
  [
    'an organization has many',
    'SELECT FROM agent.spans WHERE organization_id = $1::uuid',
    /^(Bitmap Heap|Index|Index Only) Scan on spans$/,
  ],
])('a statement is found out when %s', async (_why, text, expected) => {
  expect(readWhole(scansOf(await planOf(db.database, { name: 'planted', text })))).toEqual([
    expect.stringMatching(expected),
  ])
})

test.each<readonly [Statement, readonly string[]]>([
  [
    OPEN,
    [
      'organizations',
      'tool_states',
      'grants',
      'run_control',
      'idempotency_keys',
      'approvals',
      'ai_usage_log',
      'run_taints',
      'rule_counters',
    ],
  ],
  [TOOL_ENABLED, ['tool_states']],
  [FILE, ['approvals']],
  [CLAIM, ['organizations', 'tool_states', 'grants', 'run_control', 'idempotency_keys']],
  [CLAIM_COUNTED, ['organizations', 'tool_states', 'grants', 'run_control', 'idempotency_keys']],
  [COUNT, []],
  [CLOSE, []],
  [COMPLETE, ['idempotency_keys']],
  [RELEASE, ['idempotency_keys', 'rule_counters']],
  [HOLD, ['idempotency_keys']],
  [CLOSE_MANY, []],
  [PAST_DECISIONS, ['policy_decisions', 'approvals', 'spans', 'span_payloads']],
  [PAST_RUNS, ['runs']],
  [LOCK_LANE_OF_RUN, ['runs']],
  [REAP_LANE, ['runs', 'run_heartbeats']],
  [BEGIN, ['runs', 'lanes']],
  [NEXT, ['runs', 'lanes']],
])('$name finds every row by an index', async (statement, tables) => {
  const scans = scansOf(await planOf(db.database, statement))
  expect(readWhole(scans)).toEqual([])
  // And it is these tables that were looked at, so that a plan that reads nothing proves nothing.
  expect(new Set(scans.map((node) => node['Relation Name']))).toEqual(new Set(tables))
})
