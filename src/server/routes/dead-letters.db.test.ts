import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { empty, type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { type NotesInput, type ServerApp, serverApp } from '../../../test/server-app.ts'
import type { RunRow } from '../../runs/run-store.ts'
import { holdOpenRuns } from '../../storage/installation-store.ts'

interface Letters {
  readonly items: readonly { readonly id: string; readonly kind: string; readonly runId: string }[]
  readonly nextCursor: string | null
}

let db: TestDatabase
let server: ServerApp
beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(async () => {
  await empty(db.database)
  server = await serverApp(db.database)
})
afterAll(() => db.close())

async function failed(input: NotesInput = { notes: [] }): Promise<RunRow> {
  const run = await server.startRun(input)
  const ending = { status: 'failed', reason: 'provider_failed', message: 'no answer', output: null } as const
  await server.core.stores.runs.fail(run.id, ending)
  return run
}

async function letters(query = '', as = server.keys.admin): Promise<Letters> {
  return (await server.json<Letters>(`/api/v1/dead-letters${query}`, { as })).body
}

async function answered(runId: string, state: 'expired' | 'stale' | 'pending', kind: 'action' | 'outcome') {
  const id = server.core.newId()
  await db.database.kysely
    .insertInto('agent.approvals')
    .values({
      id,
      organization_id: server.organizationId,
      run_id: runId,
      idempotency_key: id,
      span_id: id,
      kind,
      state,
      action: 'notes.write',
      tool_version: 1,
      arguments: '{"text":"private"}',
      arguments_hash: Buffer.alloc(32),
      preview: 'private',
      principal: '{}',
      expires_at: new Date(),
    })
    .execute()
  return id
}

function retry(runId: string, body: object = {}, as = server.keys.admin) {
  return server.json(`/api/v1/runs/${runId}/retry`, { as, method: 'POST', body })
}

describe('dead letters', () => {
  test('are failed runs, held runs and questions nobody answered, newest first, and quote nothing', async () => {
    const run = await failed()
    const open = await server.startRun({ notes: [] })
    const expired = await answered(open.id, 'expired', 'action')
    const stale = await answered(open.id, 'stale', 'action')
    const unknown = await answered(open.id, 'pending', 'outcome')
    await answered(open.id, 'pending', 'action')
    await holdOpenRuns(db.database, 'came back')
    const page = await letters()
    expect(page.items.map(({ id, kind }) => [kind, id])).toStrictEqual([
      ['outcome_unanswered', unknown],
      ['approval_stale', stale],
      ['approval_expired', expired],
      ['run_held', open.id],
      ['run_failed', run.id],
    ])
    expect(page.items.at(-1)).toMatchObject({ reason: 'provider_failed', message: 'no answer', tool: null })
    expect(page.items[3]).toMatchObject({ message: 'came back', definition: 'notes' })
    expect(page.items[0]).toMatchObject({ tool: 'notes.write', runId: open.id })
    expect(JSON.stringify(page)).not.toContain('private')
  })

  test('come in pages, and of one kind where one is named', async () => {
    const runs = [await failed(), await failed(), await failed()].map(({ id }) => id).toReversed()
    await answered(runs[0] ?? '', 'expired', 'action')
    const first = await letters('?kind=run_failed&limit=2')
    expect(first.items.map(({ id }) => id)).toStrictEqual(runs.slice(0, 2))
    const second = await letters(`?kind=run_failed&limit=2&cursor=${first.nextCursor}`)
    expect(second).toMatchObject({ items: [{ id: runs[2] }], nextCursor: null })
    expect((await letters('?kind=approval_expired')).items).toHaveLength(1)
    expect((await server.json('/api/v1/dead-letters?kind=x', { as: server.keys.admin })).status).toBe(400)
  })

  test('are of one organization, and for those who look after it', async () => {
    await failed()
    expect((await letters('', server.stranger)).items).toStrictEqual([])
    for (const kind of ['run', 'approve'] as const)
      expect((await server.json('/api/v1/dead-letters', { as: server.keys[kind] })).status).toBe(403)
  })
})

describe('a retry', () => {
  test('is a new run of the same definition and input, and the failed one stays as it is', async () => {
    const run = await failed({ notes: ['again'] })
    const { status, body } = await retry(run.id, {}, server.keys.run)
    expect({ status, body }).toMatchObject({
      status: 201,
      body: {
        definition: 'notes',
        status: 'queued',
        input: { notes: ['again'] },
        retryOf: run.id,
        startedBy: { id: server.keyIds.run },
      },
    })
    expect(body['id']).not.toBe(run.id)
    const after = await server.json(`/api/v1/runs/${run.id}`, { as: server.keys.admin })
    expect(after.body).toMatchObject({ status: 'failed', retryOf: null })
    expect((await letters()).items).toStrictEqual([])
  })

  test('happens once: a second one is refused and names the first, also of many at once', async () => {
    const run = await failed()
    const all = await Promise.all(Array.from({ length: 5 }, () => retry(run.id)))
    const won = all.filter(({ status }) => status === 201)
    expect(won).toHaveLength(1)
    expect(all.filter(({ status }) => status === 409)).toHaveLength(4)
    expect(await retry(run.id)).toMatchObject({ status: 409, body: { runId: won[0]?.body['id'] } })
  })

  test('of a run that wrote something needs to be told that it may do so again', async () => {
    const run = await server.startRun({ notes: ['one'] })
    await server.engine.settle()
    const { items } = await server.core.approvals.list(server.organizationId, { runId: run.id })
    const [approval] = items
    if (approval === undefined) throw new Error('no approval')
    const answer = `/api/v1/approvals/${approval.id}/approve`
    const body = { argumentsHash: approval.argumentsHash }
    expect((await server.json(answer, { as: server.keys.approve, method: 'POST', body })).status).toBe(200)
    await server.engine.settle()
    await db.database.kysely.updateTable('agent.runs').set({ status: 'failed' }).where('id', '=', run.id).execute()
    expect(server.written).toStrictEqual(['one'])
    expect(await retry(run.id)).toMatchObject({ status: 409, body: { code: 'conflict', effects: 1 } })
    expect(await retry(run.id, { effectsMayRepeat: true })).toMatchObject({ status: 201 })
  })

  test('keeps the lower ceilings of a run, and those that were lowered since', async () => {
    const ceilings = { maxTurns: 3, maxToolCalls: 50 }
    const body = { definition: 'notes', input: { notes: [] }, ceilings }
    const started = await server.json<{ id: string }>('/api/v1/runs', { as: server.keys.admin, method: 'POST', body })
    const ending = { status: 'failed', reason: 'r', message: null, output: null } as const
    await server.core.stores.runs.fail(started.body.id, ending)
    const lowered = { slug: 'notes', instructions: 'Less.', tools: ['notes.write'], ceilings: { maxToolCalls: 7 } }
    expect(
      (await server.json('/api/v1/definitions', { as: server.keys.admin, method: 'POST', body: lowered })).status,
    ).toBe(201)
    expect((await retry(started.body.id)).body['ceilings']).toMatchObject({ maxTurns: 3, maxToolCalls: 7 })
  })

  test.each(['completed', 'parked'] as const)('of a run that is %s is refused', async (status) => {
    const run = await server.startRun({ notes: [] })
    await db.database.kysely.updateTable('agent.runs').set({ status }).where('id', '=', run.id).execute()
    expect(await retry(run.id)).toMatchObject({ status: 409, body: { code: 'conflict' } })
  })

  test('of a child, of a program of one’s own and of an erased input is refused', async () => {
    const changes = [
      { parent_run_id: randomUUID(), parent_step: 's' },
      { source: 'library' },
      { input: '{"erased":true}' },
    ]
    for (const change of changes) {
      const run = await failed()
      await db.database.kysely.updateTable('agent.runs').set(change).where('id', '=', run.id).execute()
      expect(await retry(run.id)).toMatchObject({ status: 409 })
    }
  })

  test('of a run of another organization finds none', async () => {
    const run = await failed()
    expect((await retry(run.id, {}, server.stranger)).status).toBe(404)
    expect((await retry(run.id, {}, server.keys.approve)).status).toBe(403)
  })
})
