import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { startSmtpServer, type SmtpSimulator } from '../../simulators/smtp-server.ts'
import { testDatabase, type TestDatabase } from '../setup/database.ts'
import {
  CHAOS_AGENT,
  chaosDeployment,
  DECIDER,
  recipientsOf,
  STARTER,
  type ChaosDeployment,
} from './chaos-deployment.ts'
import type { ChaosCommand, ChaosLine } from './chaos-worker.ts'

const WORKER = fileURLToPath(new URL('./chaos-worker.ts', import.meta.url))
const PATIENCE = { timeout: 60_000, interval: 50 }

let folder: string
let db: TestDatabase
let mail: SmtpSimulator
let deployment: ChaosDeployment
const ends: (() => Promise<void>)[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-stopped-'))
  db = await testDatabase()
  mail = await startSmtpServer({ outboxDir: folder })
  deployment = await chaosDeployment(db.url!, mail.port)
})
afterEach(async () => {
  await Promise.all(ends.splice(0).map((end) => end()))
  await deployment.core.database.close()
  await mail.close()
  await db.close()
  await rm(folder, { recursive: true, force: true })
})

function server() {
  const child = spawn(process.execPath, [WORKER, JSON.stringify({ url: db.url })], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const { promise: gone, resolve } = Promise.withResolvers<void>()
  child.once('close', () => resolve())
  child.stdin.on('error', () => undefined)
  const said: ChaosLine[] = []
  createInterface({ input: child.stdout }).on('line', (line) => said.push(JSON.parse(line) as ChaosLine))
  ends.push(() => {
    child.kill('SIGKILL')
    return gone
  })
  return {
    signal: (name: 'SIGSTOP' | 'SIGCONT') => void child.kill(name),
    tell: (command: ChaosCommand) => void child.stdin.write(`${JSON.stringify(command)}\n`),
    until: (what: ChaosLine['said']) =>
      vi.waitFor(() => expect(said.map((line) => line.said)).toContain(what), PATIENCE),
  }
}

test('a server that is stopped in the middle of a send loses its run, is refused when it wakes, and its mail went out once', async () => {
  const { core, runtime, organizationId } = deployment
  const stopped = server()
  await stopped.until('ready')
  // Long enough to be stopped between the mail and its answer.
  mail.inject({ delayMs: 5_000 })
  const start = { organizationId, definition: CHAOS_AGENT.slug, input: '1', startedBy: STARTER, source: 'api' } as const
  const { id } = await runtime.runs.start(start)
  stopped.tell({ do: 'wake', runId: id })
  await vi.waitFor(async () => expect(await mail.messages()).toHaveLength(1), PATIENCE)
  stopped.signal('SIGSTOP')
  mail.inject({})

  const other = server()
  await other.until('segment')
  const status = async () => (await runtime.runs.get(organizationId, id))?.status
  // It meets a call that somebody is making, and waits for that one's lease.
  await vi.waitFor(async () => expect(await status()).toBe('parked'), PATIENCE)
  stopped.signal('SIGCONT')
  await stopped.until('lost')

  other.tell({ do: 'wake', runId: id })
  await vi.waitFor(async () => {
    const { items } = await core.approvals.list(organizationId, { state: 'pending' })
    for (const { id: approvalId, argumentsHash } of items) {
      await core.approvals.approve({ organizationId, approvalId, argumentsHash, decider: DECIDER, note: null })
      other.tell({ do: 'wake', runId: id })
    }
    expect(await status()).toBe('completed')
  }, PATIENCE)
  expect((await mail.messages()).flatMap(({ deliveredTo }) => deliveredTo).toSorted()).toEqual(
    [...recipientsOf('1')].toSorted(),
  )
}, 200_000)
