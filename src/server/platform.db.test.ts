import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { MODEL, notesConfig } from '../../test/server-app.ts'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { pgliteDatabase } from '../storage/pglite/index.ts'
import { serverLogger } from './logger.ts'
import { databaseFolder } from './open-database.ts'
import { type Platform, startPlatform } from './platform.ts'
import { readServerFile, serverFilePath } from './server-file.ts'
import { readSettings } from './settings.ts'

let dataDir: string
let db: TestDatabase | null
let said: string[]
let slug: string
const running: Platform[] = []

// One database for the file: opening the embedded one is most of the time. A start is the first of its organization.
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'bailiff-platform-'))
  db = inject('dialect') === 'postgres' ? await testDatabase() : null
  if (db === null) await prepareEmbedded(dataDir)
})
afterAll(async () => {
  await db?.close()
  await rm(dataDir, { recursive: true })
})
beforeEach(() => {
  said = []
  slug = `acme-${randomBytes(4).toString('hex')}`
})
afterEach(async () => {
  for (const platform of running.splice(0)) await platform.stop()
})

/** A folder that was started before opens in a third of the time that making one takes. */
async function prepareEmbedded(folder: string): Promise<void> {
  const image = new Blob([await readFile(inject('pgliteImage'))])
  await (await pgliteDatabase({ dataDir: databaseFolder(folder), image, maintenanceMs: 0 })).close()
}

async function start(
  options: {
    readonly port?: number
    readonly closed?: string[]
    readonly parts?: object
    readonly environment?: Readonly<Record<string, string>>
  } = {},
): Promise<Platform> {
  const settings = readSettings({
    BAILIFF_PORT: String(options.port ?? 0),
    BAILIFF_DATA_DIR: dataDir,
    ...(db?.url === null || db === null ? {} : { DATABASE_URL: db.url }),
    ...options.environment,
  })
  const platform = await startPlatform({
    settings,
    config: notesConfig({ ...options, parts: { organization: { slug, name: slug }, ...options.parts } }),
    announce: (line) => said.push(line),
    logger: serverLogger('silent'),
    graceMs: 2_000,
  })
  running.push(platform)
  return platform
}

function get(platform: Platform, path: string, key: string): Promise<Response> {
  return fetch(`${platform.url}${path}`, { headers: { authorization: `Bearer ${key}` } })
}

test('a first start hands out a link and a key, starts the first run, and says what waits', async () => {
  const platform = await start()
  expect(said).toContain(`console: ${platform.consoleUrl}`)
  expect(said).toContain(`api key: ${platform.apiKey}`)
  expect(said.join('\n')).toMatch(/2 approvals wait for you/)
  const runs = (await (await get(platform, '/api/v1/runs', platform.apiKey ?? '')).json()) as { items: object[] }
  expect(runs.items).toMatchObject([{ definition: 'notes', status: 'parked', source: 'demo', model: MODEL }])
})

test('a second start on the same data keeps everything and starts nothing again', async () => {
  const first = await start()
  await first.stop()
  said = []
  const second = await start()
  expect(second.apiKey).toBeNull()
  expect(said.join('\n')).not.toContain('api key:')
  expect(said).toContain(`console: ${second.consoleUrl}`)
  const runs = (await (await get(second, '/api/v1/runs', first.apiKey ?? '')).json()) as { items: object[] }
  expect(runs.items).toHaveLength(1)
  expect(said.join('\n')).toMatch(/2 approvals wait for you/)
})

test('the command line’s file is for its owner, holds a key that works, and goes with the server', async () => {
  const platform = await start()
  const file = await readServerFile(dataDir)
  if (file === null) throw new Error('there is no server file')
  expect(file).toMatchObject({ url: platform.url, pid: process.pid })
  expect((await stat(serverFilePath(dataDir))).mode & 0o777).toBe(0o600)
  expect((await get(platform, '/api/v1/runs', file.apiKey)).status).toBe(200)
  await platform.stop()
  expect(await readServerFile(dataDir)).toBeNull()
  const again = await start()
  expect((await get(again, '/api/v1/runs', file.apiKey)).status).toBe(401)
})

test('a stop ends what was started, and calling it twice does no harm', async () => {
  const closed: string[] = []
  const platform = await start({ closed })
  await Promise.all([platform.stop(), platform.stop()])
  expect(closed).toStrictEqual(['config'])
  await expect(fetch(`${platform.url}/healthz`)).rejects.toThrow('fetch failed')
  await expect(platform.core.stores.organizations.bySlug(slug)).rejects.toThrow('closed')
})

test('from the moment a stop begins it says that it is not ready, and requests are answered until it has drained', async () => {
  const platform = await start({ environment: { BAILIFF_DRAIN_S: '1' } })
  const ready = () => fetch(`${platform.url}/readyz`)
  expect(await (await ready()).json()).toStrictEqual({ status: 'ok', reasons: [] })
  const stopped = platform.stop()
  const leaving = await ready()
  expect(leaving.status).toBe(503)
  expect(await leaving.json()).toMatchObject({ reasons: [{ check: 'stop', message: 'the server is stopping' }] })
  expect((await fetch(`${platform.url}/healthz`)).status).toBe(200)
  expect(platform.runtime.health().state).toBe('stopping')
  await stopped
  await expect(ready()).rejects.toThrow('fetch failed')
})

test('figures are served to administrators, of what this very server did', async () => {
  const platform = await start()
  expect((await fetch(`${platform.url}/metrics`)).status).toBe(401)
  const text = await (await get(platform, '/metrics', platform.apiKey ?? '')).text()
  expect(text).toContain('bailiff_questions_filed_total{tool="notes.write",question="action"} 2')
  expect(text).toMatch(/^bailiff_sweep_age_seconds \d/m)
  if (inject('dialect') === 'postgres') expect(text).toMatch(/^bailiff_database_pool_connections\{state="idle"\} \d/m)
})

test('a port that is taken is named, and nothing is left behind', async () => {
  const other = createServer()
  await new Promise<void>((resolve) => void other.listen(0, '127.0.0.1', resolve))
  const address = other.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const closed: string[] = []
  await expect(start({ port, closed })).rejects.toMatchObject({
    name: 'ListenError',
    fault: 'port_in_use',
    message: expect.stringMatching(new RegExp(`port ${port} .*BAILIFF_PORT`)),
  })
  expect(closed).toStrictEqual([])
  await new Promise((resolve) => void other.close(resolve))
  await start({ port })
})

test.for([
  {
    what: 'a rule about no tool',
    parts: { rules: [{ name: 'r', tools: ['notes.wriet'], when: null, effect: 'deny', mode: 'enforce' }] },
    says: 'notes.wriet',
  },
  {
    what: 'a definition with no such tool',
    parts: { definitions: [{ slug: 'd', instructions: '', tools: ['nothing.here'], model: null, ceilings: {} }] },
    says: 'nothing.here',
  },
  { what: 'no model', parts: { defaultModel: undefined }, says: 'BAILIFF_MODEL' },
  { what: 'an unknown model', parts: { defaultModel: 'nobody/x' }, says: 'unknown model' },
])('a config with $what does not start, and says why', async ({ parts, says }) => {
  const closed: string[] = []
  await expect(start({ parts, closed })).rejects.toThrow(says)
  expect(closed).toStrictEqual(['config'])
  expect((await readdir(dataDir)).filter((file) => /^server\.json|\.lock/.test(file))).toStrictEqual([])
  expect(said).toStrictEqual([])
})
