import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type Server } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { databaseFolder } from '../../src/server/open-database.ts'
import { serverLogger } from '../../src/server/logger.ts'
import { startPlatform, type Platform } from '../../src/server/platform.ts'
import { readSettings } from '../../src/server/settings.ts'
import { pgliteDatabase } from '../../src/storage/pglite/index.ts'
import { notesConfig } from '../server-app.ts'
import { testDatabase, type TestDatabase } from '../setup/database.ts'
import { SIGNING_KEY } from './app.ts'
import { InngestExecutor } from './executor.ts'

let dataDir: string
let db: TestDatabase | null
let network: Server
let server: InngestExecutor
let platform: Platform
const over = new AbortController()
let pumped: Promise<void>

// The platform as it is started, and the executor behind an address of its own: both ends over HTTP.
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'bailiff-inngest-'))
  db = inject('dialect') === 'postgres' ? await testDatabase() : null
  if (db === null) {
    const image = new Blob([await readFile(inject('pgliteImage'))])
    await (await pgliteDatabase({ dataDir: databaseFolder(dataDir), image, maintenanceMs: 0 })).close()
  }
  server = new InngestExecutor({ url: 'http://127.0.0.1/', signingKey: SIGNING_KEY, start: new Date() })
  const listener = getRequestListener((request) => server.fetch(request))
  network = createServer((incoming, outgoing) => void listener(incoming, outgoing))
  await new Promise<void>((resolve) => void network.listen(0, '127.0.0.1', resolve))
  const address = network.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  pumped = pump()
  platform = await startPlatform({
    settings: readSettings({
      BAILIFF_PORT: '0',
      BAILIFF_DATA_DIR: dataDir,
      BAILIFF_ENGINE: 'inngest',
      INNGEST_EVENT_KEY: 'event-key',
      INNGEST_SIGNING_KEY: SIGNING_KEY,
      INNGEST_BASE_URL: `http://127.0.0.1:${port}`,
      ...(db?.url === null || db === null ? {} : { DATABASE_URL: db.url }),
    }),
    config: notesConfig(),
    announce: () => undefined,
    logger: serverLogger('silent'),
    graceMs: 2_000,
  })
})
afterAll(async () => {
  await platform?.stop()
  over.abort()
  await pumped
  await new Promise((resolve) => void network.close(resolve))
  await db?.close()
  await rm(dataDir, { recursive: true, force: true })
})

/** A server works by itself. Its clock stands still: what is here waits for nothing but answers. */
async function pump(): Promise<void> {
  while (!over.signal.aborted) {
    await server.pump(0)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

test('the server registers its functions at its own address, and its first run parks through /api/inngest', async () => {
  expect([...server.functions.keys()]).toContain('bailiff-advance-run')
  expect(server.address).toBe(`${platform.url}/api/inngest`)
  const { items } = await platform.runtime.runs.list(platform.organization.id, { limit: 10, cursor: null })
  expect(items).toMatchObject([{ definition: 'notes', status: 'parked' }])
})

test('an answer over HTTP lets the run go on', async () => {
  const headers = { authorization: `Bearer ${platform.apiKey}`, 'content-type': 'application/json' }
  const list = await fetch(`${platform.url}/api/v1/approvals?state=pending`, { headers })
  const { items } = (await list.json()) as { items: { id: string; argumentsHash: string; runId: string }[] }
  expect(items).toHaveLength(2)
  for (const { id, argumentsHash } of items) {
    const body = JSON.stringify({ argumentsHash })
    const answer = await fetch(`${platform.url}/api/v1/approvals/${id}/approve`, { method: 'POST', headers, body })
    expect(answer.status).toBe(200)
  }
  const runId = items[0]?.runId ?? ''
  for (;;) {
    const run = await platform.runtime.runs.get(platform.organization.id, runId)
    if (run?.status === 'completed') break
    await new Promise((resolve) => setImmediate(resolve))
  }
})

test('nobody else is served there: unsigned requests are refused, large ones cut off, other methods unknown', async () => {
  const address = `${platform.url}/api/inngest`
  const body = JSON.stringify({ event: { name: 'x', data: {} }, events: [], steps: {}, ctx: {} })
  const unsigned = await fetch(`${address}?fnId=bailiff-advance-run&stepId=step`, { method: 'POST', body })
  expect(unsigned.status).toBe(401)
  expect((await fetch(address)).status).toBe(401)
  expect((await fetch(address, { method: 'PUT' })).status).toBe(401)
  expect((await fetch(address, { method: 'POST', body: 'x'.repeat(2_000_000) })).status).toBe(413)
  expect((await fetch(address, { method: 'DELETE' })).status).toBe(404)
})
