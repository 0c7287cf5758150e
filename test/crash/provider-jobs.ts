import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { startFullEnrichSimulator } from '../../simulators/fullenrich.ts'
import { createCore } from '../../src/core.ts'
import { DEFAULT_CEILINGS } from '../../src/runs/definition.ts'
import { createRuntime } from '../../src/runtime.ts'
import { submitJob } from '../../src/provider-jobs/submit.ts'
import type { Database } from '../../src/storage/database.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { providerJobStore } from '../../src/storage/provider-job-store.ts'
import { unnamed } from '../../src/storage/statement.ts'
import { TEMPLATE } from '../setup/provided.ts'
import { FULLENRICH_KEY, PUBLIC_URL } from '../provider-job-parts.ts'
import type { KillOrders } from './provider-job-worker.ts'

const WORKER = fileURLToPath(new URL('./provider-job-worker.ts', import.meta.url))

/** Every place where a kill can differ from another, in the order in which a delivery passes them, and its step. */
export const KILL_POINTS = [
  ['1 to 3', 'webhook.verify:before'],
  ['4', 'provider_jobs.find:before'],
  ['4', 'provider_jobs.find:after'],
  ['6', 'provider_jobs.keepResult:before'],
  ['6', 'provider_jobs.keepResult:after'],
  ['6', 'provider_jobs.advance:before'],
  ['6', 'provider_jobs.advance:after'],
  ['8', 'provider_jobs.claim:before'],
  ['8', 'provider_jobs.claim:after'],
  ['9', 'provider_events.completed:before'],
  ['9', 'provider_events.completed:after'],
  ['9', 'provider_jobs.finish:before'],
  ['10', 'provider_jobs.finish:after'],
  ['10', 'provider_events.wake:before'],
  ['10', 'provider_events.wake:after'],
  ['settle', 'provider_jobs.charge:before'],
  ['settle', 'provider_jobs.charge:after'],
  ['settle', 'provider_jobs.stamp:before'],
  ['settle', 'provider_jobs.stamp:after'],
] as const

export interface KillResult {
  readonly killed: boolean
  /** As the killed process left it. */
  readonly left: Left
  /** What the delivery was answered that came after it. */
  readonly status: number
  readonly after: Left
  /** Moves of the job from one state to another. */
  readonly transitions: number
}

interface Left {
  readonly state: string
  readonly results: number
  readonly claims: number
  readonly usageRows: number
  readonly stamped: boolean
}

/** Kills a web process at a point of one delivery, delivers again to another, and looks at what became of the job. */
export async function killAt(serverUrl: string, point: string): Promise<KillResult> {
  const name = `kill_${randomBytes(8).toString('hex')}`
  await administer(serverUrl, `CREATE DATABASE ${name} TEMPLATE ${TEMPLATE}`)
  const url = `${serverUrl}${name}`
  const database = await pgDatabase({ connectionString: url })
  try {
    const delivery = await reserved(database)
    const first = await receive({ url, point, delivery })
    const left = await leftBehind(database)
    const second = await receive({ url, point: null, delivery })
    const { rows } = await database.query<{ count: number }>(
      unnamed('SELECT count(*)::integer AS count FROM public.moves'),
    )
    const after = await leftBehind(database)
    const killed = first.signal === 'SIGKILL'
    return { killed, left, status: second.status, after, transitions: rows[0]?.count ?? -1 }
  } finally {
    await database.close()
    await administer(serverUrl, `DROP DATABASE ${name} WITH (FORCE)`)
  }
}

/** A job whose request was answered, and the callback that ends it, large enough to be kept apart. */
async function reserved(database: Database): Promise<KillOrders['delivery']> {
  const core = await createCore({ database, tools: [] })
  const organization = await core.stores.organizations.ensure({ id: core.newId(), slug: 'kill', name: 'Kill' })
  const { runs } = createRuntime(core, { frameworks: [], defaultModel: 'none/none' })
  const by = { kind: 'system', id: 'test', name: 'test' } as const
  const definition = { slug: 'mailer', instructions: 'x', tools: [], model: null, ceilings: DEFAULT_CEILINGS }
  await runs.publish(organization.id, definition, by)
  const run = { organizationId: organization.id, definition: 'mailer', input: 'go', startedBy: by } as const
  const { id: runId } = await runs.start({ ...run, source: 'library' })
  const id = '0192f0c1-0000-8000-8000-000000000001'
  const job = { id, organizationId: organization.id, rootRunId: runId, runId, toolCallId: runId }
  const webhookUrl = `${PUBLIC_URL}/api/v1/agentic/webhooks/fullenrich/${id}`
  const batch = { id: 'batch-1', name: `agentic:${id}`, webhookUrl, contacts: [], key: FULLENRICH_KEY }
  const posted = { kind: 'accepted', providerJobId: batch.id } as const
  await submitJob(
    providerJobStore(database),
    { ...job, provider: 'fullenrich', contactRefs: ['a'] },
    async () => posted,
  )
  await database.execute(`CREATE TABLE public.moves (state text);
    CREATE FUNCTION public.note_move() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN INSERT INTO public.moves VALUES (NEW.state); RETURN NEW; END $$;
    CREATE TRIGGER note_move AFTER UPDATE ON agent.provider_jobs FOR EACH ROW
      WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION public.note_move()`)
  const simulator = await startFullEnrichSimulator()
  try {
    const large = (body: object) => ({ ...body, cost: { credits: 1 }, filler: 'x'.repeat(64 * 1024) })
    const { headers, body } = simulator.callback(batch, { body: large })
    return { url: webhookUrl, headers, body: Buffer.from(body).toString('base64') }
  } finally {
    await simulator.close()
  }
}

async function receive(orders: KillOrders): Promise<{ readonly signal: string | null; readonly status: number }> {
  const child = spawn(process.execPath, [WORKER, JSON.stringify(orders)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = child.stdout.setEncoding('utf8').toArray() as Promise<string[]>
  const { promise, resolve } = Promise.withResolvers<string | null>()
  child.once('close', (_code, signal) => resolve(signal))
  const signal = await promise
  const [line] = (await lines).join('').split('\n').filter(Boolean)
  return { signal, status: line === undefined ? 0 : (JSON.parse(line) as { status: number }).status }
}

async function leftBehind(database: Database): Promise<Left> {
  const { rows } = await database.query<Left>(
    unnamed(`SELECT j.state, j.usage_id IS NOT NULL AS stamped,
      (SELECT count(*)::integer FROM agent.provider_job_results) AS results,
      (SELECT count(*)::integer FROM agent.idempotency_keys WHERE scope LIKE 'webhook.%') AS claims,
      (SELECT count(*)::integer FROM public.ai_usage_log WHERE kind = 'tool') AS "usageRows"
      FROM agent.provider_jobs j`),
  )
  const [row] = rows
  if (row === undefined) throw new Error('the job is gone')
  return row
}

async function administer(serverUrl: string, sql: string): Promise<void> {
  const admin = new Client({ connectionString: `${serverUrl}postgres` })
  await admin.connect()
  try {
    await admin.query(sql)
  } finally {
    await admin.end()
  }
}
