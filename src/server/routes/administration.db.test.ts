import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
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

function admin(path: string, method = 'GET', body?: object) {
  return server.json<{ items: Record<string, unknown>[] } & Record<string, unknown>>(`/api/v1${path}`, {
    as: server.keys.admin,
    method,
    ...(body === undefined ? {} : { body }),
  })
}

test('only an admin key administers', async () => {
  const changes = [
    ['POST', '/tools/notes.write/disable'],
    ['POST', '/definitions'],
    ['GET', '/rules'],
    ['POST', '/rules'],
    ['POST', '/rules/test'],
    ['DELETE', '/rules/x'],
    ['GET', '/grants'],
    ['POST', '/grants'],
    ['DELETE', '/grants?definition=notes&tool=notes.write'],
    ['GET', '/keys'],
    ['POST', '/keys'],
    ['DELETE', '/keys/01890000-0000-7000-8000-000000000000'],
    ['GET', '/usage'],
  ] as const
  for (const as of [server.keys.run, server.keys.approve]) {
    for (const [method, path] of changes) {
      expect(await server.json(`/api/v1${path}`, { as, method })).toMatchObject({
        status: 403,
        body: { code: 'forbidden' },
      })
    }
    expect((await server.request('/api/v1/tools', { as })).status).toBe(200)
    expect((await server.request('/api/v1/definitions', { as })).status).toBe(200)
  }
})

describe('keys', () => {
  test('are made by kind, shown once, listed without their secrets, and refused once revoked', async () => {
    const made = await server.json<{ id: string; secret: string }>('/api/v1/keys', {
      as: server.keys.admin,
      method: 'POST',
      body: { kind: 'approve', name: 'Ben' },
    })
    expect(made).toMatchObject({ status: 201, body: { kind: 'approve', name: 'Ben', revokedAt: null } })
    const { id, secret } = made.body
    expect((await server.request('/api/v1/approvals', { as: secret })).status).toBe(200)
    const listed = await server.request('/api/v1/keys', { as: server.keys.admin })
    const text = await listed.text()
    expect(text).toContain(id)
    expect(text).not.toContain(secret)
    const foreign = await server.request(`/api/v1/keys/${id}`, { as: server.stranger, method: 'DELETE' })
    expect(foreign.status).toBe(404)
    expect((await server.request(`/api/v1/keys/${id}`, { as: server.keys.admin, method: 'DELETE' })).status).toBe(200)
    expect((await server.request('/api/v1/approvals', { as: secret })).status).toBe(401)
  })
})

describe('tools', () => {
  test('are listed with their contract, and switched for one organization', async () => {
    expect(
      (await admin('/tools')).body.items.map(({ name, enabled, modelName, sideEffects }) => ({
        name,
        enabled,
        modelName,
        sideEffects,
      })),
    ).toStrictEqual([
      { name: 'notes.list', enabled: true, modelName: 'notes_list', sideEffects: 'read' },
      { name: 'notes.write', enabled: true, modelName: 'notes_write', sideEffects: 'write' },
    ])
    expect(await admin('/tools/notes.write/disable', 'POST')).toStrictEqual({
      status: 200,
      body: { tool: 'notes.write', enabled: false },
    })
    expect((await admin('/tools')).body.items[1]).toMatchObject({ enabled: false })
    const other = await server.json<{ items: object[] }>('/api/v1/tools', { as: server.stranger })
    expect(other.body.items[1]).toMatchObject({ enabled: true })
    await admin('/tools/notes.write/enable', 'POST')
    expect((await admin('/tools')).body.items[1]).toMatchObject({ enabled: true })
  })

  test.for(['notes.wriet', 'constructor', '__proto__', '..%2f..'])('an unknown one is not found: %s', async (name) => {
    expect((await admin(`/tools/${name}/enable`, 'POST')).status).toBe(404)
  })
})

describe('definitions', () => {
  test('are published once for each change, with defaults filled in', async () => {
    const body = { slug: 'reader', instructions: 'Read.', tools: ['notes.list'] }
    expect(await admin('/definitions', 'POST', body)).toStrictEqual({
      status: 201,
      body: { slug: 'reader', version: 1 },
    })
    expect((await admin('/definitions', 'POST', body)).body).toMatchObject({ version: 1 })
    expect((await admin('/definitions', 'POST', { ...body, ceilings: { maxTurns: 3 } })).body).toMatchObject({
      version: 2,
    })
    expect((await admin('/definitions')).body.items).toMatchObject([
      { slug: 'notes', version: 1 },
      { slug: 'reader', version: 2, model: null, ceilings: { maxTurns: 3, maxToolCalls: 100 } },
    ])
  })

  test('name no tool that does not exist', async () => {
    expect(
      await admin('/definitions', 'POST', { slug: 'bad', instructions: 'x', tools: ['notes.delete'] }),
    ).toMatchObject({ status: 422, body: { detail: expect.stringContaining('notes.delete') } })
  })
})

describe('rules', () => {
  const rule = { name: 'no secrets / ever', tools: ['notes.*'], when: 'arguments.text == "secret"', effect: 'deny' }

  test('are saved, replaced by name and removed', async () => {
    expect(await admin('/rules', 'POST', rule)).toMatchObject({
      status: 201,
      body: { ...rule, mode: 'enforce', approvers: [], ttlS: null },
    })
    await admin('/rules', 'POST', { ...rule, mode: 'shadow' })
    expect((await admin('/rules')).body.items).toMatchObject([
      { name: 'no secrets / ever', mode: 'shadow' },
      { name: 'notes need a person' },
    ])
    expect((await admin(`/rules/${encodeURIComponent(rule.name)}`, 'DELETE')).status).toBe(200)
    expect((await admin(`/rules/${encodeURIComponent(rule.name)}`, 'DELETE')).status).toBe(404)
    expect((await server.json<{ items: object[] }>('/api/v1/rules', { as: server.stranger })).body.items).toStrictEqual(
      [],
    )
  })

  test('are replayed over past calls before they are saved', async () => {
    await server.startRun({ notes: ['secret', 'plain'] })
    await server.engine.settle()
    const { status, body } = await admin('/rules/test', 'POST', { rule: { ...rule, tools: ['notes.write'] } })
    expect(status).toBe(200)
    expect(body).toMatchObject({
      calls: [
        { decided: { outcome: 'require_approval' }, now: { outcome: 'require_approval' } },
        { decided: { outcome: 'require_approval' }, now: { outcome: 'deny', rule: rule.name } },
      ],
      summary: { calls: 2, unchanged: 1, unknown: 0, changed: [{ from: 'require_approval', to: 'deny', calls: 1 }] },
    })
    expect((await admin('/rules')).body.items).toHaveLength(1)
    expect((await admin('/rules/test', 'POST', { rule: { ...rule, when: 'nonsense ==' } })).status).toBe(422)
  })

  test('that are wrong say where, and change nothing', async () => {
    const { status, body } = await admin('/rules', 'POST', {
      ...rule,
      tools: ['notes.write'],
      when: 'arguments.text ==',
    })
    expect(status).toBe(422)
    expect(body).toMatchObject({
      problems: [{ field: 'when', message: expect.any(String), position: expect.any(Object) }],
    })
    expect((await admin('/rules')).body.items).toHaveLength(1)
  })

  test('of one name saved in the same instant leave one', async () => {
    const outcomes = await Promise.all([1, 2, 3].map(() => admin('/rules', 'POST', rule)))
    expect(outcomes.every(({ status }) => status === 201 || status === 409)).toBe(true)
    expect((await admin('/rules')).body.items).toHaveLength(2)
  })
})

describe('grants', () => {
  test('are withdrawn for the very next call and given again', async () => {
    expect((await admin('/grants?definition=notes')).body.items).toMatchObject([
      { tool: 'notes.list', revokedAt: null },
      { tool: 'notes.write', revokedAt: null },
    ])
    const path = '/grants?definition=notes&tool=notes.write'
    expect(await admin(path, 'DELETE')).toStrictEqual({ status: 200, body: { revoked: true, inFlight: 0 } })
    expect((await admin(path, 'DELETE')).status).toBe(404)
    expect((await admin('/grants?definition=notes')).body.items[1]).toMatchObject({ revokedAt: expect.any(String) })
    expect(await admin('/grants', 'POST', { definition: 'notes', tool: 'notes.write' })).toMatchObject({
      status: 201,
      body: { revokedAt: null },
    })
  })

  test('name a tool and a definition that exist', async () => {
    expect((await admin('/grants', 'POST', { definition: 'notes', tool: 'notes.delete' })).status).toBe(404)
    expect((await admin('/grants', 'POST', { definition: 'nots', tool: 'notes.write' })).status).toBe(404)
  })
})

test('usage is counted by day and item, for the organization or one run', async () => {
  const run = await server.startRun({ notes: [] })
  await server.startRun({ notes: [] })
  await server.engine.settle()
  expect((await admin('/usage')).body).toMatchObject({
    totalCostCents: 0,
    items: [{ kind: 'model', provider: 'scripted', item: 'notes', count: 2 }],
  })
  expect((await admin(`/usage?runId=${run.id}`)).body.items[0]).toMatchObject({ count: 1 })
  expect((await server.json<{ items: object[] }>('/api/v1/usage', { as: server.stranger })).body.items).toStrictEqual(
    [],
  )
})
