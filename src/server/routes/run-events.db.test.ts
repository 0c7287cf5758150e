import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { type ServerApp, serverApp } from '../../../test/server-app.ts'
import { empty, type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { serverEvents } from '../../cli/sse.ts'
import { openDoor } from '../door.ts'
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

interface Told {
  readonly event: string
  readonly data: {
    readonly run?: RunJson
    readonly spans?: SpanJson[]
    readonly delta?: string
    readonly status?: string
    readonly name?: string
  }
}

async function open(runId: string): Promise<AsyncGenerator<Told>> {
  const response = await server.request(`/api/v1/runs/${runId}/events`, { as: server.keys.run })
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  if (response.body === null) throw new Error('no stream')
  const events = serverEvents(response.body)
  return (async function* () {
    for await (const { event, data } of events) yield { event, data: JSON.parse(data) as Told['data'] }
  })()
}

/** Reads until one event fits. */
async function until(events: AsyncGenerator<Told>, fits: (told: Told) => boolean): Promise<Told[]> {
  const seen: Told[] = []
  for (;;) {
    const { value, done } = await events.next()
    if (done === true) throw new Error(`the stream ended after ${seen.map(({ event }) => event).join(', ')}`)
    seen.push(value)
    if (fits(value)) return seen
  }
}

test('a run that has ended is told as its tree and its end', async () => {
  const run = await server.startRun({ notes: [] })
  await server.engine.settle()
  const seen: Told[] = []
  for await (const told of await open(run.id)) seen.push(told)
  expect(seen.map(({ event }) => event)).toStrictEqual(['tree', 'end'])
  expect(seen[0]?.data.spans?.map(({ kind }) => kind)).toStrictEqual(['run', 'llm'])
  expect(seen[1]?.data.run).toMatchObject({ id: run.id, status: 'completed', output: 'Done.' })
})

test('a run is told as it happens: words, spans, the wait for a person, and the end', async () => {
  const run = await server.startRun({ notes: ['first'] })
  const events = await open(run.id)
  const [first] = await until(events, ({ event }) => event === 'tree')
  expect(first?.data.run).toMatchObject({ status: 'queued' })
  await server.engine.settle()
  const working = await until(events, ({ event, data }) => event === 'run' && data.status === 'parked')
  expect(
    working
      .filter(({ event }) => event === 'text')
      .map(({ data }) => data.delta)
      .join(''),
  ).toBe('Writing.')
  expect(working.filter(({ event }) => event === 'span').map(({ data }) => data.name)).toContain('notes.write')
  const [approval] = (await server.core.approvals.list(server.organizationId)).items
  await server.request(`/api/v1/approvals/${approval?.id}/approve`, {
    as: server.keys.approve,
    method: 'POST',
    body: { argumentsHash: approval?.argumentsHash },
  })
  await server.engine.settle()
  const rest = await until(events, ({ event }) => event === 'end')
  expect(rest.at(-1)?.data.run).toMatchObject({ status: 'completed' })
  expect((await events.next()).done).toBe(true)
  expect(server.written).toStrictEqual(['first'])
})

test('what another process changed is found without being told', async () => {
  const run = await server.startRun({ notes: [] })
  const events = await open(run.id)
  await until(events, ({ event }) => event === 'tree')
  await server.core.stores.runs.fail(run.id, {
    status: 'failed',
    reason: 'internal_error',
    message: null,
    output: null,
  })
  const rest = await until(events, ({ event }) => event === 'end')
  expect(rest.at(-1)?.data.run).toMatchObject({ status: 'failed', reason: 'internal_error' })
})

test('a server that stops ends its streams', async () => {
  const run = await server.startRun({ notes: ['first'] })
  const events = await open(run.id)
  await until(events, ({ event }) => event === 'tree')
  server.closing.abort()
  expect((await events.next()).done).toBe(true)
})

test('a viewer who leaves is forgotten', async () => {
  let viewers = 0
  const { live } = server.core
  const subscribe = live.subscribe.bind(live)
  Object.assign(live, {
    subscribe: (...watched: Parameters<typeof subscribe>) => {
      viewers += 1
      const unsubscribe = subscribe(...watched)
      return () => {
        viewers -= 1
        unsubscribe()
      }
    },
  })
  const door = await openDoor({ host: '127.0.0.1', port: 0, graceMs: 1_000 })
  try {
    door.admit(server.app)
    const run = await server.startRun({ notes: ['first'] })
    const leaving = new AbortController()
    const headers = { authorization: `Bearer ${server.keys.run}` }
    const response = await fetch(`${door.url}/api/v1/runs/${run.id}/events`, { headers, signal: leaving.signal })
    await response.body?.getReader().read()
    expect(viewers).toBe(1)
    leaving.abort()
    await expect.poll(() => viewers, { timeout: 5_000 }).toBe(0)
  } finally {
    await door.close()
  }
})
