import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type ServerApp, serverApp } from '../../../test/server-app.ts'
import { testDatabase, type TestDatabase } from '../../../test/setup/database.ts'
import type { ObservedEvent } from '../../observing/observer.ts'
import { type Metrics, serverMetrics } from '../metrics/metrics.ts'

const TOKEN = 'a-token-for-whoever-scrapes'

let db: TestDatabase
let metrics: Metrics
let server: ServerApp
beforeEach(async () => {
  db = await testDatabase()
  metrics = serverMetrics()
  server = await serverApp(db.database, { metrics, metricsToken: TOKEN })
})
afterEach(() => db.close())

/** Every sample of our own, by its name with labels. */
async function samples(): Promise<Readonly<Record<string, number>>> {
  const response = await server.request('/metrics', { as: TOKEN })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
}

async function approveAll(): Promise<void> {
  const { items } = await server.core.approvals.list(server.organizationId, { state: 'pending' })
  for (const { id, argumentsHash } of items)
    await server.core.approvals.approve({
      organizationId: server.organizationId,
      approvalId: id,
      argumentsHash,
      decider: { actor: { kind: 'user', id: server.organizationId, name: 'Ben' }, roles: ['approver'] },
      note: null,
    })
}

describe('what a run leaves in the figures', () => {
  test('calls, decisions, questions, claims, runs, segments, tokens', async () => {
    const run = await server.startRun({ notes: ['one', 'two'] })
    await server.engine.settle()
    expect(await samples()).toMatchObject({
      'bailiff_runs_created_total{lane="interactive"}': 1,
      'bailiff_open_runs{status="parked",lane="interactive"}': 1,
      bailiff_questions_pending: 2,
      'bailiff_questions_filed_total{tool="notes.write",question="action"}': 2,
      'bailiff_calls_total{tool="notes.write",outcome="held",code=""}': 2,
      'bailiff_decisions_total{tool="notes.write",effect="require_approval",stage="2"}': 2,
      'bailiff_segments_total{ending="parked",lane="interactive"}': 1,
    })
    await approveAll()
    await server.engine.settle()
    expect((await server.runtime.runs.get(server.organizationId, run.id))?.status).toBe('completed')
    const after = await samples()
    expect(after).toMatchObject({
      'bailiff_questions_decided_total{state="approved"}': 2,
      'bailiff_question_wait_seconds_count{state="approved"}': 2,
      'bailiff_calls_total{tool="notes.write",outcome="ok",code=""}': 2,
      'bailiff_decisions_total{tool="notes.write",effect="allow",stage="2"}': 2,
      'bailiff_claims_total{tool="notes.write",ending="complete"}': 2,
      'bailiff_runs_ended_total{status="completed",lane="interactive"}': 1,
      'bailiff_segment_duration_seconds_count{lane="interactive"}': 2,
      bailiff_held_runs: 0,
      bailiff_questions_pending: 0,
      bailiff_engine_taking_work: 1,
    })
    expect(after['bailiff_model_tokens_total{model="scripted/notes",direction="input"}']).toBeGreaterThan(0)
    expect(Object.keys(after).filter((name) => name.startsWith('bailiff_open_runs'))).toStrictEqual([])
    expect(Object.keys(after)).toContain('nodejs_eventloop_lag_p99_seconds')
  })

  test('the run that is due the longest, and runs that are held', async () => {
    const run = await server.startRun({ notes: ['one'] })
    await db.database.execute(`UPDATE agent.runs SET created_at = now() - interval '90 seconds'`)
    const due = (await samples())['bailiff_oldest_due_seconds'] ?? 0
    expect(due).toBeGreaterThanOrEqual(90)
    expect(due).toBeLessThan(600)
    await db.database.execute(`UPDATE agent.runs SET held_at = now(), held_reason = 'x' WHERE id = '${run.id}'`)
    expect(await samples()).toMatchObject({ bailiff_held_runs: 1, bailiff_oldest_due_seconds: 0 })
  })
})

test('no label grows with what models and runs bring: unknown tools and too many codes are one', async () => {
  const call = (tool: string, admitted: boolean, code: string): ObservedEvent => ({
    kind: 'call_ended',
    organizationId: 'o',
    runId: crypto.randomUUID(),
    rootRunId: crypto.randomUUID(),
    agent: 'notes',
    spanId: crypto.randomUUID(),
    parentId: null,
    admitted,
    tool,
    outcome: 'error',
    code,
    attempt: null,
    replayed: false,
    untrusted: false,
    claim: null,
    decision: null,
    startedAt: new Date(),
    ms: 1,
  })
  for (let index = 0; index < 1_000; index += 1) {
    metrics.observer.observe(call(`made.up_${index}`, index % 2 === 0, 'tool_unavailable'))
    metrics.observer.observe(call('notes.write', true, `Code${index}`))
  }
  const names = Object.keys(await samples()).filter((name) => name.startsWith('bailiff_calls_total'))
  expect(names).toContain('bailiff_calls_total{tool="other",outcome="error",code="tool_unavailable"}')
  expect(names.filter((name) => name.includes('made'))).toStrictEqual([])
  expect(names.length).toBeLessThanOrEqual(202)
  expect(names.join('\n')).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}/)
})

describe('who may read them', () => {
  test('whoever has the token, and administrators of this deployment', async () => {
    expect((await server.request('/metrics', { as: TOKEN })).status).toBe(200)
    expect((await server.request('/metrics', { as: server.keys.admin })).status).toBe(200)
  })

  test('nobody else: other keys, other organizations, a wrong token, nobody at all', async () => {
    expect((await server.request('/metrics', { as: server.keys.run })).status).toBe(403)
    expect((await server.request('/metrics', { as: server.keys.approve })).status).toBe(403)
    expect((await server.request('/metrics', { as: server.stranger })).status).toBe(403)
    expect((await server.request('/metrics', { as: `${TOKEN}x` })).status).toBe(401)
    expect((await server.request('/metrics')).status).toBe(401)
  })

  test('a server without metrics has nothing there', async () => {
    const without = await serverApp(db.database)
    expect((await without.request('/metrics', { as: without.keys.admin })).status).toBe(404)
  })
})
