import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { empty, type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { deleteOrganization } from './organization-deletion.ts'
import { exportOrganization, type ExportLine } from './organization-export.ts'
import { ORGANIZATION_TABLES } from './organization-tables.ts'
import { unnamed } from './statement.ts'

const OURS = randomUUID()
const THEIRS = randomUUID()
const SECRET = 'a secret that must not leave'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(async () => {
  await empty(db.database)
  for (const organization of [OURS, THEIRS]) await fill(organization)
})
afterAll(() => db.close())

/** Every table that has a row of an organization, by the catalogue of the database itself. */
async function ownedTables(): Promise<readonly string[]> {
  const { rows } = await db.database.query<{ name: string }>(
    unnamed(`SELECT c.table_schema || '.' || c.table_name AS name
             FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
             WHERE c.table_schema IN ('agent', 'public') AND c.column_name = 'organization_id' AND t.table_type = 'BASE TABLE'
             ORDER BY 1`),
  )
  return rows.map(({ name }) => name)
}

async function rowsOf(table: string, organization: string): Promise<number> {
  const { rows } = await db.database.query<{ n: number }>(
    unnamed(`SELECT count(*)::integer AS n FROM ${table} WHERE organization_id = $1`),
    [organization],
  )
  return rows[0]?.n ?? -1
}

/** A row in every table; two where there is a page to turn. */
async function fill(organization: string): Promise<void> {
  const [user, definition, run, connection, list, company, key, span] = Array.from({ length: 8 }, () => randomUUID())
  const actor = '{"kind":"system","id":"t","name":"t"}'
  const x = `'\\x00'::bytea`
  await db.database.execute(`
    INSERT INTO agent.organizations (id, slug, name) VALUES ('${organization}', '${organization}', 'n');
    INSERT INTO agent.users (id, email, name) VALUES ('${user}', '${user}@x.test', 'U');
    INSERT INTO agent.memberships (organization_id, user_id, role) VALUES ('${organization}', '${user}', 'owner');
    INSERT INTO agent.api_keys (id, organization_id, kind, name, key_hash) VALUES ('${key}', '${organization}', 'run', 'k', '${SECRET}${key}');
    INSERT INTO agent.console_sessions (token_hash, organization_id, user_id, kind, expires_at)
      VALUES ('${SECRET}${key}', '${organization}', '${user}', 'session', now());
    INSERT INTO agent.tool_states (organization_id, tool, enabled, changed_by) VALUES ('${organization}', 'a.b', true, '${actor}');
    INSERT INTO agent.definitions (id, organization_id, slug, version, body, body_hash) VALUES ('${definition}', '${organization}', 'd', 1, '{}', ${x});
    INSERT INTO agent.grants (id, organization_id, definition, tool, granted_by) VALUES (gen_random_uuid(), '${organization}', 'd', 'a.b', '${actor}');
    INSERT INTO agent.policy_rules (id, organization_id, name, tools, effect, mode, created_by)
      VALUES (gen_random_uuid(), '${organization}', 'r', '[]', 'deny', 'enforce', '${actor}');
    INSERT INTO agent.connections (id, organization_id, provider, label, state, settings)
      VALUES ('${connection}', '${organization}', 'p', 'l', 'connected', '{"host":"h","nested":{"password":"${SECRET}"}}');
    INSERT INTO agent.connection_secrets (organization_id, connection_id, field, version, kek_id, wrapped_dek, sealed)
      VALUES ('${organization}', '${connection}', 'f', 1, 'k', '${SECRET}', '${SECRET}');
    INSERT INTO agent.connection_authorizations (state_hash, organization_id, provider, label, redirect_uri, version, kek_id, wrapped_dek, sealed, begun_by, expires_at)
      VALUES ('${SECRET}${key}', '${organization}', 'p', 'l', 'u', 1, 'k', '${SECRET}', '${SECRET}', '${actor}', now());
    INSERT INTO agent.runs (id, organization_id, root_run_id, definition_id, definition, status, source, input, snapshot, deadline, ended_at)
      SELECT id, '${organization}', id, '${definition}', 'd', 'completed', 'api', '{"apiKey":"${SECRET}"}', '{}', now(), now()
      FROM unnest(ARRAY['${run}'::uuid, gen_random_uuid(), gen_random_uuid()]) AS r(id);
    INSERT INTO agent.run_control (run_id, organization_id) VALUES ('${run}', '${organization}');
    INSERT INTO agent.run_heartbeats (run_id, organization_id, segment_id, beat_at) VALUES ('${run}', '${organization}', '${run}', now());
    INSERT INTO agent.run_sessions (run_id, organization_id, framework, state_version, state) VALUES ('${run}', '${organization}', 'f', 1, '{}');
    INSERT INTO agent.run_steps (run_id, organization_id, path, node, kind, state)
      SELECT '${run}', '${organization}', 'p' || n, 'n', 'tool', 'completed' FROM generate_series(1, 5) n;
    INSERT INTO agent.run_signals (id, organization_id, run_id, name, payload, sent_by) VALUES (gen_random_uuid(), '${organization}', '${run}', 's', '1', '${actor}');
    INSERT INTO agent.provider_jobs (id, organization_id, root_run_id, run_id, tool_call_id, provider, state)
      VALUES ('${span}', '${organization}', '${run}', '${run}', '${span}', 'p', 'submitted');
    INSERT INTO agent.provider_job_results (job_id, organization_id, result_digest, result) VALUES ('${span}', '${organization}', ${x}, '{}');
    INSERT INTO agent.lanes (organization_id, lane) VALUES ('${organization}', 'batch');
    INSERT INTO agent.approvals (id, organization_id, run_id, idempotency_key, span_id, kind, state, action, tool_version, arguments, arguments_hash, principal, expires_at)
      VALUES (gen_random_uuid(), '${organization}', '${run}', 'k', '${span}', 'action', 'approved', 'a.b', 1, '{}', ${x}, '{}', now());
    INSERT INTO agent.idempotency_keys (organization_id, scope, key, run_id, status, request_hash, owner, lease_until)
      VALUES ('${organization}', 'tool.a.b', 'k', '${run}', 'processing', ${x}, '${span}', now());
    INSERT INTO agent.rule_counters (organization_id, period, rule, used) VALUES ('${organization}', 'day:x', 'r', 1);
    INSERT INTO agent.run_taints (organization_id, root_run_id, source) VALUES ('${organization}', '${run}', 'a.b');
    INSERT INTO agent.spans (id, organization_id, run_id, kind, name, status, started_at) VALUES ('${span}', '${organization}', '${run}', 'tool', 'n', 'ok', now());
    INSERT INTO agent.span_payloads (span_id, organization_id) VALUES ('${span}', '${organization}');
    INSERT INTO agent.policy_decisions (id, organization_id, run_id, span_id, tool, arguments_hash, stage, outcome, decided_at)
      VALUES (gen_random_uuid(), '${organization}', '${run}', '${span}', 'a.b', ${x}, 2, 'allow', now());
    INSERT INTO agent.erasures (id, organization_id, salt, subject_hash, erased_by, counts) VALUES (gen_random_uuid(), '${organization}', '${SECRET}', ${x}, '${actor}', '{}');
    INSERT INTO public.ai_usage_log (id, organization_id, root_run_id, run_id, kind, provider, item, quantity, cost_cents)
      VALUES (gen_random_uuid(), '${organization}', '${run}', '${run}', 'tool', 'p', 'i', '{}', 1);
    INSERT INTO public.ai_usage_daily (organization_id, day, kind, provider, item, calls, quantity, cost_cents) VALUES ('${organization}', '2026-01-01', 'tool', 'p', 'i', 1, '{}', 1);
    INSERT INTO public.companies (id, organization_id, domain, name) VALUES ('${company}', '${organization}', 'acme.test', 'Acme');
    INSERT INTO public.people (id, organization_id, email, full_name, company_id) VALUES ('${user}', '${organization}', 'a@acme.test', 'Ann', '${company}');
    INSERT INTO public.lists (id, organization_id, name, kind) VALUES ('${list}', '${organization}', 'l', 'person');
    INSERT INTO public.list_members (organization_id, list_id, member_id) VALUES ('${organization}', '${list}', '${user}');
    INSERT INTO public.memories (id, organization_id, kind, subject, text, content_hash) VALUES (gen_random_uuid(), '${organization}', 'observation', 's', 't', ${x});
  `)
}

test('every table of an organization is listed, and has a row in this test', async () => {
  const tables = await ownedTables()
  expect(ORGANIZATION_TABLES.map(({ name }) => name).toSorted()).toStrictEqual(tables)
  const counts = await Promise.all(tables.map(async (table) => [table, await rowsOf(table, OURS)] as const))
  expect(counts.filter(([, count]) => count === 0)).toStrictEqual([])
})

describe('an export', () => {
  async function exported(pageRows?: number): Promise<ExportLine[]> {
    const lines: ExportLine[] = []
    const report = await exportOrganization(
      db.database,
      { organizationId: OURS, write: async (line) => void lines.push(line) },
      pageRows === undefined ? {} : { pageRows },
    )
    const total = Object.values(report?.rows ?? {}).reduce((sum, count) => sum + count, 0)
    expect(lines).toHaveLength(total + 1)
    return lines
  }

  test('has every row of every table but those of secrets, and none of another organization', async () => {
    const lines = await exported()
    const secret = ['agent.connection_secrets', 'agent.connection_authorizations', 'agent.console_sessions']
    const tables = (await ownedTables()).filter((table) => !secret.includes(table))
    const found = Map.groupBy(lines.slice(1), ({ table }) => table)
    expect(new Set(found.keys())).toStrictEqual(new Set([...tables, 'agent.organizations', 'agent.users']))
    for (const table of tables) expect(found.get(table)).toHaveLength(await rowsOf(table, OURS))
    expect(JSON.stringify(lines)).not.toContain(THEIRS)
  })

  test('holds no secret: no hash of a key, nothing sealed, and no field with a credential’s name', async () => {
    const text = JSON.stringify(await exported())
    for (const form of [SECRET, Buffer.from(SECRET).toString('hex'), Buffer.from(SECRET).toString('base64')])
      expect(text).not.toContain(form)
    expect(text).toContain('"nested":{"password":"[redacted]"}')
    expect(text).not.toMatch(/key_hash|token_hash|wrapped_dek|sealed|"salt"/)
  })

  test('is the same in pages of one row', async () => {
    expect(await exported(1)).toStrictEqual(await exported())
  })

  test('of an organization that is not there is none', async () => {
    const lines: ExportLine[] = []
    const write = async (line: ExportLine) => void lines.push(line)
    expect(await exportOrganization(db.database, { organizationId: randomUUID(), write })).toBeNull()
    expect(lines).toStrictEqual([])
  })

  test('ends with the fault of whoever writes it', async () => {
    const full = new Error('disk full')
    const write = (): Promise<void> => Promise.reject(full)
    await expect(exportOrganization(db.database, { organizationId: OURS, write })).rejects.toBe(full)
    expect(await rowsOf('agent.runs', OURS)).toBe(3)
  })
})

describe('a deletion', () => {
  test('leaves no row of the organization in any table, and every row of another one', async () => {
    const tables = await ownedTables()
    const before = await Promise.all(tables.map((table) => rowsOf(table, THEIRS)))
    expect(await deleteOrganization(db.database, OURS)).toMatchObject({
      kind: 'deleted',
      rows: { 'agent.runs': 3, 'agent.users': 1, 'agent.organizations': 1 },
    })
    expect(await Promise.all(tables.map((table) => rowsOf(table, OURS)))).toStrictEqual(tables.map(() => 0))
    expect(await Promise.all(tables.map((table) => rowsOf(table, THEIRS)))).toStrictEqual(before)
    const organizations = await db.database.kysely.selectFrom('agent.organizations').select('id').execute()
    expect(organizations).toStrictEqual([{ id: THEIRS }])
    // Nothing anywhere still has its id in it, whatever the column is called.
    expect(await everyText()).not.toContain(OURS)
  })

  test('is refused while a run has not ended', async () => {
    const { kysely } = db.database
    const [run] = await kysely.selectFrom('agent.runs').select('id').where('organization_id', '=', OURS).execute()
    await kysely
      .updateTable('agent.runs')
      .set({ status: 'parked', ended_at: null })
      .where('id', '=', run?.id ?? '')
      .execute()
    expect(await deleteOrganization(db.database, OURS)).toStrictEqual({ kind: 'open_runs', count: 1 })
    expect(await rowsOf('agent.runs', OURS)).toBe(3)
  })

  test('keeps people who are members of another organization', async () => {
    const { kysely } = db.database
    const [member] = await kysely
      .selectFrom('agent.memberships')
      .select('user_id')
      .where('organization_id', '=', OURS)
      .execute()
    const user_id = member?.user_id ?? ''
    await kysely.insertInto('agent.memberships').values({ organization_id: THEIRS, user_id, role: 'viewer' }).execute()
    await deleteOrganization(db.database, OURS)
    expect(await kysely.selectFrom('agent.users').select('id').where('id', '=', user_id).execute()).toHaveLength(1)
  })

  test('of an organization that is not there says so', async () => {
    expect(await deleteOrganization(db.database, randomUUID())).toStrictEqual({ kind: 'missing' })
  })

  async function everyText(): Promise<string> {
    const { rows } = await db.database.query<{ name: string }>(
      unnamed(`SELECT schemaname || '.' || tablename AS name FROM pg_tables WHERE schemaname IN ('agent', 'public')`),
    )
    const texts = await Promise.all(
      rows.map(({ name }) => db.database.query(unnamed(`SELECT to_jsonb(t)::text AS row FROM ${name} t`))),
    )
    return JSON.stringify(texts.map((answer) => answer.rows))
  }
})
