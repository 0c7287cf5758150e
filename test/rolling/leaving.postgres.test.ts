import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../setup/database.ts'
import type { Orders } from './worker.ts'

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url))

let db: TestDatabase
const processes: Worker[] = []
beforeEach(async () => {
  db = await testDatabase()
})
afterEach(async () => {
  for (const worker of processes.splice(0)) await worker.kill()
  await db.close()
})

type Line = Readonly<Record<string, unknown>>

/** A process of the deployment, and what it has said. */
class Worker {
  readonly lines: Line[] = []
  readonly ended: Promise<number | null>
  readonly #child: ChildProcess
  readonly #waiting: { readonly what: string; readonly resolve: (line: Line) => void }[] = []

  constructor(orders: Omit<Orders, 'url'>) {
    this.#child = spawn(process.execPath, [WORKER, JSON.stringify({ ...orders, url: db.url })], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const { promise, resolve } = Promise.withResolvers<number | null>()
    this.ended = promise
    this.#child.once('close', (code) => resolve(code))
    if (this.#child.stdout === null) throw new Error('the worker has no standard output')
    createInterface({ input: this.#child.stdout }).on('line', (text) => this.#heard(JSON.parse(text) as Line))
    processes.push(this)
  }

  #heard(line: Line): void {
    this.lines.push(line)
    for (const waiter of this.#waiting) if (Object.hasOwn(line, waiter.what)) waiter.resolve(line)
  }

  /** The next line with that name, or one that was there before. */
  async says(what: string): Promise<Line> {
    const said = this.lines.find((line) => Object.hasOwn(line, what))
    if (said !== undefined) return said
    const { promise, resolve } = Promise.withResolvers<Line>()
    this.#waiting.push({ what, resolve })
    return promise
  }

  tell(line: string): void {
    this.#child.stdin?.write(`${line}\n`)
  }

  leave(): void {
    this.#child.kill('SIGTERM')
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.ended
  }
}

async function rowOf(runId: unknown): Promise<Line> {
  const { rows } = await db.database.query<Line>(
    { name: '', text: 'SELECT status, segment_id, output FROM agent.runs WHERE id = $1::uuid' },
    [String(runId)],
  )
  return rows[0] ?? {}
}

async function claims(): Promise<readonly Line[]> {
  const { rows } = await db.database.query<Line>({
    name: '',
    text: 'SELECT status, attempt FROM agent.idempotency_keys',
  })
  return rows
}

// A run that counts as dead only after an hour: whoever goes on with it was given it.
describe('a process that is told to leave', { timeout: 60_000 }, () => {
  test('hangs up on the model, and another process has the run at once', async () => {
    const leaver = new Worker({ holdsAt: 'turn', graceMs: 10_000, starts: true })
    const { started } = await leaver.says('started')
    await leaver.says('turn')
    const other = new Worker({ holdsAt: 'nothing', graceMs: 10_000, starts: false })
    await other.says('ready')
    leaver.leave()
    await leaver.says('leaving')
    leaver.tell('go')
    expect(await leaver.ended).toBe(0)
    expect(leaver.lines).toContainEqual({ segment: 'released' })
    expect(await other.says('run')).toStrictEqual({ run: 'completed' })
    expect(await rowOf(started)).toMatchObject({ status: 'completed', output: 'Done.' })
  })

  test('lets the effect in flight settle; whoever goes on reads it back and makes it no second time', async () => {
    const leaver = new Worker({ holdsAt: 'effect', graceMs: 30_000, starts: true })
    await leaver.says('effect')
    const other = new Worker({ holdsAt: 'nothing', graceMs: 10_000, starts: false })
    await other.says('ready')
    leaver.leave()
    await leaver.says('leaving')
    leaver.tell('go')
    expect(await leaver.ended).toBe(0)
    expect(leaver.lines).toContainEqual({ effect: 'done' })
    expect(leaver.lines).not.toContainEqual({ run: 'completed' })
    expect(await other.says('run')).toStrictEqual({ run: 'completed' })
    expect(other.lines).not.toContainEqual({ effect: 'begun' })
    expect(await claims()).toStrictEqual([{ status: 'completed', attempt: 1 }])
  })

  test('hands over what does not settle in time: the run goes on elsewhere, and its claim stays what it is', async () => {
    const leaver = new Worker({ holdsAt: 'effect', graceMs: 100, starts: true })
    const { started } = await leaver.says('started')
    await leaver.says('effect')
    const other = new Worker({ holdsAt: 'nothing', graceMs: 10_000, starts: false })
    await other.says('ready')
    leaver.leave()
    expect(await leaver.ended).toBe(0)
    expect(leaver.lines).toContainEqual({ segment: 'released' })
    // Nobody knows what became of the effect: the other process waits for the claim instead of making it again.
    expect(await other.says('segment')).toStrictEqual({ segment: 'parked' })
    expect(other.lines).not.toContainEqual({ effect: 'begun' })
    expect(await rowOf(started)).toMatchObject({ status: 'parked' })
    expect(await claims()).toStrictEqual([{ status: 'processing', attempt: 1 }])
  })
})
