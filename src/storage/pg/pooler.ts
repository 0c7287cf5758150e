import { Client } from 'pg'
import { DatabaseUnavailable } from '../errors.ts'
import { readTarget, unavailable } from './target.ts'

/** What stands between this process and the server. */
export interface PoolerReport {
  /** Connections of the server are shared between transactions: session state, LISTEN and session locks are lost. */
  readonly pooled: boolean
  /** A named statement is still known when another connection of the server runs it. */
  readonly named: boolean
}

/** Longest wait for one answer: a pool of one connection would let the probe wait for itself. */
const ANSWER_MS = 3_000

/**
 * Finds out by what a transaction pooler cannot hide: two clients that are connected at the same time are served by one
 * process of the server. Leaves nothing behind.
 * @throws DatabaseUnavailable
 */
export async function probePooler(connectionString: string): Promise<PoolerReport> {
  const first = await connected(connectionString)
  try {
    const before = await backendOf(first, 'bailiff_probe')
    return await beside(connectionString, first, before)
  } finally {
    await hangUp(first)
  }
}

async function beside(connectionString: string, first: Client, before: number): Promise<PoolerReport> {
  const second = await connected(connectionString)
  try {
    // A transaction keeps the connection it began on, which is the one the first client has just given back.
    await second.query('BEGIN')
    const pooled = (await backendOf(second)) === before
    return { pooled, named: pooled ? await stillNamed(first) : true }
  } finally {
    await hangUp(second)
  }
}

/** Runs the statement again where it was not parsed, while the second client holds the connection where it was. */
async function stillNamed(first: Client): Promise<boolean> {
  try {
    await backendOf(first, 'bailiff_probe')
    return true
  } catch {
    return false
  }
}

async function backendOf(client: Client, name?: string): Promise<number> {
  const text = 'SELECT pg_backend_pid() AS pid'
  const { rows } = await client.query<{ pid: number }>(name === undefined ? { text } : { name, text })
  const pid = rows[0]?.pid
  if (pid === undefined) throw new Error('the server did not name its process')
  return pid
}

async function connected(connectionString: string): Promise<Client> {
  const target = readTarget(connectionString)
  const client = new Client({ connectionString, connectionTimeoutMillis: ANSWER_MS, query_timeout: ANSWER_MS })
  // Without a listener, a connection that breaks ends the process.
  client.on('error', () => undefined)
  try {
    await client.connect()
    return client
  } catch (error) {
    await hangUp(client)
    throw error instanceof DatabaseUnavailable ? error : unavailable(target, error)
  }
}

async function hangUp(client: Client): Promise<void> {
  await client.end().catch(() => undefined)
}
