import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { notesConfig } from '../../test/server-app.ts'
import { serverLogger } from '../server/logger.ts'
import { databaseFolder } from '../server/open-database.ts'
import { type Platform, startPlatform } from '../server/platform.ts'
import { readSettings } from '../server/settings.ts'
import { pgliteDatabase } from '../storage/pglite/index.ts'
import { deleteOrganization, holdAfterRestore } from './commands/database.ts'
import { listDeadLetters, retryRun } from './commands/dead-letters.ts'
import { doctor } from './commands/doctor.ts'
import { eraseSubject, exportOrganization } from './commands/personal-data.ts'
import type { Context } from './context.ts'
import { CommandFailed } from './exit-codes.ts'

let folder: string
let platform: Platform | null = null

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-upkeep-'))
  const image = new Blob([await readFile(inject('pgliteImage'))])
  await (await pgliteDatabase({ dataDir: databaseFolder(folder), image, maintenanceMs: 0 })).close()
})
afterEach(() => stop())
afterAll(() => rm(folder, { recursive: true }))

async function start(): Promise<Platform> {
  platform = await startPlatform({
    settings: readSettings({ BAILIFF_PORT: '0', BAILIFF_DATA_DIR: folder }),
    config: notesConfig({ parts: { organization: { slug: 'acme', name: 'Acme' } } }),
    announce: () => undefined,
    logger: serverLogger('silent'),
  })
  return platform
}

async function stop(): Promise<void> {
  await platform?.stop()
  platform = null
}

interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** A command as its process runs it, without the time a process takes to start. */
async function ran(work: (context: Context) => Promise<void>, json = false): Promise<Ran> {
  const out: string[] = []
  const err: string[] = []
  const context: Context = {
    environment: { BAILIFF_DATA_DIR: folder },
    json,
    url: null,
    interactive: false,
    out: (text) => void out.push(text),
    note: (text) => void err.push(text),
    answer: (value, text) => void out.push(json ? JSON.stringify(value) : text()),
    confirm: () => Promise.reject(new Error('nobody is there to be asked')),
  }
  try {
    await work(context)
    return { code: 0, out: out.join('\n'), err: err.join('\n') }
  } catch (error) {
    if (!(error instanceof Error)) throw error
    const code = error instanceof CommandFailed ? error.exitCode : 1
    return { code, out: out.join('\n'), err: [...err, error.message].join('\n') }
  }
}

const exporting = (out: string): Promise<Ran> => ran((context) => exportOrganization(context, { out }))
const examining = (): Promise<Ran> => ran((context) => doctor(context, {}))
const holding = (): Promise<Ran> => ran((context) => holdAfterRestore(context, { reason: 'by hand' }))
const erasing = (options: { readonly yes?: boolean; readonly cancel?: boolean }): Promise<Ran> =>
  ran((context) => eraseSubject(context, { email: 'ann@acme.test', ...options }))
const deleting = (slug: string, confirm = slug): Promise<Ran> =>
  ran((context) => deleteOrganization(context, slug, { confirm }))

describe('with a server', () => {
  test('an export is a file of its owner’s alone, and is not written over another', async () => {
    await start()
    const out = join(folder, 'acme.ndjson')
    expect(await exporting(out)).toMatchObject({ code: 0, out: expect.stringMatching(/^\d+ rows of/) })
    expect((await stat(out)).mode & 0o777).toBe(0o600)
    const lines = (await readFile(out, 'utf8')).trim().split('\n')
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ complete: true })
    await expect(stat(`${out}.part`)).rejects.toMatchObject({ code: 'ENOENT' })
    expect(await exporting(out)).toMatchObject({ code: 2, err: expect.stringContaining('is there') })
    await writeFile(`${out}.2.part`, 'kept')
    expect(await exporting(`${out}.2`)).toMatchObject({ code: 2 })
    expect(await readFile(`${out}.2.part`, 'utf8')).toBe('kept')
  })

  test('dead letters are listed, and a failed run is started again', async () => {
    const { core, organization, runtime } = await start()
    const startedBy = { kind: 'system', id: 't', name: 't' } as const
    const run = await runtime.runs.start({
      organizationId: organization.id,
      definition: 'notes',
      input: { notes: ['x'] },
      startedBy,
      source: 'api',
    })
    await core.stores.runs.requestCancel({
      organizationId: organization.id,
      runId: run.id,
      reason: null,
      by: startedBy,
    })
    await core.database.execute(
      `UPDATE agent.runs SET status = 'failed', ended_at = now(), message = 'no \x1b[31manswer', segment_id = NULL WHERE id = '${run.id}'`,
    )
    const listed = await ran((context) => listDeadLetters(context, { kind: 'run_failed', limit: '50' }))
    expect(listed).toMatchObject({ code: 0, out: expect.stringContaining(run.id) })
    expect(listed.out).toContain('no \\u{1b}[31manswer')
    const retried = await ran((context) => retryRun(context, run.id, {}), true)
    expect(JSON.parse(retried.out)).toMatchObject({ retryOf: run.id, definition: 'notes' })
    expect(await ran((context) => retryRun(context, run.id, {}))).toMatchObject({ code: 4 })
  })

  test('an erasure asks before, waits for runs that it cancels, and says what it did', async () => {
    const { organization, runtime } = await start()
    await runtime.runs.start({
      organizationId: organization.id,
      definition: 'notes',
      input: { notes: ['write to ann@acme.test'] },
      startedBy: { kind: 'system', id: 't', name: 't' },
      source: 'api',
    })
    expect(await erasing({})).toMatchObject({ code: 2, err: expect.stringContaining('cannot be taken back') })
    expect(await erasing({ yes: true })).toMatchObject({ code: 4, err: expect.stringContaining('have not ended') })
    expect(await erasing({ yes: true, cancel: true })).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^erased: .*1 in runs/),
    })
    expect(await erasing({ yes: true })).toMatchObject({
      code: 0,
      out: expect.stringContaining('nothing was held'),
    })
  })

  test('commands on the database itself say who has it', async () => {
    await start()
    for (const work of [holding, () => deleting('acme')])
      expect(await work()).toMatchObject({ code: 1, err: expect.stringContaining('in use by') })
  })
})

describe('without a server', () => {
  test('runs are held by hand, the doctor says so, and an organization with open runs is not deleted', async () => {
    const { organization, runtime } = await start()
    await runtime.runs.start({
      organizationId: organization.id,
      definition: 'notes',
      input: { notes: ['waits'] },
      startedBy: { kind: 'system', id: 't', name: 't' },
      source: 'api',
    })
    await stop()
    expect((await examining()).out).toMatch(/ok +restore +the database has not come back/)
    expect(await holding()).toMatchObject({ code: 0, out: expect.stringContaining('held; bailiff') })
    expect((await examining()).out).toMatch(/warning +restore +\d+ runs? held/)
    expect(await holding()).toMatchObject({ out: expect.stringContaining('no run to hold') })
    expect(await deleting('acme')).toMatchObject({
      code: 4,
      err: expect.stringContaining('not ended'),
    })
  })

  test('a copy of the file alone makes the doctor warn, and changes nothing', async () => {
    const path = join(folder, 'installation.json')
    const before = await readFile(path, 'utf8')
    await writeFile(path, before.replace(/"generation":\d+/, '"generation":1000000'))
    expect((await examining()).out).toMatch(/warning +restore +the database came back from a backup/)
    await writeFile(path, before)
    expect((await examining()).out).toMatch(/restore +\d+ runs? held/)
  })

  test('an organization is deleted once its slug is written twice and its runs have ended', async () => {
    expect(await deleting('acme', 'acne')).toMatchObject({ code: 2 })
    expect(await deleting('nobody')).toMatchObject({ code: 5 })
    const database = await pgliteDatabase({ dataDir: databaseFolder(folder), maintenanceMs: 0 })
    await database.execute(`UPDATE agent.runs SET status = 'cancelled', ended_at = now()`)
    await database.close()
    expect(await deleting('acme')).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^acme is gone, with \d+ rows/),
    })
    expect(await deleting('acme')).toMatchObject({ code: 5 })
  })
})
