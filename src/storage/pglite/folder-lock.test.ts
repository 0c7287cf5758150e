import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { DataFolderInUse } from '../errors.ts'
import { lockFolder } from './folder-lock.ts'
import { thisProcess } from './process-identity.ts'

let folder: string
beforeEach(() => {
  const parent = mkdtempSync(join(tmpdir(), 'bailiff-lock-'))
  folder = join(parent, 'db')
  onTestFinished(() => rmSync(parent, { recursive: true, force: true }))
})

const script = fileURLToPath(new URL('./folder-lock.ts', import.meta.url))
const takeLock = `import { lockFolder } from ${JSON.stringify(script)}; lockFolder(process.argv[1]);`
const child = (code: string): string[] => ['--conditions=bailiff:source', '--input-type=module', '-e', code, folder]

function writeLock(holder: object): void {
  writeFileSync(`${folder}.lock`, JSON.stringify(holder))
}

test('one owner at a time, until it lets go', () => {
  const lock = lockFolder(folder)
  expect(() => lockFolder(folder)).toThrow(DataFolderInUse)
  lock.release()
  lockFolder(folder).release()
  expect(existsSync(`${folder}.lock`)).toBe(false)
})

test('releasing twice does not free the lock of the next owner', () => {
  const first = lockFolder(folder)
  first.release()
  const second = lockFolder(folder)
  first.release()
  expect(existsSync(`${folder}.lock`)).toBe(true)
  second.release()
})

test('a living process keeps its lock, whatever it is doing, and the error names it and the way out', async () => {
  // Blocks its event loop: a heartbeat would have lapsed.
  const blocked = spawn(process.execPath, child(`${takeLock} process.stdout.write('locked'); for (;;);`))
  onTestFinished(() => void blocked.kill('SIGKILL'))
  await once(blocked.stdout, 'data')
  const attempt = (): unknown => lockFolder(folder)
  expect(attempt).toThrow(DataFolderInUse)
  expect(attempt).toThrow(`process ${blocked.pid}`)
  expect(attempt).toThrow(/another data folder/)
})

test('the lock of a killed process is taken over', async () => {
  const owner = spawn(
    process.execPath,
    child(`${takeLock} process.stdout.write('locked'); setInterval(() => {}, 1000)`),
  )
  await once(owner.stdout, 'data')
  owner.kill('SIGKILL')
  await once(owner, 'exit')
  const lock = lockFolder(folder)
  expect(JSON.parse(readFileSync(`${folder}.lock`, 'utf8'))).toMatchObject({ pid: process.pid })
  expect(existsSync(`${folder}.lock.takeover`)).toBe(false)
  lock.release()
})

test('a pid that belongs to a later process does not keep the lock', () => {
  writeLock({ ...thisProcess(), start: '1' })
  expect(() => lockFolder(folder)).not.toThrow()
})

test('a lock from before the machine started again does not hold', () => {
  writeLock({ ...thisProcess(), boot: 'an earlier one' })
  expect(() => lockFolder(folder)).not.toThrow()
})

test('a process on another host is never presumed dead', () => {
  writeLock({ ...thisProcess(), host: 'elsewhere', pid: 1 })
  expect(() => lockFolder(folder)).toThrow(/host elsewhere.*delete/)
})

test('a lock file that says nothing is never presumed stale', () => {
  writeFileSync(`${folder}.lock`, '')
  expect(() => lockFolder(folder)).toThrow(/delete that file/)
  writeFileSync(`${folder}.lock`, '{"pid":-1}')
  expect(() => lockFolder(folder)).toThrow(DataFolderInUse)
})

test('a take-over that another process has begun is left to it', () => {
  writeLock({ ...thisProcess(), boot: 'an earlier one' })
  writeFileSync(`${folder}.lock.takeover`, JSON.stringify(thisProcess()))
  expect(() => lockFolder(folder)).toThrow(/taking over/)
})

test('of many processes that find a dead owner exactly one takes over', async () => {
  writeLock({ ...thisProcess(), boot: 'an earlier one' })
  const contend = `import { lockFolder } from ${JSON.stringify(script)};
    let won = true; try { lockFolder(process.argv[1]) } catch (error) { if (error.code !== 'data_folder_in_use') throw error; won = false }
    process.stdout.write(won ? 'won' : 'lost'); process.stdin.resume(); process.stdin.on('end', () => process.exit())`
  const contenders = Array.from({ length: 6 }, () => spawn(process.execPath, child(contend)))
  const outcomes = await Promise.all(contenders.map(async ({ stdout }) => String((await once(stdout, 'data'))[0])))
  for (const { stdin } of contenders) stdin.end()
  expect(outcomes.filter((outcome) => outcome === 'won')).toHaveLength(1)
})

test('a process that ends without letting go does not stand in the way', () => {
  execFileSync(process.execPath, child(takeLock))
  expect(existsSync(`${folder}.lock`)).toBe(true)
  lockFolder(folder).release()
})
