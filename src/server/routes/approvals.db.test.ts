import { v7 as uuidv7 } from 'uuid'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type ServerApp, serverApp } from '../../../test/server-app.ts'
import { empty, type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { argumentsHash } from '../../tools/canonical.ts'
import type { ApprovalJson } from '../json.ts'

let db: TestDatabase
let server: ServerApp

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  server = await serverApp(db.database)
})

const HELD_BY_FINANCE = {
  name: 'notes need a person',
  tools: ['notes.write'],
  when: null,
  effect: 'require_approval',
  mode: 'enforce',
  approvers: ['finance'],
  ttlS: null,
  limit: null,
} as const

/** Approvals of one run, oldest first. */
async function held(...notes: string[]): Promise<ApprovalJson[]> {
  await server.startRun({ notes })
  await server.engine.settle()
  return (await list('?state=pending')).items
}

async function list(query = ''): Promise<{ items: ApprovalJson[]; nextCursor: string | null }> {
  return (
    await server.json<{ items: ApprovalJson[]; nextCursor: string | null }>(`/api/v1/approvals${query}`, {
      as: server.keys.approve,
    })
  ).body
}

async function one(): Promise<ApprovalJson> {
  const [approval] = await held('first')
  if (approval === undefined) throw new Error('nothing is held')
  return approval
}

interface Answer extends Record<string, unknown> {
  readonly as?: string
}

function answer(
  approval: ApprovalJson,
  verb: 'approve' | 'reject',
  { as = server.keys.approve, ...body }: Answer = {},
) {
  return server.json(`/api/v1/approvals/${approval.id}/${verb}`, {
    as,
    method: 'POST',
    body: { argumentsHash: approval.argumentsHash, ...body },
  })
}

describe('reading', () => {
  test('an approval has exactly the documented fields', async () => {
    const approval = await one()
    expect(approval).toStrictEqual({
      id: expect.any(String),
      state: 'pending',
      kind: 'action',
      tool: 'notes.write',
      toolVersion: 1,
      arguments: { text: 'first' },
      argumentsHash: expect.stringMatching(/^[0-9a-f]{64}$/),
      preview: 'Write the note first',
      rule: 'notes need a person',
      facts: {},
      hidden: false,
      runId: expect.any(String),
      spanId: expect.any(String),
      requestedAt: expect.any(String),
      expiresAt: expect.any(String),
      decidedAt: null,
      decidedBy: null,
      note: null,
      principal: { agent: 'notes', startedBy: { kind: 'system', id: 'test', name: 'test' } },
    })
    expect((await server.json(`/api/v1/approvals/${approval.id}`, { as: server.keys.approve })).body).toStrictEqual(
      approval,
    )
  })

  test('pages follow each other without a gap, and filters narrow them', async () => {
    const all = await held('a', 'b', 'c')
    const first = await list('?state=pending&limit=2')
    const second = await list(`?state=pending&limit=2&cursor=${first.nextCursor}`)
    expect([...first.items, ...second.items].map(({ id }) => id)).toStrictEqual(all.map(({ id }) => id))
    expect(second.nextCursor).toBeNull()
    expect((await list('?state=approved')).items).toStrictEqual([])
    expect((await list(`?runId=${all[0]?.runId}`)).items).toHaveLength(3)
  })

  test('a GET of an approval, or of its answer routes, decides nothing', async () => {
    const approval = await one()
    await server.request(`/api/v1/approvals/${approval.id}`, { as: server.keys.approve })
    expect((await server.request(`/api/v1/approvals/${approval.id}/approve`, { as: server.keys.approve })).status).toBe(
      404,
    )
    expect((await list('?state=pending')).items).toHaveLength(1)
  })

  test('ids of another organization, unknown ids and ids that are none look the same', async () => {
    const approval = await one()
    const seen = await Promise.all(
      [approval.id, '01890000-0000-7000-8000-000000000000'].map((id) =>
        server.json(`/api/v1/approvals/${id}`, { as: server.stranger }),
      ),
    )
    expect(seen[0]).toStrictEqual(seen[1])
    expect(seen[0]?.status).toBe(404)
    expect((await server.request('/api/v1/approvals/nonsense', { as: server.stranger })).status).toBe(404)
    expect((await answer(approval, 'approve', { as: server.stranger })).status).toBe(404)
    expect((await list('?state=pending')).items).toHaveLength(1)
  })
})

describe('answering', () => {
  test('an approval runs the call once and says who decided', async () => {
    const approval = await one()
    const { status, body } = await answer(approval, 'approve', { note: 'fine' })
    expect(status).toBe(200)
    expect(body).toMatchObject({
      state: 'approved',
      note: 'fine',
      decidedBy: { kind: 'api_key', id: server.keyIds.approve, name: 'approve key' },
    })
    await server.engine.settle()
    expect(server.written).toStrictEqual(['first'])
  })

  test('the second answer is told whose answer stands, and since when', async () => {
    const approval = await one()
    const { body: decided } = await answer(approval, 'reject', { note: 'no' })
    const second = await answer(approval, 'approve')
    expect(second.status).toBe(409)
    expect(second.body).toMatchObject({
      code: 'conflict',
      reason: 'already_decided',
      state: 'rejected',
      decidedBy: { name: 'approve key' },
      decidedAt: decided['decidedAt'],
      detail: expect.stringContaining('rejected by approve key at'),
    })
    await server.engine.settle()
    expect(server.written).toStrictEqual([])
  })

  test.for([
    ['approve', 'approve'],
    ['approve', 'reject'],
  ] as const)('of %s and %s in the same instant exactly one takes effect', async ([a, b]) => {
    const approval = await one()
    const outcomes = await Promise.all([answer(approval, a), answer(approval, b, { as: server.keys.admin })])
    expect(new Set(outcomes.map(({ status }) => status))).toStrictEqual(new Set([200, 409]))
    const winner = outcomes.find(({ status }) => status === 200)
    const loser = outcomes.find(({ status }) => status === 409)
    expect(loser?.body).toMatchObject({ state: winner?.body['state'], decidedAt: winner?.body['decidedAt'] })
    await server.engine.settle()
    expect(server.written).toStrictEqual(winner?.body['state'] === 'approved' ? ['first'] : [])
  })

  test('an answer to other arguments than the ones shown is refused', async () => {
    const approval = await one()
    const { status, body } = await answer(approval, 'approve', { argumentsHash: '0'.repeat(64) })
    expect(status).toBe(409)
    expect(body).toMatchObject({ reason: 'hash_mismatch', argumentsHash: approval.argumentsHash })
    expect((await list('?state=pending')).items).toHaveLength(1)
  })

  test('an answer without a hash, or with an unknown field, is refused', async () => {
    const approval = await one()
    const path = `/api/v1/approvals/${approval.id}/approve`
    for (const body of [{}, { argumentsHash: approval.argumentsHash, approved: true }]) {
      expect(await server.json(path, { as: server.keys.approve, method: 'POST', body })).toMatchObject({
        status: 422,
        body: { code: 'invalid_input' },
      })
    }
  })

  test('an approval whose tool was switched off meanwhile closes as stale', async () => {
    const approval = await one()
    await server.request('/api/v1/tools/notes.write/disable', { as: server.keys.admin, method: 'POST' })
    expect(await answer(approval, 'approve')).toMatchObject({
      status: 409,
      body: { reason: 'tool_unavailable', stale: true },
    })
    expect(await answer(approval, 'approve')).toMatchObject({
      status: 409,
      body: { reason: 'already_decided', state: 'stale', decidedBy: { name: 'approve key' } },
    })
  })

  test('whoever started a run decides on it only where the organization says so', async () => {
    const actor = { kind: 'api_key', id: server.keyIds.admin, name: 'admin key' } as const
    await server.startRun({ notes: ['own'] }, actor)
    await server.engine.settle()
    const [approval] = (await list('?state=pending')).items
    if (approval === undefined) throw new Error('nothing is held')
    expect(await answer(approval, 'approve', { as: server.keys.admin })).toMatchObject({
      status: 403,
      body: { code: 'denied', reason: 'own_run' },
    })
    await server.core.stores.organizations.configure(server.organizationId, { selfApproval: true })
    expect((await answer(approval, 'approve', { as: server.keys.admin })).status).toBe(200)
  })

  test('a rejection may stop the run too', async () => {
    const approval = await one()
    expect((await answer(approval, 'reject', { stopRun: true, note: 'wrong list' })).status).toBe(200)
    await server.engine.settle()
    expect((await server.json(`/api/v1/runs/${approval.runId}`, { as: server.keys.approve })).body).toMatchObject({
      status: 'cancelled',
      message: 'wrong list',
    })
  })

  test('a rejection that stops the run leaves no step between the two', async () => {
    const approval = await one()
    await answer(approval, 'reject', { stopRun: true })
    const { rows } = await db.database.query<{ same: boolean }>({
      name: '',
      text: `SELECT a.decided_at - c.cancel_requested_at < interval '1 second' AND a.xmin = c.xmin AS same
             FROM agent.approvals a JOIN agent.run_control c USING (run_id)`,
    })
    expect(rows).toEqual([{ same: true }])
  })

  test('what a question with named approvers is about is hidden from other approvers, there and in the run tree', async () => {
    await server.core.stores.rules.save({
      organizationId: server.organizationId,
      by: { kind: 'system', id: 'test', name: 'test' },
      id: uuidv7(),
      rule: { ...HELD_BY_FINANCE },
    })
    const hidden = await one()
    expect(hidden).toMatchObject({ hidden: true, arguments: null, preview: null, facts: null })
    expect(await answer(hidden, 'approve')).toMatchObject({ status: 403, body: { reason: 'not_an_approver' } })
    const seen = await server.json(`/api/v1/approvals/${hidden.id}`, { as: server.keys.admin })
    expect(seen.body).toMatchObject({ hidden: false, arguments: { text: 'first' } })
    const tree = await server.request(`/api/v1/runs/${hidden.runId}/tree`, { as: server.keys.approve })
    const { spans } = (await tree.json()) as { spans: { name: string; hidden: boolean; input: unknown }[] }
    expect(spans.filter(({ name }) => name === 'notes.write')).toMatchObject([{ hidden: true, input: null }])
  })

  test('keys of kind run neither see nor answer approvals', async () => {
    const approval = await one()
    expect(await server.json('/api/v1/approvals', { as: server.keys.run })).toMatchObject({
      status: 403,
      body: { code: 'forbidden' },
    })
    expect((await answer(approval, 'approve', { as: server.keys.run })).status).toBe(403)
  })
})

describe('a question about an outcome', () => {
  /** A worker died in the middle of the call: its claim is there, and nobody knows more. */
  async function unknown(): Promise<ApprovalJson> {
    const run = await server.startRun({ notes: ['first'] })
    const hash = argumentsHash({ text: 'first' })
    await db.database.kysely
      .insertInto('agent.idempotency_keys')
      .values({
        organization_id: server.organizationId,
        scope: 'tool.notes.write',
        key: `${run.id}:agent:${hash}`,
        run_id: run.id,
        status: 'processing',
        request_hash: Buffer.from(hash, 'hex'),
        owner: uuidv7(),
        lease_until: new Date(0),
      })
      .execute()
    await server.engine.settle()
    const [approval] = (await list('?state=pending')).items
    if (approval === undefined) throw new Error('nothing is asked')
    return approval
  }

  test('takes no plain yes', async () => {
    const approval = await unknown()
    expect(approval).toMatchObject({ kind: 'outcome', state: 'pending', tool: 'notes.write' })
    expect(await answer(approval, 'approve')).toMatchObject({
      status: 422,
      body: { code: 'invalid_input', reason: 'outcome_required', remedy: expect.stringContaining('send_again') },
    })
    expect(await answer(approval, 'approve', { outcome: 'perhaps' })).toMatchObject({ status: 422 })
    expect((await list('?state=pending')).items).toHaveLength(1)
  })

  test.for([
    { what: 'it arrived: nothing is done again', verb: 'approve', body: { outcome: 'arrived' }, written: [] },
    { what: 'send it again: it is done once', verb: 'approve', body: { outcome: 'send_again' }, written: ['first'] },
    { what: 'leave it: nothing is done again', verb: 'reject', body: { note: 'leave it' }, written: [] },
  ] as const)('$what', async ({ verb, body, written }) => {
    const approval = await unknown()
    expect((await answer(approval, verb, body)).status).toBe(200)
    await server.engine.settle()
    // Sending again is a call like any other, and this one needs a person.
    for (const held of (await list('?state=pending')).items) await answer(held, 'approve')
    await server.engine.settle()
    expect(server.written).toStrictEqual(written)
    expect((await server.json(`/api/v1/runs/${approval.runId}`, { as: server.keys.run })).body).toMatchObject({
      status: 'completed',
    })
  })
})
