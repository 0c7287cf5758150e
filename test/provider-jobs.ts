import { unnamed } from '../src/storage/statement.ts'
import type { Instrument } from '../src/core.ts'
import type { ProviderJobs } from '../src/provider-jobs/service.ts'
import { type App, createApp } from '../src/server/app.ts'
import { identityStore } from '../src/storage/identity-store.ts'
import type { Database } from '../src/storage/database.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import type { ErrorReporter } from '../src/tools/invoker.ts'
import type { JsonObject } from '../src/tools/json.ts'
import type { ToolResult } from '../src/tools/models.ts'
import {
  type FullEnrichSettings,
  type FullEnrichSimulator,
  type SendCallback,
  startFullEnrichSimulator,
} from '../simulators/fullenrich.ts'
import {
  type ParallelTaskSettings,
  type ParallelTaskSimulator,
  startParallelTaskSimulator,
} from '../simulators/parallel-task.ts'
import { FULLENRICH_KEY, PARALLEL_KEY, PARALLEL_SECRET, providers, PUBLIC_URL } from './provider-job-parts.ts'
import { inRun, world, type World, type WorldOptions } from './setup/world.ts'

export interface JobScene {
  readonly w: World
  readonly app: App
  readonly jobs: ProviderJobs
  readonly fullenrich: FullEnrichSimulator
  readonly parallel: ParallelTaskSimulator
  /** Faults that were reported to an operator. */
  readonly reports: readonly string[]
  call(invocation: ToolInvocation, toolName: string, args: JsonObject): Promise<ToolResult>
  close(): Promise<void>
}

export interface JobSceneOptions {
  readonly database: Database
  readonly fullenrich?: FullEnrichSettings
  readonly parallel?: ParallelTaskSettings
  readonly instrument?: Instrument
  readonly world?: Partial<WorldOptions>
}

/** Both vendors of jobs on loopback, a world whose tools use them, and the HTTP surface they call back to. */
export async function jobScene(options: JobSceneOptions): Promise<JobScene> {
  const reports: string[] = []
  const reporter: ErrorReporter = { report: (error) => void reports.push(String(error)) }
  let app: App | null = null
  const send: SendCallback = async (url, { headers, body }) => {
    if (app === null) throw new Error('there is nobody to call back yet')
    return app.request(url, { method: 'POST', headers, body })
  }
  const simulators = [
    await startFullEnrichSimulator({ keys: [FULLENRICH_KEY], send, ...options.fullenrich }),
    await startParallelTaskSimulator({ keys: [PARALLEL_KEY], secret: PARALLEL_SECRET, send, ...options.parallel }),
  ] as const
  const [fullenrich, parallel] = simulators
  const parts = providers(options.database, { fullenrich: fullenrich.url, parallel: parallel.url })
  const w = await world({
    database: options.database,
    extraTools: parts.tools,
    jobProviders: parts.providers,
    reporter,
    ...(options.instrument === undefined ? {} : { instrument: options.instrument }),
    ...options.world,
  })
  app = jobApp(w)
  return {
    w,
    app,
    fullenrich,
    parallel,
    reports,
    jobs: w.core.providerJobs,
    call: (invocation, toolName, args) =>
      inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName, args }, invocation)),
    async close() {
      for (const simulator of simulators) await simulator.close()
    },
  }
}

export function jobApp(w: World, trustProxy = false): App {
  return createApp({
    core: w.core,
    runs: w.runtime.runs,
    lanes: w.runtime.lanes,
    identities: identityStore(w.core.database),
    closing: new AbortController().signal,
    about: { model: 'scripted/test', scripted: true, database: w.core.database.dialect },
    hosting: { loopback: true, trustProxy, publicUrl: PUBLIC_URL, cookieName: 'session' },
  })
}

export const CONTACTS = [
  { ref: 'a', firstName: 'Sample', lastName: 'Person', domain: 'freight.test' },
  { ref: 'b', firstName: 'Nobody', lastName: 'Nobody', company: 'Sample Freight' },
]

export async function submit(
  scene: JobScene,
  invocation: ToolInvocation,
  contacts: readonly JsonObject[] = CONTACTS,
): Promise<string> {
  const result = await scene.call(invocation, 'fullenrich.submit', { contacts })
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return (result.data as { jobId: string }).jobId
}

export function collect(scene: JobScene, invocation: ToolInvocation, jobId: string): Promise<ToolResult> {
  return scene.call(invocation, 'fullenrich.collect', { jobId })
}

export async function usageRows(database: Database) {
  const { rows } = await database.query(
    unnamed(
      'SELECT id, run_id, root_run_id, span_id, provider, item, quantity, cost_cents FROM public.ai_usage_log WHERE kind = $1 ORDER BY created_at',
    ),
    ['tool'],
  )
  return rows
}

/** Every row of jobs as it is, to see that nothing changed. */
export async function jobRows(database: Database) {
  const { rows } = await database.query(
    unnamed(
      'SELECT id, state, provider_job_id, result, cost, usage_id, updated_at FROM agent.provider_jobs ORDER BY id',
    ),
  )
  return rows
}

export async function claimRows(database: Database) {
  const { rows } = await database.query(
    unnamed(
      `SELECT organization_id, scope, key, status FROM agent.idempotency_keys WHERE scope LIKE 'webhook.%' ORDER BY key`,
    ),
  )
  return rows
}

/** The first batch that arrived. */
export function firstBatch({ fullenrich }: JobScene) {
  const [batch] = fullenrich.batches
  if (batch === undefined) throw new Error('no batch arrived')
  return batch
}

export function dropsOf({ jobs }: JobScene): Record<string, number> {
  return Object.fromEntries(jobs.drops.list().map(({ provider, reason, count }) => [`${provider} ${reason}`, count]))
}
