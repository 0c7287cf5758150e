/*
 * One web process that receives one callback, for tests that kill it. It takes its orders as JSON in argv, dies at the
 * named point or answers, and ends once the cost of the job is written down.
 */
import { createCore, type Instrument } from '../../src/core.ts'
import { embeddedEngine } from '../../src/engines/embedded/engine.ts'
import { createRuntime } from '../../src/runtime.ts'
import { createApp } from '../../src/server/app.ts'
import { identityStore } from '../../src/storage/identity-store.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { unnamed } from '../../src/storage/statement.ts'
import { withCrashPoints } from '../../src/testing/crash-points.ts'
import { PUBLIC_URL, providers } from '../provider-job-parts.ts'

export interface KillOrders {
  readonly url: string
  /** Null lets it live. */
  readonly point: string | null
  readonly delivery: {
    readonly url: string
    readonly headers: Readonly<Record<string, string>>
    readonly body: string
  }
}

const orders = JSON.parse(process.argv[2] ?? '') as KillOrders
const crashing = withCrashPoints((point) => {
  if (point !== orders.point) return
  process.kill(process.pid, 'SIGKILL')
  // Until the signal is there, nothing more may happen.
  for (;;);
})
const JOB_PORTS: ReadonlySet<string> = new Set(['provider_jobs', 'provider_events'])
const instrument: Instrument = (port, implementation) =>
  JOB_PORTS.has(port) ? crashing(port, implementation) : implementation

const database = await pgDatabase({ connectionString: orders.url })
const nowhere = 'http://127.0.0.1:9'
const parts = providers(database, { fullenrich: nowhere, parallel: nowhere })
const core = await createCore({
  database,
  tools: parts.tools,
  jobProviders: parts.providers.map((provider) => ({ ...provider, webhook: crashing('webhook', provider.webhook) })),
  instrument,
})
const runtime = createRuntime(core, {
  frameworks: [],
  engine: embeddedEngine({
    database: { dialect: 'postgres', connectionString: orders.url },
    logger: core.logger,
    sweepMs: 60_000,
  }),
  defaultModel: 'none/none',
})
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
const { url, headers, body } = orders.delivery
const answer = await app.request(url, { method: 'POST', headers, body: new Uint8Array(Buffer.from(body, 'base64')) })
process.stdout.write(`${JSON.stringify({ status: answer.status })}\n`)
for (;;) {
  const { rows } = await database.query(unnamed('SELECT 1 FROM agent.provider_jobs WHERE usage_id IS NULL'))
  if (rows.length === 0) break
  const { promise: tick, resolve } = Promise.withResolvers<void>()
  setTimeout(resolve, 50)
  await tick
}
await runtime.stop(5_000)
await database.close()
