import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { startSmtpServer, type SmtpSimulator } from '../../simulators/smtp-server.ts'
import { testDatabase, type TestDatabase } from '../setup/database.ts'
import type { Orders } from './worker.ts'

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url))

let folder: string
let server: TestDatabase | null
let mail: SmtpSimulator

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-crash-'))
  server = inject('dialect') === 'postgres' ? await testDatabase() : null
  mail = await startSmtpServer({ outboxDir: join(folder, 'outbox') })
})
afterEach(async () => {
  await mail.close()
  await server?.close()
  await rm(folder, { recursive: true, force: true })
})

interface Ended {
  readonly lines: readonly Record<string, unknown>[]
  readonly signal: string | null
  readonly code: number | null
  readonly stderr: string
}

/** Runs one process of the deployment to its end, however that comes. */
async function work(orders: Omit<Orders, 'database' | 'smtpPort'>): Promise<Ended> {
  const database =
    server?.url == null ? { folder: join(folder, 'data'), image: inject('pgliteImage') } : { url: server.url }
  const child = spawn(process.execPath, [WORKER, JSON.stringify({ ...orders, database, smtpPort: mail.port })], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr] = [child.stdout, child.stderr].map((stream) => stream.setEncoding('utf8').toArray())
  const { promise, resolve } = Promise.withResolvers<Pick<Ended, 'signal' | 'code'>>()
  child.once('close', (code, signal) => resolve({ code, signal }))
  const ended = await promise
  const lines = ((await stdout) as string[]).join('').split('\n').filter(Boolean)
  return {
    ...ended,
    stderr: ((await stderr) as string[]).join(''),
    lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>),
  }
}

const last = (ended: Ended): Record<string, unknown> => ended.lines.at(-1) ?? { code: ended.code, stderr: ended.stderr }

// Several processes each, one after the other; the limit is there for a process that never ends.
describe('one approved mail, whatever dies', { timeout: 180_000 }, () => {
  test('a restart between approval and execution sends one message, and the run ends', async () => {
    expect(last(await work({ action: 'start' }))).toMatchObject({ run: 'parked' })
    expect(last(await work({ action: 'approve' }))).toMatchObject({ approved: 'answered' })
    expect(last(await work({ action: 'resume' }))).toMatchObject({ run: 'completed', output: 'sent' })
    expect(await mail.messages()).toHaveLength(1)
  })

  test('T30 a kill between execution and the model’s next turn sends one message, and the run ends', async () => {
    await work({ action: 'start' })
    await work({ action: 'approve' })
    expect((await work({ action: 'resume', killBeforeLastTurn: true })).signal).toBe('SIGKILL')
    expect(await mail.messages()).toHaveLength(1)
    expect(last(await work({ action: 'resume' }))).toMatchObject({ run: 'completed', output: 'sent' })
    expect(await mail.messages()).toHaveLength(1)
  })

  test('model failures after an approved send leave one message, and the run ends', async () => {
    await work({ action: 'start' })
    await work({ action: 'approve' })
    expect(last(await work({ action: 'resume', failLastTurn: 2 }))).toMatchObject({ run: 'completed', output: 'sent' })
    expect(await mail.messages()).toHaveLength(1)
  })

  test('T25 a kill after the mail server took the message asks a person instead of sending again', async () => {
    await work({ action: 'start' })
    await work({ action: 'approve' })
    expect((await work({ action: 'resume', killAfterSend: true })).signal).toBe('SIGKILL')
    expect(await mail.messages()).toHaveLength(1)
    // On a shared database the dead worker's lease has to run out; nothing else may wait for it here.
    await server?.database.execute("UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second'")
    expect(last(await work({ action: 'resume' }))).toMatchObject({ run: 'parked' })
    expect(last(await work({ action: 'approve' }))).toMatchObject({ approved: 'answered', question: 'outcome' })
    expect(last(await work({ action: 'resume' }))).toMatchObject({ run: 'completed', output: 'sent' })
    expect(await mail.messages()).toHaveLength(1)
  })
})
