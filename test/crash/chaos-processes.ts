import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { ChaosCommand, ChaosLine, ChaosOrders } from './chaos-worker.ts'

const WORKER = fileURLToPath(new URL('./chaos-worker.ts', import.meta.url))
/** Milliseconds a process may take to leave by itself. */
const LEAVING_MS = 20_000

type Child = ChildProcessByStdio<Writable, Readable, Readable>

interface Server {
  readonly child: Child
  readonly gone: Promise<void>
  ready: boolean
  stopped: boolean
  /** Killed on purpose. */
  killed: boolean
  /** Runs it was the last to take. */
  readonly holds: Set<string>
}

/** A number of servers that are killed, stopped and replaced. Touches no process but those it started. */
export class ChaosProcesses {
  readonly faults: string[] = []
  readonly counts = { started: 0, kills: 0, stops: 0, lost: 0 }
  readonly #orders: ChaosOrders
  readonly #random: () => number
  readonly #all: Server[] = []
  #servers: Server[] = []
  #leaving = false

  constructor(orders: ChaosOrders, random: () => number) {
    this.#orders = orders
    this.#random = random
  }

  start(count: number): void {
    for (let nth = 0; nth < count; nth += 1) this.#servers.push(this.#spawn())
  }

  /** Waits until one server at least takes work. */
  async someReady(): Promise<void> {
    while (!this.#servers.some(({ ready }) => ready)) await tick(50)
  }

  /** To any server that listens; nobody's loss is anybody's fault. */
  tell(command: ChaosCommand): boolean {
    const server = this.#pick(({ ready, stopped }) => ready && !stopped)
    return server?.child.stdin.write(`${JSON.stringify(command)}\n`) ?? false
  }

  /** Kills one, whatever it is doing, and starts another in its place. Answers the runs that it held. */
  async kill(): Promise<readonly string[]> {
    const server = this.#pick(() => true)
    if (server === undefined) return []
    this.counts.kills += 1
    server.killed = true
    server.child.kill('SIGKILL')
    await server.gone
    this.#servers = this.#servers.map((one) => (one === server ? this.#spawn() : one))
    return [...server.holds]
  }

  /** Stops one for so long that it counts as dead, and lets it go on as if nothing had been. */
  async freeze(ms: number): Promise<void> {
    const server = this.#pick(({ ready, stopped }) => ready && !stopped)
    if (server === undefined) return
    this.counts.stops += 1
    server.stopped = true
    server.child.kill('SIGSTOP')
    await tick(ms)
    server.child.kill('SIGCONT')
    server.stopped = false
  }

  /** Lets every server leave by itself. Answers how many had to be killed for it, and whether any is left. */
  async end(): Promise<{ readonly forced: number; readonly orphans: number }> {
    this.#leaving = true
    let forced = 0
    for (const { child } of this.#servers) child.stdin.end()
    for (const { child, gone } of this.#servers) {
      if (await settledWithin(gone, LEAVING_MS)) continue
      forced += 1
      child.kill('SIGKILL')
      await gone
    }
    const orphans = this.#all.filter(({ child }) => child.exitCode === null && child.signalCode === null).length
    return { forced, orphans }
  }

  #spawn(): Server {
    const child: Child = spawn(process.execPath, [WORKER, JSON.stringify(this.#orders)], {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    this.counts.started += 1
    const { promise: gone, resolve } = Promise.withResolvers<void>()
    const server: Server = { child, gone, ready: false, stopped: false, killed: false, holds: new Set() }
    child.once('close', (code, signal) => {
      server.ready = false
      if (!server.killed && !(this.#leaving && code === 0)) this.faults.push(`a server ended with ${signal ?? code}`)
      resolve()
    })
    // A line that was on its way to a process that died.
    child.stdin.on('error', () => undefined)
    createInterface({ input: child.stdout }).on('line', (line) => this.#hear(server, line))
    createInterface({ input: child.stderr }).on('line', (line) => this.faults.push(line))
    this.#all.push(server)
    return server
  }

  #hear(server: Server, line: string): void {
    const heard = lineOf(line)
    if (heard?.said === 'ready') server.ready = true
    if (heard?.said === 'lost') this.counts.lost += 1
    if (heard?.said === 'fault') this.faults.push(heard.message)
    if (heard?.said !== 'segment') return
    for (const { holds } of this.#servers) holds.delete(heard.runId)
    server.holds.add(heard.runId)
  }

  #pick(fits: (server: Server) => boolean): Server | undefined {
    const servers = this.#servers.filter(fits)
    return servers[Math.floor(this.#random() * servers.length)]
  }
}

/** Null for half a line: its process died while it wrote. */
function lineOf(line: string): ChaosLine | null {
  try {
    return JSON.parse(line) as ChaosLine
  } catch {
    return null
  }
}

export function tick(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

async function settledWithin(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms)
  })
  const settled = await Promise.race([work.then(() => true), late])
  clearTimeout(timer)
  return settled
}
