import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { empty, type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { type ServerApp, serverApp } from '../../../test/server-app.ts'

const ANN = 'ann@acme.test'

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

function erase(body: object, as = server.keys.admin) {
  return server.json('/api/v1/erasures', { as, method: 'POST', body })
}

test('an erasure answers what was done, and is listed without saying of whom', async () => {
  const run = await server.startRun({ notes: [] })
  await server.engine.settle()
  await db.database.kysely
    .updateTable('agent.runs')
    .set({ input: JSON.stringify({ to: ANN }) })
    .where('id', '=', run.id)
    .execute()
  expect(await erase({ email: ANN })).toMatchObject({ status: 201, body: { counts: { runs: 1 } } })
  const listed = await server.json('/api/v1/erasures', { as: server.keys.admin })
  expect(listed.body).toMatchObject({ items: [{ erasedBy: { id: server.keyIds.admin }, counts: { runs: 1 } }] })
  expect(JSON.stringify(listed.body)).not.toContain(ANN)
  expect((await server.json('/api/v1/erasures', { as: server.stranger })).body).toMatchObject({ items: [] })
})

test('an erasure that a run stands in the way of names it, cancels it where told so, and works once it has ended', async () => {
  const run = await server.startRun({ notes: [`write to ${ANN}`] })
  await server.engine.settle()
  const refused = await erase({ email: ANN })
  expect(refused).toMatchObject({ status: 409, body: { code: 'conflict', runIds: [run.id], cancelled: false } })
  await server.engine.settle()
  expect((await server.core.stores.runs.get(server.organizationId, run.id))?.status).toBe('parked')

  expect(await erase({ email: ANN, cancelRuns: true })).toMatchObject({ status: 409, body: { cancelled: true } })
  await server.engine.settle()
  expect((await server.core.stores.runs.get(server.organizationId, run.id))?.status).toBe('cancelled')
  expect(await erase({ email: ANN })).toMatchObject({ status: 201, body: { counts: { approvals: 1 } } })
  const tree = await server.request(`/api/v1/runs/${run.id}/tree`, { as: server.keys.admin })
  expect(await tree.text()).not.toContain(ANN)
})

test('an erasure needs an address, and a key that administers', async () => {
  expect(await erase({ email: 'Ann' })).toMatchObject({ status: 422 })
  for (const kind of ['run', 'approve'] as const)
    expect((await erase({ email: ANN }, server.keys[kind])).status).toBe(403)
})

test('an export is one JSON text a line, of the own organization, and its last line says that it is whole', async () => {
  const run = await server.startRun({ notes: ['a'] })
  const response = await server.request('/api/v1/export', { as: server.keys.admin })
  expect(response.headers.get('content-type')).toBe('application/x-ndjson')
  const lines = (await response.text())
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line))
  expect(lines[0]).toMatchObject({ export: 'organization', organizationId: server.organizationId })
  expect(lines.at(-1)).toMatchObject({ complete: true, rows: { 'agent.runs': 1, 'agent.api_keys': 3 } })
  expect(lines.filter(({ table }) => table === 'agent.runs')).toMatchObject([{ row: { id: run.id } }])
  for (const secret of Object.values(server.keys)) expect(JSON.stringify(lines)).not.toContain(secret)
  for (const kind of ['run', 'approve'] as const)
    expect((await server.request('/api/v1/export', { as: server.keys[kind] })).status).toBe(403)
})

test('an export that the server’s stop cuts off does not end like a whole one', async () => {
  for (let n = 0; n < 50; n += 1) await server.startRun({ notes: ['x'.repeat(2_000)] })
  const response = await server.request('/api/v1/export', { as: server.keys.admin })
  const reader = (response.body ?? new ReadableStream<Uint8Array>()).getReader()
  await reader.read()
  server.closing.abort()
  const rest = async (): Promise<void> => {
    while (!(await reader.read()).done);
  }
  await expect(rest()).rejects.toThrow(/./)
})

test('an export that a fault cuts off does not end like a whole one', async () => {
  await db.database.execute('ALTER TABLE agent.erasures RENAME TO erasures_elsewhere')
  try {
    const response = await server.request('/api/v1/export', { as: server.keys.admin })
    await expect(response.text()).rejects.toThrow(/./)
  } finally {
    await db.database.execute('ALTER TABLE agent.erasures_elsewhere RENAME TO erasures')
  }
})
