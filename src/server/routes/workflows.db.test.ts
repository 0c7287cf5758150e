import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type ServerApp, serverApp } from '../../../test/server-app.ts'
import { empty, type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { expr, sequence, tool, waitForSignal } from '../../runs/workflow/index.ts'
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

const ROOT = sequence('main', [
  tool('find', { tool: 'notes.list', args: {} }),
  waitForSignal('go', { name: 'go', timeoutS: 60 }),
])

const publish = (body: object, as = server.keys.admin) => server.json('/api/v1/workflows', { as, method: 'POST', body })

async function started(as = server.keys.run): Promise<string> {
  await publish({ slug: 'flow', root: ROOT, output: expr('steps.go.output.payload') })
  const { body } = await server.json<RunJson>('/api/v1/runs', {
    as,
    method: 'POST',
    body: { definition: 'flow', input: null },
  })
  await server.engine.settle()
  return body.id
}

const signal = (id: string, body: unknown = {}, as = server.keys.run) =>
  server.json(`/api/v1/runs/${id}/signals/go`, { as, method: 'POST', body })

describe('publishing a workflow', () => {
  test('answers its version, and the definitions list it beside the agents', async () => {
    expect(await publish({ slug: 'flow', root: ROOT })).toEqual({ status: 201, body: { slug: 'flow', version: 1 } })
    expect(await publish({ slug: 'flow', root: ROOT })).toMatchObject({ body: { version: 1 } })
    const { body } = await server.json<{ items: object[] }>('/api/v1/definitions', { as: server.keys.admin })
    expect(body.items).toEqual([
      expect.objectContaining({ kind: 'workflow', slug: 'flow', tools: ['notes.list'], root: ROOT, model: null }),
      expect.objectContaining({ kind: 'agent', slug: 'notes', root: null }),
    ])
  })

  test('is refused with every fault of every node', async () => {
    const root = sequence('main', [
      tool('a', { tool: 'notes.lits', args: {} }),
      waitForSignal('in', { name: 'go', timeoutS: 1 }),
    ])
    const { status, body } = await publish({ slug: 'flow', root })
    expect(status).toBe(422)
    expect(body).toMatchObject({ code: 'invalid_input' })
    expect(body['detail']).toContain('did you mean notes.list?')
    expect(body['detail']).toContain('node in, id')
  })

  test('needs a body with a root, and the right to administer', async () => {
    expect(await publish({ slug: 'flow' })).toMatchObject({ status: 422 })
    expect(await publish({ slug: 'flow', root: ROOT }, server.keys.run)).toMatchObject({ status: 403 })
  })
})

describe('sending a signal', () => {
  test('lets the run go on with what was sent', async () => {
    const id = await started()
    expect(await signal(id, { payload: { paid: true } })).toEqual({ status: 200, body: { accepted: true } })
    await server.engine.settle()
    const { body } = await server.json<RunJson>(`/api/v1/runs/${id}`, { as: server.keys.run })
    expect(body).toMatchObject({
      status: 'completed',
      output: { paid: true },
      model: 'workflow',
      tools: ['notes.list'],
    })
    expect(await signal(id)).toMatchObject({ status: 409, body: { code: 'conflict' } })
  })

  test('is for whoever started the run, and for administrators', async () => {
    const id = await started(server.keys.admin)
    expect(await signal(id, {}, server.keys.run)).toMatchObject({ status: 403 })
    expect(await signal(id, {}, server.keys.approve)).toMatchObject({ status: 403 })
    expect(await signal(id, {}, server.stranger)).toMatchObject({ status: 404 })
    expect(await signal(id, {}, server.keys.admin)).toMatchObject({ status: 200 })
  })

  test('takes at most 64 kB, and a name that is one', async () => {
    const id = await started()
    expect(await signal(id, { payload: 'x'.repeat(65_536) })).toMatchObject({ status: 422 })
    const unnamed = `/api/v1/runs/${id}/signals/Go%20on`
    expect(await server.json(unnamed, { as: server.keys.run, method: 'POST', body: {} })).toMatchObject({ status: 404 })
  })
})

test('the tree of a run shows its nodes', async () => {
  const id = await started()
  await server.core.ledger.flush()
  const { body } = await server.json<{ spans: SpanJson[] }>(`/api/v1/runs/${id}/tree`, { as: server.keys.run })
  const nodes = body.spans.filter(({ kind }) => kind === 'node')
  expect(Object.fromEntries(nodes.map(({ name, ...span }) => [name, span]))).toMatchObject({
    main: { status: 'running', parentId: id },
    find: { status: 'ok' },
    go: { status: 'running', attributes: { wait: 'signal' } },
  })
})
