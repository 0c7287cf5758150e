import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { notesConfig } from '../../test/server-app.ts'
import { DEFAULT_CEILINGS } from '../runs/definition.ts'
import { databaseFolder } from '../server/open-database.ts'
import { type Platform, startPlatform } from '../server/platform.ts'
import { readSettings } from '../server/settings.ts'
import { pgliteDatabase } from '../storage/pglite/index.ts'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))

let folder: string
let platform: Platform

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-cli-'))
  const image = new Blob([await readFile(inject('pgliteImage'))])
  await (await pgliteDatabase({ dataDir: databaseFolder(folder), image, maintenanceMs: 0 })).close()
  const settings = readSettings({ BAILIFF_PORT: '0', BAILIFF_DATA_DIR: folder })
  platform = await startPlatform({
    settings,
    config: notesConfig({ parts: { organization: { slug: 'cli', name: 'CLI', settings: { selfApproval: true } } } }),
    announce: () => undefined,
  })
})
afterAll(async () => {
  await platform.stop()
  await rm(folder, { recursive: true })
})

interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

function environment(more: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv {
  return { PATH: process.env['PATH'], BAILIFF_DATA_DIR: folder, ...more }
}

function bailiff(args: readonly string[], more: Readonly<Record<string, string>> = {}): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--conditions=bailiff:source', main, ...args],
      { env: environment(more) },
      (error, out, err) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, out, err })
      },
    )
  })
}

async function json<T>(args: readonly string[]): Promise<T> {
  const { out, err, code } = await bailiff([...args, '--json'])
  if (code !== 0) throw new Error(err)
  return JSON.parse(out) as T
}

describe('with a server', () => {
  test('a run is followed until it waits, answered, and read', async () => {
    await writeFile(join(folder, 'notes.json'), '{ "notes": ["alpha", "beta\\u202e"] }')
    const started = await bailiff(['run', 'notes', '--input', join(folder, 'notes.json')])
    expect(started).toMatchObject({ code: 0, out: expect.stringContaining('the run waits: 2 approvals pending') })
    expect(started.out).toContain('bailiff approvals approve <id>')
    expect(started.err).toContain(`${platform.url}/runs/`)
    expect(started.err).toContain('a script, no language model')
    const runId = /run ([0-9a-f-]{36})/.exec(started.err)?.[1] ?? ''

    const { items } = await json<{ items: { id: string; arguments: { text: string } }[] }>([
      'approvals',
      'list',
      '--run',
      runId,
    ])
    const [alpha, beta] = items
    const approved = await bailiff(['approvals', 'approve', alpha?.id ?? '', '--note', 'fine'])
    expect(approved).toMatchObject({ code: 0, out: expect.stringContaining('approved: notes.write') })
    expect(approved.err).toContain('"text": "alpha"')
    const rejected = await bailiff(['approvals', 'reject', beta?.id ?? ''])
    expect(rejected.err).toContain('beta\\u{202e}')
    expect(rejected.err).not.toContain('\u202e')

    const again = await bailiff(['approvals', 'approve', alpha?.id ?? ''])
    expect(again).toMatchObject({
      code: 4,
      err: expect.stringMatching(/error: it was approved by command line \w{6} at /),
    })

    const ended = await bailiff(['run', 'notes', '--input', join(folder, 'notes.json'), '--no-follow', '--json'])
    expect(JSON.parse(ended.out)).toMatchObject({ run: { source: 'cli', input: { notes: ['alpha', 'beta\u202e'] } } })
    const tree = await bailiff(['runs', 'tree', runId])
    expect(tree.out).toMatch(/held for a person: approved by command line \w{6} \(fine\)/)
  })

  test('a hash that was looked at before binds the answer', async () => {
    const { items } = await json<{ items: { id: string; argumentsHash: string }[] }>(['approvals', 'list'])
    const id = items[0]?.id ?? ''
    expect(await bailiff(['approvals', 'approve', id, '--hash', '0'.repeat(64)])).toMatchObject({
      code: 4,
      err: expect.stringContaining('not the one given'),
    })
    expect((await bailiff(['approvals', 'approve', id, '--hash', items[0]?.argumentsHash ?? ''])).code).toBe(0)
  })

  test('rows of a file become the named list', async () => {
    await writeFile(join(folder, 'rows.csv'), 'text\nalpha\n')
    const { run } = await json<{ run: { input: unknown } }>([
      'run',
      'notes',
      '--input',
      join(folder, 'rows.csv'),
      '--as',
      'notes',
      '--no-follow',
    ])
    expect(run.input).toStrictEqual({ notes: [{ text: 'alpha' }] })
  })

  test.for([
    { args: ['run', 'nots', '--input', '{folder}/notes.json'], code: 5, says: 'published are notes' },
    { args: ['run', 'notes', '--input', '{folder}/none.csv'], code: 2, says: 'none.csv' },
    { args: ['run', 'notes'], code: 2, says: '--input' },
    { args: ['runs', 'show', '01890000-0000-7000-8000-000000000000'], code: 5, says: 'no such run' },
    { args: ['approvals', 'show', 'nonsense'], code: 5, says: 'with that id' },
    { args: ['tools', 'disable', 'notes.wriet'], code: 5, says: 'no such tool' },
    { args: ['runs', 'list', '--limit', '1000'], code: 2, says: 'limit' },
    { args: ['aprovals', 'list'], code: 2, says: "unknown command 'aprovals'" },
    { args: ['approvals', 'list', '--url', 'http://127.0.0.1:1'], code: 2, says: 'BAILIFF_API_KEY' },
    { args: ['approvals', 'list', '--url', 'localhost'], code: 2, says: 'no web address' },
  ])('$args exits with $code and says why', async ({ args, code, says }) => {
    const ran = await bailiff(args.map((arg) => arg.replace('{folder}', folder)))
    expect(ran).toMatchObject({ code, out: '', err: expect.stringContaining(says) })
  })

  test('a key of less authority is told what it may not do', async () => {
    const { secret } = await platform.identities.createApiKey({
      organizationId: platform.organization.id,
      kind: 'run',
      name: 'CI',
    })
    expect(await bailiff(['approvals', 'list', '--json'], { BAILIFF_API_KEY: secret })).toMatchObject({
      code: 4,
      out: '',
    })
    expect((await bailiff(['runs', 'list', '--url', platform.url], { BAILIFF_API_KEY: secret })).code).toBe(0)
  })

  test('the doctor finds the server, and a second start on its data is refused by name', async () => {
    const doctor = await bailiff(['doctor', '--json'])
    expect(JSON.parse(doctor.out)).toMatchObject({
      ok: true,
      findings: expect.arrayContaining([{ check: 'server', state: 'ok', message: `running at ${platform.url}` }]),
    })
    await writeFile(join(folder, 'bailiff.config.mjs'), 'export default { setup: async () => ({ tools: [] }) }')
    const second = await bailiff(['start', '--config', join(folder, 'bailiff.config.mjs')], { BAILIFF_PORT: '0' })
    expect(second).toMatchObject({
      code: 1,
      err: expect.stringContaining(`a server runs on this data folder already: ${platform.url}`),
    })
  })
})

test('a signal reaches a run of a workflow, with what a file holds', async () => {
  const { runtime, organization } = platform
  const by = { kind: 'system', id: 'test', name: 'test' } as const
  const root = { kind: 'wait', id: 'go', signal: { name: 'go.on', timeoutS: 600 } } as const
  await runtime.runs.publish(organization.id, { kind: 'workflow', slug: 'flow', ceilings: DEFAULT_CEILINGS, root }, by)
  const request = {
    organizationId: organization.id,
    definition: 'flow',
    input: null,
    startedBy: by,
    source: 'api',
  } as const
  const { id } = await runtime.runs.start(request)
  const data = join(folder, 'data.json')
  await writeFile(data, '{"price":12}')
  expect(await bailiff(['runs', 'signal', id, 'go.on', '--data', data])).toEqual({
    code: 0,
    out: 'signal go.on is with the run\n',
    err: '',
  })
  await expect
    .poll(async () => (await json<{ output: unknown }>(['runs', 'show', id])).output, { timeout: 20_000 })
    .toEqual({ received: true, payload: { price: 12 } })
  expect(await bailiff(['runs', 'signal', id, 'go.on'])).toMatchObject({
    err: expect.stringContaining('the run has ended'),
  })
})

describe('without a server', () => {
  test('a command that needs one says how to get one', async () => {
    const ran = await bailiff(['runs', 'list'], { BAILIFF_DATA_DIR: join(folder, 'elsewhere') })
    expect(ran).toMatchObject({ code: 3, out: '', err: expect.stringContaining('bailiff start') })
  })

  test('a wrong setting or config stops a start before anything is opened', async () => {
    expect(await bailiff(['start', '--config', '/nowhere.mjs'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('there is no config file /nowhere.mjs'),
    })
    expect(await bailiff(['start'], { BAILIFF_PORT: 'x' })).toMatchObject({
      code: 2,
      err: expect.stringContaining('BAILIFF_PORT'),
    })
    expect((await bailiff(['doctor'], { BAILIFF_PORT: 'x' })).code).toBe(1)
  })

  test('help and version need nothing', async () => {
    expect(await bailiff(['--help'])).toMatchObject({ code: 0, out: expect.stringContaining('Exit codes:') })
    expect(await bailiff(['--version'])).toMatchObject({ code: 0, out: expect.stringMatching(/^\d+\.\d+\.\d+/) })
  })

  test('a start serves until it is interrupted, and leaves nothing behind', async () => {
    const own = join(folder, 'own')
    const config = join(folder, 'own.config.mjs')
    await writeFile(
      config,
      'export default { setup: async () => ({ tools: [], defaultModel: "scripted/none", models: { "scripted/none": {} } }) }',
    )
    const child = spawn(
      process.execPath,
      ['--conditions=bailiff:source', main, 'start', '--json', '--config', config],
      { env: environment({ BAILIFF_DATA_DIR: own, BAILIFF_PORT: '0' }) },
    )
    const [line] = (await child.stdout.take(1).toArray()) as [Buffer]
    const { url } = JSON.parse(String(line)) as { url: string }
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
    const exited = new Promise((resolve) => void child.once('exit', resolve))
    // As npm does: the terminal's Ctrl-C, and once more through npm.
    child.kill('SIGINT')
    child.kill('SIGINT')
    expect(await exited).toBe(0)
    await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed')
    await expect(readFile(join(own, 'server.json'))).rejects.toThrow('ENOENT')
  })
})
