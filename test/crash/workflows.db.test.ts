import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../setup/database.ts'
import type { WorkflowOrders } from './workflow-worker.ts'

const WORKER = fileURLToPath(new URL('./workflow-worker.ts', import.meta.url))

let folder: string
let db: TestDatabase | null
let receiver: Server
let taken: string[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-workflow-'))
  db = inject('dialect') === 'postgres' ? await testDatabase() : null
  taken = []
  const seen = new Set<unknown>()
  receiver = createServer((request, response) => {
    void request
      .setEncoding('utf8')
      .toArray()
      .then((chunks) => {
        const key = request.headers['idempotency-key']
        if (!seen.has(key)) taken.push((chunks as string[]).join(''))
        seen.add(key)
        response.end('taken')
      })
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
})
afterEach(async () => {
  receiver.closeAllConnections()
  receiver.close()
  await db?.close()
  await rm(folder, { recursive: true, force: true })
})

/** Runs one process of the deployment to its end, however that comes. */
async function work(orders: Pick<WorkflowOrders, 'start' | 'dieAfter'>) {
  const database = db?.url == null ? { folder: join(folder, 'data'), image: inject('pgliteImage') } : { url: db.url }
  const address = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
  const child = spawn(process.execPath, [WORKER, JSON.stringify({ ...orders, database, receiver: address })], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr] = [child.stdout, child.stderr].map((stream) => stream.setEncoding('utf8').toArray())
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals | null>()
  child.once('close', (_code, signal) => resolve(signal))
  const signal = await promise
  return { signal, out: ((await stdout) as string[]).join(''), err: ((await stderr) as string[]).join('') }
}

// Two processes each, one after the other; the limit is there for a process that never ends.
describe('a process of a workflow that is killed', { timeout: 180_000 }, () => {
  test.each([
    ['after an effect and before its step is written', 'first'],
    ['while items are being worked on', 'b'],
    ['while the run of a node works', 'child'],
  ])('%s: the next one goes on, and everything arrived once', async (_when, dieAfter) => {
    expect((await work({ start: true, dieAfter })).signal).toBe('SIGKILL')
    expect(taken).toContain(dieAfter)
    // On a shared database the dead worker's lease has to run out; nothing else may wait for it here.
    await db?.database.execute(
      "UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second' WHERE status = 'processing'",
    )
    const ended = await work({ start: false, dieAfter: null })
    expect([ended.out.trim(), ended.err]).toEqual([JSON.stringify({ run: 'completed', reason: null }), ''])
    expect(taken.toSorted()).toEqual(['a', 'b', 'child', 'first', 'wrote child'])
  })
})
