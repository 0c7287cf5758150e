import { createHash, createHmac } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import type { SendCallback, SignedCallback } from './fullenrich.ts'
import { startVendorServer, type VendorAnswer, type VendorRequest, type VendorServer } from './vendor-server.ts'

export interface ParallelTaskSettings {
  /** 0 takes a free port. */
  readonly port?: number
  /** Keys that are accepted; any unless given. */
  readonly keys?: readonly string[]
  /** Text that signs callbacks, taken as it is. */
  readonly secret?: string
  /** When a run calls back by itself; never unless given. */
  readonly callsBack?: 'before_answer' | { readonly afterMs: number } | 'never'
  /** How a callback is sent; over HTTP unless given. */
  readonly send?: SendCallback
  /** What a run finds; made up from the names of its fields unless given. */
  readonly output?: (run: ParallelTaskRun) => unknown
  readonly now?: () => Date
}

export interface ParallelTaskRun {
  readonly id: string
  readonly input: string
  readonly processor: string
  readonly fields: readonly string[]
  readonly metadata: Readonly<Record<string, unknown>>
  readonly webhookUrl: string | null
}

/** What is different about one callback. */
export interface TaskCallbackTwist {
  readonly status?: string
  readonly secret?: string
  readonly deliveryId?: string
  readonly url?: string
  /** Seconds that the time of the delivery is off. */
  readonly offS?: number
  readonly metadata?: Readonly<Record<string, unknown>> | null
  readonly runId?: string
}

export interface ParallelTaskSimulator extends VendorServer {
  readonly runs: readonly ParallelTaskRun[]
  /** Times that a result was asked for. */
  results(): number
  callback(run: ParallelTaskRun, twist?: TaskCallbackTwist): SignedCallback
  /** Sends a callback and answers the status it met. */
  deliver(run: ParallelTaskRun, twist?: TaskCallbackTwist): Promise<number>
}

const PATH = '/v1/tasks/runs'

/** A delivery that is repeated has another time of its own, and the same body. */
const HAPPENED = '2026-05-04T10:02:00.000Z'

/** Stands in for Parallel's Task API on loopback: takes runs, calls back without their results, and answers those. */
export async function startParallelTaskSimulator(settings: ParallelTaskSettings = {}): Promise<ParallelTaskSimulator> {
  const { callsBack = 'never', send = overHttp, secret = 'secret-of-the-account', now = () => new Date() } = settings
  const runs: ParallelTaskRun[] = []
  let results = 0
  const closing = new AbortController()
  const callback = (run: ParallelTaskRun, twist: TaskCallbackTwist = {}): SignedCallback =>
    signedCallback(run, { secret, now: now(), twist })
  const deliver = async (run: ParallelTaskRun, twist: TaskCallbackTwist = {}): Promise<number> => {
    const url = twist.url ?? run.webhookUrl
    if (url === null) throw new Error('the run has no callback')
    return (await send(url, callback(run, twist))).status
  }
  const later = async (run: ParallelTaskRun, afterMs: number): Promise<void> => {
    await delay(afterMs, undefined, { signal: closing.signal, ref: false })
    await deliver(run)
  }
  const server = await startVendorServer({
    port: settings.port ?? 0,
    async behaviour(request) {
      const refused = refusal(request, settings.keys)
      if (refused !== null) return refused
      if (request.method === 'GET') {
        results += 1
        return resultOf(request, runs, settings.output ?? madeUp)
      }
      const run = runOf(request)
      if ('status' in run) return run
      runs.push(run)
      if (callsBack === 'before_answer') await deliver(run)
      else if (callsBack !== 'never') later(run, callsBack.afterMs).catch(() => undefined)
      return { status: 202, body: stateOf(run, 'queued') }
    },
  })
  return {
    ...server,
    runs,
    results: () => results,
    callback,
    deliver,
    reset() {
      runs.length = 0
      results = 0
      server.reset()
    },
    async close() {
      closing.abort()
      await server.close()
    },
  }
}

async function overHttp(url: string, { headers, body }: SignedCallback): Promise<{ readonly status: number }> {
  const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual' })
  await response.body?.cancel()
  return { status: response.status }
}

function refusal({ headers, path }: VendorRequest, keys: readonly string[] | undefined): VendorAnswer | null {
  if (!path.startsWith(PATH)) return problem(404, 'Not found')
  const key = headers['x-api-key']
  if (typeof key !== 'string' || key === '' || keys?.includes(key) === false) return problem(401, 'Invalid API key')
  return null
}

function problem(status: number, message: string): VendorAnswer {
  return { status, body: { type: 'error', error: { ref_id: `task_${hashOf(message).slice(0, 32)}`, message } } }
}

const Body = z.strictObject({
  input: z.union([z.string().min(1), z.record(z.string(), z.unknown())]),
  processor: z.string(),
  task_spec: z.object({
    output_schema: z.object({
      type: z.literal('json'),
      json_schema: z.object({ properties: z.record(z.string(), z.unknown()) }),
    }),
  }),
  // Names of at most 16 characters.
  metadata: z.record(z.string().max(16), z.union([z.string().max(512), z.number(), z.boolean()])).optional(),
  webhook: z
    .strictObject({ url: z.string().regex(/^https?:\/\//), event_types: z.array(z.literal('task_run.status')) })
    .optional(),
})

function runOf(request: VendorRequest): ParallelTaskRun | VendorAnswer {
  const { data } = Body.safeParse(request.body)
  if (data === undefined) return problem(422, 'Request validation error')
  // The address of a callback is only looked at with the header of the beta.
  const beta = request.headers['parallel-beta'] === 'webhook-2025-08-12'
  return {
    id: `trun_${hashOf(request.raw.toString('base64')).slice(0, 32)}`,
    input: typeof data.input === 'string' ? data.input : JSON.stringify(data.input),
    processor: data.processor,
    fields: Object.keys(data.task_spec.output_schema.json_schema.properties),
    metadata: data.metadata ?? {},
    webhookUrl: beta ? (data.webhook?.url ?? null) : null,
  }
}

function stateOf(run: ParallelTaskRun, status: string) {
  return {
    run_id: run.id,
    interaction_id: run.id,
    status,
    is_active: ['queued', 'running', 'cancelling'].includes(status),
    processor: run.processor,
    metadata: run.metadata,
    taskgroup_id: null,
    warnings: null,
    error: status === 'failed' ? { ref_id: 'r', message: 'the run failed' } : null,
    created_at: HAPPENED,
    modified_at: HAPPENED,
  }
}

function resultOf(
  { path }: VendorRequest,
  runs: readonly ParallelTaskRun[],
  output: (run: ParallelTaskRun) => unknown,
): VendorAnswer {
  const run = runs.find(({ id }) => path === `${PATH}/${id}/result`)
  if (run === undefined) return problem(404, 'Run not found')
  return { status: 200, body: { run: stateOf(run, 'completed'), output: output(run) } }
}

function madeUp({ fields, input }: ParallelTaskRun): unknown {
  return {
    type: 'json',
    content: Object.fromEntries(fields.map((name) => [name, `${name} of ${input.slice(0, 40)}`])),
    basis: fields.map((field) => ({
      field,
      reasoning: 'made up',
      citations: [{ url: `https://example.com/${field}`, title: field, excerpts: [] }],
      confidence: 'high',
    })),
  }
}

interface Signing {
  readonly secret: string
  readonly now: Date
  readonly twist: TaskCallbackTwist
}

function signedCallback(run: ParallelTaskRun, { secret, now, twist }: Signing): SignedCallback {
  const status = twist.status ?? 'completed'
  const state = stateOf(run, status)
  const data = {
    ...state,
    run_id: twist.runId ?? run.id,
    metadata: twist.metadata === undefined ? run.metadata : twist.metadata,
  }
  const body = new Uint8Array(
    Buffer.from(`${JSON.stringify({ type: 'task_run.status', timestamp: HAPPENED, data }, null, 1)}\n`),
  )
  const id = twist.deliveryId ?? `whevent_${hashOf(`${run.id}:${status}`).slice(0, 24)}`
  const timestamp = String(Math.floor(now.getTime() / 1000) + (twist.offS ?? 0))
  const mac = createHmac('sha256', twist.secret ?? secret)
    .update(`${id}.${timestamp}.`)
    .update(body)
    .digest('base64')
  return {
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      // A second signature, as while a secret is changed.
      'webhook-signature': `v1,${'A'.repeat(43)}= v1,${mac}`,
    },
    body,
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
