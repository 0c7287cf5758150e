import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type ServerApp, serverApp } from '../../../test/server-app.ts'
import { empty, type TestDatabase, testDatabase } from '../../../test/setup/database.ts'

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

const NOBODY = '01890000-0000-7000-8000-000000000000'

function admin(path: string, method = 'GET', body?: object) {
  return server.json<{ items: Record<string, unknown>[] } & Record<string, unknown>>(`/api/v1${path}`, {
    as: server.keys.admin,
    method,
    ...(body === undefined ? {} : { body }),
  })
}

const hold = (): Promise<void> => db.database.execute("UPDATE agent.runs SET held_at = now(), held_reason = 'restored'")

test('only an admin key looks at lanes and changes them, and releases runs', async () => {
  const requests = [
    ['GET', '/lanes'],
    ['POST', '/lanes/batch/pause'],
    ['POST', '/lanes/batch/resume'],
    ['PUT', '/lanes/batch/limit'],
    ['POST', `/runs/${NOBODY}/release`],
    ['POST', '/runs/release'],
  ] as const
  for (const as of [server.keys.run, server.keys.approve]) {
    for (const [method, path] of requests)
      expect(await server.json(`/api/v1${path}`, { as, method })).toMatchObject({ status: 403 })
  }
})

test('lanes show who works and who waits, and take a limit of the organization’s own', async () => {
  await server.startRun({ notes: ['one'] })
  expect(await admin('/lanes')).toEqual({
    status: 200,
    body: {
      items: [
        { lane: 'interactive', active: 0, queued: 1, parked: 0, limit: 8, limitIsOwn: false, paused: null },
        { lane: 'batch', active: 0, queued: 0, parked: 0, limit: 4, limitIsOwn: false, paused: null },
      ],
      nextCursor: null,
    },
  })
  await server.engine.settle()
  const limited = await admin('/lanes/interactive/limit', 'PUT', { limit: 1 })
  expect(limited).toMatchObject({ status: 200, body: { limit: 1, limitIsOwn: true, queued: 0, parked: 1 } })
  expect(await admin('/lanes/interactive/limit', 'PUT', { limit: null })).toMatchObject({ body: { limit: 8 } })
  for (const limit of [0, -1, 1.5, '3', 10_001])
    expect((await admin('/lanes/interactive/limit', 'PUT', { limit })).status).toBe(422)
  expect((await admin('/lanes/express/limit', 'PUT', { limit: 1 })).status).toBe(404)
})

test('a paused lane says since when and by whom, begins nothing, and goes on when it is resumed', async () => {
  const paused = await admin('/lanes/interactive/pause', 'POST')
  expect(paused).toMatchObject({ status: 200, body: { paused: { by: { kind: 'api_key', name: 'admin key' } } } })
  const again = await admin('/lanes/interactive/pause', 'POST')
  expect(again.body['paused']).toEqual(paused.body['paused'])
  const run = await server.startRun({ notes: [] })
  await server.engine.settle()
  expect(await admin(`/runs/${run.id}`)).toMatchObject({ body: { status: 'queued', lane: 'interactive' } })
  expect(await admin('/lanes/interactive/resume', 'POST')).toMatchObject({ status: 200, body: { paused: null } })
  await server.engine.settle()
  expect(await admin(`/runs/${run.id}`)).toMatchObject({ body: { status: 'completed' } })
  expect(await admin('/lanes/interactive/resume', 'POST')).toMatchObject({ status: 200, body: { paused: null } })
})

test('another organization’s lanes are its own', async () => {
  await server.request('/api/v1/lanes/interactive/pause', { as: server.stranger, method: 'POST' })
  expect(await admin('/lanes')).toMatchObject({ body: { items: [{ paused: null }, { paused: null }] } })
})

test('a run is started in the batch lane, and never above the lane of its definition', async () => {
  const start = (body: object) =>
    server.json('/api/v1/runs', { as: server.keys.run, method: 'POST', body: { input: { notes: [] }, ...body } })
  expect(await start({ definition: 'notes', lane: 'batch' })).toMatchObject({ status: 201, body: { lane: 'batch' } })
  const slow = { slug: 'slow', instructions: 'Wait.', tools: [], lane: 'batch' }
  expect((await admin('/definitions', 'POST', slow)).status).toBe(201)
  const { items } = (await admin('/definitions')).body
  expect(items.map(({ slug, lane }) => [slug, lane])).toEqual([
    ['notes', 'interactive'],
    ['slow', 'batch'],
  ])
  expect(await start({ definition: 'slow' })).toMatchObject({ status: 201, body: { lane: 'batch' } })
  expect(await start({ definition: 'slow', lane: 'interactive' })).toMatchObject({ status: 422 })
  expect(await start({ definition: 'notes', lane: 'express' })).toMatchObject({ status: 422 })
})

test('held runs are released one by one or all, and a run that is not held says so', async () => {
  const runs = [await server.startRun({ notes: [] }), await server.startRun({ notes: [] })]
  const [first, second] = runs.map(({ id }) => id)
  await hold()
  await server.engine.settle()
  expect(await admin(`/runs/${first}`)).toMatchObject({
    body: { status: 'queued', heldAt: expect.any(String), heldReason: 'restored' },
  })
  expect(await admin(`/runs/${first}/release`, 'POST')).toEqual({ status: 200, body: { id: first } })
  expect(await admin(`/runs/${first}/release`, 'POST')).toMatchObject({ status: 409, body: { reason: 'not_held' } })
  expect((await server.request(`/api/v1/runs/${second}/release`, { as: server.stranger, method: 'POST' })).status).toBe(
    404,
  )
  expect(await admin(`/runs/${NOBODY}/release`, 'POST')).toMatchObject({ status: 404 })
  expect(await admin('/runs/release', 'POST')).toEqual({ status: 200, body: { released: 1 } })
  await server.engine.settle()
  for (const id of [first, second]) expect(await admin(`/runs/${id}`)).toMatchObject({ body: { status: 'completed' } })
})
