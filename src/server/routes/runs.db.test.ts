import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { MODEL, type ServerApp, serverApp } from '../../../test/server-app.ts'
import { empty, type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import type { RunJson, SpanJson } from '../json.ts'

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

function start(body: object, as = server.keys.run) {
  return server.json<RunJson>('/api/v1/runs', { as, method: 'POST', body })
}

describe('starting', () => {
  test('a run is queued and named by its location', async () => {
    const response = await server.request('/api/v1/runs', {
      as: server.keys.run,
      method: 'POST',
      body: { definition: 'notes', input: { notes: [] } },
    })
    expect(response.status).toBe(201)
    const run = (await response.json()) as RunJson
    expect(response.headers.get('location')).toBe(`/api/v1/runs/${run.id}`)
    expect(run).toMatchObject({
      definition: 'notes',
      status: 'queued',
      source: 'api',
      model: MODEL,
      input: { notes: [] },
      output: null,
      startedBy: { kind: 'api_key', id: server.keyIds.run, name: 'run key' },
      tools: ['notes.list', 'notes.write'],
      costCents: 0,
      pendingApprovals: 0,
    })
    await server.engine.settle()
    expect((await server.json(`/api/v1/runs/${run.id}`, { as: server.keys.run })).body).toMatchObject({
      status: 'completed',
      output: 'Done.',
      turns: 1,
    })
  })

  test('an unknown definition is not found, and the known ones are named', async () => {
    const { status, body } = await start({ definition: 'nots', input: null })
    expect(status).toBe(404)
    expect(body).toMatchObject({ code: 'not_found', detail: expect.stringContaining('published are notes') })
  })

  test('a missing input, an unknown field and a ceiling above the definition are refused', async () => {
    for (const body of [
      { definition: 'notes' },
      { definition: 'notes', input: null, inputs: 1 },
      { definition: 'notes', input: null, ceilings: { maxTurns: 1_000 } },
    ]) {
      expect(await start(body)).toMatchObject({ status: 422, body: { code: 'invalid_input' } })
    }
  })

  test('an input over 256 kB is refused', async () => {
    expect(await start({ definition: 'notes', input: 'x'.repeat(256 * 1024) })).toMatchObject({
      status: 422,
      body: { detail: expect.stringContaining('256 kB') },
    })
  })

  test('a key of kind approve starts nothing', async () => {
    expect(await start({ definition: 'notes', input: null }, server.keys.approve)).toMatchObject({
      status: 403,
      body: { code: 'forbidden', remedy: expect.stringContaining('run or admin') },
    })
  })
})

describe('reading', () => {
  test('runs are listed newest first, in pages', async () => {
    const ids: string[] = []
    for (const note of ['a', 'b', 'c']) ids.unshift((await server.startRun({ notes: [note] })).id)
    const page = async (query: string) =>
      (
        await server.json<{ items: RunJson[]; nextCursor: string | null }>(`/api/v1/runs?${query}`, {
          as: server.keys.run,
        })
      ).body
    const first = await page('limit=2')
    const second = await page(`limit=2&cursor=${first.nextCursor}`)
    expect([...first.items, ...second.items].map(({ id }) => id)).toStrictEqual(ids)
    expect(second.nextCursor).toBeNull()
    expect((await page('status=completed')).items).toStrictEqual([])
    expect((await page('definition=notes')).items).toHaveLength(3)
  })

  test('the tree holds turns, calls, decisions and what became of the questions', async () => {
    const run = await server.startRun({ notes: ['first'] })
    await server.engine.settle()
    const tree = async () =>
      (
        await server.json<{ run: RunJson; spans: SpanJson[] }>(`/api/v1/runs/${run.id}/tree`, {
          as: server.keys.approve,
        })
      ).body
    const before = await tree()
    expect(before.run).toMatchObject({ status: 'parked', pendingApprovals: 1 })
    expect(before.spans.map(({ kind, name }) => `${kind} ${name}`)).toStrictEqual([
      'run notes',
      `llm ${MODEL}`,
      'tool notes.write',
    ])
    const [, turn, call] = before.spans
    expect(call).toMatchObject({
      parentId: turn?.id,
      input: { text: 'first' },
      decision: { outcome: 'require_approval', rule: 'notes need a person' },
      approval: { state: 'pending', decidedBy: null },
    })
    await server.json(`/api/v1/approvals/${call?.approval?.id}/reject`, {
      as: server.keys.admin,
      method: 'POST',
      body: {
        argumentsHash: (await server.core.approvals.list(server.organizationId)).items[0]?.argumentsHash,
        note: 'not this one',
      },
    })
    await server.engine.settle()
    const after = await tree()
    expect(after.spans.find(({ id }) => id === call?.id)?.approval).toMatchObject({
      state: 'rejected',
      decidedBy: { name: 'admin key' },
      note: 'not this one',
    })
    expect(after.spans.filter(({ code }) => code === 'rejected')).toHaveLength(1)
  })

  test.for(['', '/tree', '/events', '/cancel'])('a run of another organization is not found%s', async (rest) => {
    const run = await server.startRun({ notes: [] })
    const method = rest === '/cancel' ? 'POST' : 'GET'
    for (const id of [run.id, '01890000-0000-7000-8000-000000000000', 'nonsense']) {
      expect((await server.request(`/api/v1/runs/${id}${rest}`, { as: server.stranger, method })).status).toBe(404)
    }
    expect((await server.json<{ items: unknown[] }>('/api/v1/runs', { as: server.stranger })).body.items).toStrictEqual(
      [],
    )
  })
})

describe('cancelling', () => {
  function cancel(id: string, as: string, body?: object) {
    return server.json(`/api/v1/runs/${id}/cancel`, { as, method: 'POST', ...(body === undefined ? {} : { body }) })
  }

  test('a run key cancels what it started and nothing else', async () => {
    const own = (await start({ definition: 'notes', input: { notes: ['a'] } })).body
    const foreign = await server.startRun({ notes: ['b'] })
    expect(await cancel(own.id, server.keys.run, { reason: 'wrong list' })).toStrictEqual({
      status: 200,
      body: { accepted: true, inFlight: 0 },
    })
    expect(await cancel(foreign.id, server.keys.run)).toMatchObject({ status: 403, body: { code: 'forbidden' } })
    expect((await cancel(foreign.id, server.keys.approve)).status).toBe(403)
    expect((await cancel(foreign.id, server.keys.admin)).status).toBe(200)
    await server.engine.settle()
    expect((await server.json(`/api/v1/runs/${own.id}`, { as: server.keys.run })).body).toMatchObject({
      status: 'cancelled',
      message: 'wrong list',
    })
    expect(server.written).toStrictEqual([])
  })

  test('a run that has ended says when', async () => {
    const run = await server.startRun({ notes: [] })
    await server.engine.settle()
    expect(await cancel(run.id, server.keys.admin)).toMatchObject({
      status: 409,
      body: { reason: 'run_ended', status: 409, runStatus: 'completed', endedAt: expect.any(String) },
    })
  })
})
