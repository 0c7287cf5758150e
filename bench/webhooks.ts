/*
 * Callbacks at a steady rate against a whole server on loopback: the answers, how long they took, and what became of
 * every job, beside a bare insert of the same body on the same database in the same run.
 *
 *   node --conditions=bailiff:source bench/webhooks.ts [per second, 300] [seconds, 5]
 */
import { request as httpRequest, Agent } from 'node:http'
import { startFullEnrichSimulator, type FullEnrichBatch, rowOf, type SignedCallback } from '../simulators/fullenrich.ts'
import { createCore } from '../src/core.ts'
import { embeddedEngine } from '../src/engines/embedded/engine.ts'
import { DEFAULT_CEILINGS } from '../src/runs/definition.ts'
import { createRuntime } from '../src/runtime.ts'
import { createApp } from '../src/server/app.ts'
import { listen } from '../src/server/listen.ts'
import { identityStore } from '../src/storage/identity-store.ts'
import { migrate } from '../src/storage/migrate.ts'
import type { Database } from '../src/storage/database.ts'
import { pgDatabase } from '../src/storage/pg/index.ts'
import { providerJobStore } from '../src/storage/provider-job-store.ts'
import { unnamed } from '../src/storage/statement.ts'
import { FULLENRICH_KEY, providers, PUBLIC_URL } from '../test/provider-job-parts.ts'
import { startPostgres } from '../test/setup/postgres-server.ts'

const PER_SECOND = Number(process.argv[2] ?? 300)
const SECONDS = Number(process.argv[3] ?? 5)
/** Of every delivery, so many are sent a second time right away. */
const REPEATED = 0.1

const total = PER_SECOND * SECONDS
/** Sent before anything is measured, one after the other: connections and compiled code. */
const WARM_UP = 200
const postgres = await startPostgres()
try {
  const admin = await pgDatabase({ connectionString: `${postgres.url}postgres` })
  await admin.execute('CREATE DATABASE bench')
  await admin.close()
  const url = `${postgres.url}bench`
  const database = await pgDatabase({ connectionString: url })
  await migrate(database)
  const floor = await bareInserts(database)
  const { stop, port } = await server(database, url)
  const batches = await reserve(database)
  const used = process.cpuUsage()
  const sent = await deliverAll(batches, port)
  const { user, system } = process.cpuUsage(used)
  // Of client, server and settlements together: what is left when other programs take the processors.
  console.log(`this process   ${((user + system) / 1000 / total).toFixed(2)} ms of processor time for a delivery`)
  await settled(database)
  await report(database, { floor, sent })
  await stop()
  await database.close()
} finally {
  await postgres.stop()
}

/** One row of the same size at a time, from as many connections as the pool has. */
async function bareInserts(database: Database): Promise<number[]> {
  await database.execute('CREATE TABLE public.floor (id integer PRIMARY KEY, body jsonb NOT NULL)')
  const body = JSON.stringify({
    data: Array.from({ length: 25 }, (_, index) => rowOf({ custom: { ref: String(index) } })),
  })
  const insert = { name: 'bench_floor', text: 'INSERT INTO public.floor VALUES ($1, $2)' }
  return paced(total, async (index) => {
    await database.query(insert, [index, body])
    return 0
  }).then(({ ms }) => ms)
}

async function server(database: Database, url: string) {
  const parts = providers(database, { fullenrich: 'http://127.0.0.1:9', parallel: 'http://127.0.0.1:9' })
  const core = await createCore({ database, tools: parts.tools, jobProviders: parts.providers })
  const engine = embeddedEngine({ database: { dialect: 'postgres', connectionString: url }, logger: core.logger })
  const runtime = createRuntime(core, { frameworks: [], engine, defaultModel: 'none/none' })
  await runtime.start()
  const app = createApp({
    core,
    runs: runtime.runs,
    lanes: runtime.lanes,
    identities: identityStore(database),
    closing: new AbortController().signal,
    about: { model: 'none/none', scripted: true, database: 'postgres' },
    hosting: { loopback: true, trustProxy: false, publicUrl: PUBLIC_URL, cookieName: 'session' },
  })
  const listening = await listen({ host: '127.0.0.1', port: 0, fetch: (request, env) => app.fetch(request, env) })
  const stop = async (): Promise<void> => {
    await listening.close(1_000)
    await runtime.stop(5_000)
  }
  return { stop, port: listening.port }
}

/** Jobs of one run each, as if their requests had been answered. */
async function reserve(database: Database): Promise<readonly SignedDelivery[]> {
  const core = await createCore({ database, tools: [] })
  const { id: organizationId } = await core.stores.organizations.ensure({
    id: core.newId(),
    slug: 'bench',
    name: 'Bench',
  })
  const { runs } = createRuntime(core, { frameworks: [], defaultModel: 'none/none' })
  const by = { kind: 'system', id: 'bench', name: 'bench' } as const
  const definition = { slug: 'bench', instructions: 'x', tools: [], model: null, ceilings: DEFAULT_CEILINGS }
  await runs.publish(organizationId, definition, by)
  const store = providerJobStore(database)
  const simulator = await startFullEnrichSimulator()
  const contacts = Array.from({ length: 25 }, (_, index) => ({
    first_name: 'Sample',
    last_name: 'Person',
    custom: { ref: String(index) },
  }))
  const made: SignedDelivery[] = []
  for (let index = 0; index < total + WARM_UP; index += 1) {
    const run = await runs.start({ organizationId, definition: 'bench', input: null, startedBy: by, source: 'library' })
    const id = `00000000-0000-8000-8000-${index.toString(16).padStart(12, '0')}`
    const job = { id, organizationId, rootRunId: run.id, runId: run.id, toolCallId: run.id }
    const refs = contacts.map(({ custom }) => custom.ref)
    await store.reserve({ ...job, provider: 'fullenrich', contactRefs: refs })
    const batch: FullEnrichBatch = {
      id: `batch-${index}`,
      name: `agentic:${id}`,
      webhookUrl: null,
      contacts,
      key: FULLENRICH_KEY,
    }
    made.push({ path: `/api/v1/agentic/webhooks/fullenrich/${id}`, ...simulator.callback(batch) })
  }
  await simulator.close()
  return made
}

interface SignedDelivery extends SignedCallback {
  readonly path: string
}

interface Paced {
  /** Milliseconds of each, in the order in which they ended. */
  readonly ms: number[]
  readonly statuses: number[]
}

async function deliverAll(deliveries: readonly SignedDelivery[], port: number): Promise<Paced> {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  for (const delivery of deliveries.slice(0, WARM_UP)) await post(agent, port, delivery)
  const measured = deliveries.slice(WARM_UP)
  const sent = await paced(measured.length, async (index) => {
    const delivery = measured[index] as SignedDelivery
    const again = index % Math.round(1 / REPEATED) === 0
    const statuses = await Promise.all(Array.from({ length: again ? 2 : 1 }, () => post(agent, port, delivery)))
    // The worse answer of the two.
    return Math.max(...statuses)
  })
  agent.destroy()
  return sent
}

function post(agent: Agent, port: number, { path, headers, body }: SignedDelivery): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const outgoing = httpRequest({
    host: '127.0.0.1',
    port,
    path,
    method: 'POST',
    agent,
    headers: { ...headers, 'content-length': body.byteLength },
  })
  outgoing.once('response', (response) => {
    response.resume()
    response.once('end', () => resolve(response.statusCode ?? 0))
  })
  outgoing.once('error', reject)
  outgoing.end(body)
  return promise
}

/** Begins so many a second, whatever became of the ones before. */
async function paced(count: number, one: (index: number) => Promise<number>): Promise<Paced> {
  const ms: number[] = []
  const statuses: number[] = []
  const started = performance.now()
  const running: Promise<void>[] = []
  for (let index = 0; index < count; index += 1) {
    const due = started + (index * 1000) / PER_SECOND
    const early = due - performance.now()
    if (early > 1) await new Promise((resolve) => setTimeout(resolve, early))
    const begun = performance.now()
    running.push(
      one(index).then((status) => {
        ms.push(performance.now() - begun)
        statuses.push(status)
      }),
    )
  }
  await Promise.all(running)
  return { ms, statuses }
}

async function settled(database: Database): Promise<void> {
  for (let looked = 0; looked < 600; looked += 1) {
    const { rows } = await database.query(unnamed('SELECT 1 FROM agent.provider_jobs WHERE usage_id IS NULL LIMIT 1'))
    if (rows.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

async function report(
  database: Database,
  { floor, sent }: { readonly floor: number[]; readonly sent: Paced },
): Promise<void> {
  const { rows } = await database.query<{ completed: number; charged: number; claims: number }>(
    unnamed(`SELECT count(*) FILTER (WHERE state = 'completed')::integer AS completed, count(usage_id)::integer AS charged,
      (SELECT count(*)::integer FROM agent.idempotency_keys WHERE scope = 'webhook.fullenrich') AS claims FROM agent.provider_jobs`),
  )
  const count = (from: number, to: number): number =>
    sent.statuses.filter((status) => status >= from && status < to).length
  console.log(`${total} deliveries at ${PER_SECOND} a second, ${REPEATED * 100} % of them sent twice, 25 contacts each`)
  console.log(`answers        200: ${count(200, 201)}, 4xx: ${count(400, 500)}, 5xx: ${count(500, 600)}`)
  console.log(
    `jobs           completed: ${rows[0]?.completed} of ${total + WARM_UP}, claims: ${rows[0]?.claims}, charged: ${rows[0]?.charged}`,
  )
  for (const [name, share] of [
    ['p50', 0.5],
    ['p99', 0.99],
    ['max', 1],
  ] as const)
    console.log(
      `${name.padEnd(14)} ${at(sent.ms, share).toFixed(1)} ms, a bare insert ${at(floor, share).toFixed(1)} ms: ratio ${(at(sent.ms, share) / at(floor, share)).toFixed(1)}`,
    )
  const lost = total + WARM_UP - (rows[0]?.completed ?? 0)
  if (lost > 0 || count(500, 600) > 0 || count(400, 500) > 0 || at(sent.ms, 1) > 3_000) process.exitCode = 1
}

function at(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
