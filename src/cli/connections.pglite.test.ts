import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { z } from 'zod'
import { type AuthorizationServer, startAuthorizationServer } from '../../test/setup/authorization-server.ts'
import { notesConfig } from '../../test/server-app.ts'
import type { ConnectionProvider } from '../connections/provider.ts'
import { serverLogger } from '../server/logger.ts'
import { databaseFolder } from '../server/open-database.ts'
import { type Platform, startPlatform } from '../server/platform.ts'
import { readSettings } from '../server/settings.ts'
import { pgliteDatabase } from '../storage/pglite/index.ts'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))
const [OLD, NEW] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')]
const SECRET = 'hunter2-of-the-command-line'
const MAIL: ConnectionProvider = {
  name: 'mail',
  title: 'Mail server',
  auth: { kind: 'secret', fields: [{ name: 'pass', title: 'Password' }] },
  settings: z.strictObject({ host: z.string() }),
}

let folder: string
let platform: Platform
let provider: AuthorizationServer

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-cli-'))
  const image = new Blob([await readFile(inject('pgliteImage'))])
  await (await pgliteDatabase({ dataDir: databaseFolder(folder), image, maintenanceMs: 0 })).close()
  provider = await startAuthorizationServer()
  platform = await startPlatform({
    settings: readSettings({ BAILIFF_PORT: '0', BAILIFF_DATA_DIR: folder, BAILIFF_VAULT_KEY: `old:${OLD}` }),
    config: notesConfig({ parts: { providers: [MAIL, provider.provider], firstRun: undefined } }),
    announce: () => undefined,
    logger: serverLogger('silent'),
  })
})
afterAll(async () => {
  await platform.stop()
  await provider.close()
  await rm(folder, { recursive: true })
})

interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

interface Running {
  readonly input?: string
  readonly vaultKey?: string
}

function bailiff(args: readonly string[], { input = '', vaultKey = `old:${OLD}` }: Running = {}): Promise<Ran> {
  const env = { PATH: process.env['PATH'], BAILIFF_DATA_DIR: folder, BAILIFF_VAULT_KEY: vaultKey }
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['--conditions=bailiff:source', main, ...args],
      { env },
      (error, out, err) => resolve({ code: typeof error?.code === 'number' ? error.code : 0, out, err }),
    )
    child.stdin?.end(input)
  })
}

test.each([
  [['connect', 'fax'], 5, 'it offers mail, mailbox'],
  [['connect', 'mail', '--setting', 'host'], 2, 'name=value'],
  [['connect', 'mail', SECRET], 2, 'too many arguments'],
  [['connections', 'revoke', '01890000-0000-7000-8000-000000000000'], 5, 'no such connection'],
])('%s is refused with its remedy', async (args, code, says) => {
  const ran = await bailiff(args, { input: SECRET })
  expect(ran).toMatchObject({ code, out: '', err: expect.stringContaining(says) })
})

test('for a provider that people sign in at, the address is shown', async () => {
  const { out, code } = await bailiff(['connect', 'mailbox', '--json'])
  expect(code).toBe(0)
  const { authorizationUrl } = JSON.parse(out) as { authorizationUrl: string }
  const url = new URL(authorizationUrl)
  expect(url.origin).toBe(provider.issuer)
  expect(url.searchParams.get('redirect_uri')).toBe(`${platform.url}/api/v1/connections/oauth/callback`)
})

test('an account is connected with a piped secret, listed, connected again, uninstalled, and its keys are rotated', async () => {
  const connect = ['connect', 'mail', '--label', 'sales', '--setting', 'host=mail.acme.test']
  const made = await bailiff([...connect, '--json'], { input: `${SECRET}\n` })
  expect(made).toMatchObject({ code: 0, err: '' })
  const { id } = JSON.parse(made.out) as { id: string }
  const again = await bailiff(connect, { input: SECRET })
  expect(again).toMatchObject({ code: 4, out: '' })
  await bailiff(['connect', 'mail', '--label', 'support', '--setting', 'host=mail.acme.test'], { input: SECRET })
  const listed = await bailiff(['connections', 'list'])
  expect(listed.out).toMatch(/mail +sales +connected/)
  const renewed = await bailiff(['connections', 'reconnect', id], { input: `${SECRET}2` })
  expect(renewed).toMatchObject({ code: 0, out: expect.stringContaining('connected again') })
  const revoked = await bailiff(['connections', 'revoke', id])
  expect(revoked).toMatchObject({ code: 0, out: expect.stringContaining('its secrets are deleted') })
  expect((await bailiff(['connections', 'list', '--state', 'revoked'])).out).toContain('REVOKED')
  const said = [made, again, listed, renewed, revoked].map(({ out, err }) => `${out}${err}`).join('\n')
  expect(said).not.toContain(SECRET)

  await platform.stop()
  const both = { vaultKey: `new:${NEW},old:${OLD}` }
  expect((await bailiff(['vault', 'status'], both)).out).toMatch(/old +1 +old[^]*1 secret still need/)
  const rotated = await bailiff(['vault', 'rotate', '--json'], both)
  expect(JSON.parse(rotated.out)).toEqual({ resealed: 1, unreadable: 0, remaining: 0 })
  expect((await bailiff(['vault', 'status'], { vaultKey: `new:${NEW}` })).out).toContain('older keys may go')
  expect(await bailiff(['vault', 'rotate'], { vaultKey: '' })).toMatchObject({ code: 2 })
})
