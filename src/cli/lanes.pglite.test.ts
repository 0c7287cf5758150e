import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { notesConfig } from '../../test/server-app.ts'
import { databaseFolder } from '../server/open-database.ts'
import { type Platform, startPlatform } from '../server/platform.ts'
import { readSettings } from '../server/settings.ts'
import { pgliteDatabase } from '../storage/pglite/index.ts'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))

let folder: string
let platform: Platform

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-cli-lanes-'))
  const image = new Blob([await readFile(inject('pgliteImage'))])
  await (await pgliteDatabase({ dataDir: databaseFolder(folder), image, maintenanceMs: 0 })).close()
  platform = await startPlatform({
    settings: readSettings({ BAILIFF_PORT: '0', BAILIFF_DATA_DIR: folder }),
    config: notesConfig({ parts: { lanes: { batch: 3 } } }),
    announce: () => undefined,
  })
})
afterAll(async () => {
  await platform.stop()
  await rm(folder, { recursive: true })
})

function bailiff(
  ...args: readonly string[]
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--conditions=bailiff:source', main, ...args],
      { env: { PATH: process.env['PATH'], BAILIFF_DATA_DIR: folder } },
      (error, out, err) => resolve({ code: typeof error?.code === 'number' ? error.code : 0, out, err }),
    )
  })
}

// One process a command; the limit is there for one that never ends.
const LIMIT = { timeout: 120_000 }

test('lanes are listed with the limits of the config, paused, sized and resumed', LIMIT, async () => {
  expect((await bailiff('lanes', 'list')).out).toMatch(/^batch +0 +3 \(default\) +0 +0 +open$/m)
  expect(await bailiff('lanes', 'pause', 'batch')).toMatchObject({
    code: 0,
    out: 'batch is paused; no run works in it\n',
  })
  expect(await bailiff('lanes', 'limit', 'batch', '2')).toMatchObject({
    out: 'batch takes 2 at the same time\n',
  })
  expect((await bailiff('lanes', 'list')).out).toMatch(/^batch +0 +2 +0 +0 +PAUSED by command line/m)
  await writeFile(join(folder, 'none.json'), '{ "notes": [] }')
  const queued = await bailiff(
    'run',
    'notes',
    '--input',
    join(folder, 'none.json'),
    '--lane',
    'batch',
    '--no-follow',
    '--json',
  )
  const { run } = JSON.parse(queued.out) as { run: { id: string; lane: string; status: string } }
  expect(run).toMatchObject({ lane: 'batch', status: 'queued' })
  expect(await bailiff('lanes', 'resume', 'batch')).toMatchObject({ code: 0 })
  expect((await bailiff('lanes', 'limit', 'batch', 'default')).out).toBe('batch takes 3 (default) at the same time\n')
  expect((await bailiff('runs', 'show', run.id)).out).toMatch(/^lane +batch$/m)
})

test('what cannot be asked for is said, with an exit code of its own', LIMIT, async () => {
  expect(await bailiff('lanes', 'limit', 'batch', 'many')).toMatchObject({
    code: 2,
    err: expect.stringContaining('is no limit'),
  })
  expect((await bailiff('lanes', 'pause', 'express')).code).toBe(2)
  expect(await bailiff('runs', 'release')).toMatchObject({ code: 2, err: expect.stringContaining('--all') })
  const [run] = (await platform.runtime.runs.list(platform.organization.id)).items
  expect(await bailiff('runs', 'release', run?.id ?? '')).toMatchObject({ err: expect.stringContaining('the run') })
  expect((await bailiff('runs', 'release', '--all')).out).toBe('0 held runs released\n')
})
