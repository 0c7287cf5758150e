import { readFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { manualEngine, type ManualEngine } from 'bailiff/testing'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { readOutbox } from '../../simulators/smtp-server.ts'
import { createCore, type Core } from '../../src/core.ts'
import { createRuntime, type Runtime } from '../../src/runtime.ts'
import { createApp } from '../../src/server/app.ts'
import { appServices } from '../../src/server/app-services.ts'
import type { AppParts } from '../../src/server/config.ts'
import { checkRules, CONFIG_ACTOR, deployOrganization, deployParts } from '../../src/server/deployment.ts'
import { listen, type Listening } from '../../src/server/listen.ts'
import { readSettings } from '../../src/server/settings.ts'
import { vendorReach } from '../../src/server/vendor-reach.ts'
import { identityStore } from '../../src/storage/identity-store.ts'
import type { Actor, RunCeilings } from '../../src/tools/invocation.ts'
import { empty, type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import config from './bailiff.config.ts'

const ADA: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000a', name: 'Ada' }
const DECIDER = { actor: ADA, roles: ['owner'] }

let db: TestDatabase
let dataDir: string
let parts: AppParts
let core: Core
let runtime: Runtime
let engine: ManualEngine
let organizationId: string
let server: Listening
let callbacks: Callbacks
/** Milliseconds that have passed beyond those of the machine. */
let ahead = 0

/** The vendor's callbacks come by themselves, and are let in when a test says so. */
interface Callbacks {
  /** Of those that were answered. */
  readonly statuses: readonly number[]
  /** Lets in what comes, and answers when the first one is through. */
  letIn(): Promise<void>
  /** Sends the first one once more, byte for byte. */
  again(): Promise<number>
}

interface Delivery {
  readonly url: string
  readonly headers: Headers
  readonly body: ArrayBuffer
}

/** The server that a vendor calls back, listening before there is an app: its address goes into the config. */
async function openServer() {
  let serving: Fetching | null = null
  const open = Promise.withResolvers<void>()
  const through = Promise.withResolvers<void>()
  const statuses: number[] = []
  const deliveries: Delivery[] = []
  const listening = await listen({
    host: '127.0.0.1',
    port: 0,
    async fetch(request, env) {
      const { url, headers } = request
      deliveries.push({ url, headers, body: await request.clone().arrayBuffer() })
      await open.promise
      const response = serving === null ? new Response(null, { status: 503 }) : await serving.fetch(request, env)
      statuses.push(response.status)
      through.resolve()
      return response
    },
  })
  const gate: Callbacks = {
    statuses,
    letIn() {
      open.resolve()
      return through.promise
    },
    async again() {
      const [first] = deliveries
      if (first === undefined) throw new Error('nobody called back')
      const headers = { 'x-signature-sha1': first.headers.get('x-signature-sha1') ?? '' }
      return (await fetch(first.url, { method: 'POST', headers, body: first.body })).status
    },
  }
  return { listening, gate, serve: (app: Fetching) => void (serving = app) }
}

type Fetching = Pick<ReturnType<typeof createApp>, 'fetch'>

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  ahead = 0
  dataDir = await mkdtemp(join(tmpdir(), 'bailiff-signals-'))
  const { listening, gate, serve } = await openServer()
  server = listening
  callbacks = gate
  const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
  const { url } = server
  parts = await config.setup(appServices({ database: db.database, dataDir, logger, settings: readSettings({}), url }))
  const now = (): Date => new Date(Date.now() + ahead)
  const { tools, facts = [], jobProviders = [] } = parts
  core = await createCore({ database: db.database, tools, facts, jobProviders, now })
  organizationId = (await deployOrganization(core, parts.organization)).id
  engine = manualEngine({ now })
  runtime = createRuntime(core, { frameworks: [], engine, defaultModel: 'scripted/none' })
  await runtime.start()
  await deployParts(core, runtime, { organizationId, parts })
  serve(
    createApp({
      core,
      runs: runtime.runs,
      lanes: runtime.lanes,
      identities: identityStore(db.database),
      closing: new AbortController().signal,
      about: { model: 'scripted/none', scripted: true, database: db.database.dialect },
      hosting: { loopback: true, trustProxy: false, publicUrl: url, cookieName: 'session' },
    }),
  )
})
afterEach(async () => {
  await parts.close?.()
  await server.close(0)
  await rm(dataDir, { recursive: true })
})

/** Starts a run, which goes on until it waits for the enrichment. */
async function searching(ceilings: Partial<RunCeilings> = {}): Promise<string> {
  const input = JSON.parse(await readFile(new URL('./companies.json', import.meta.url), 'utf8'))
  const request = { organizationId, definition: 'signals-search', input, startedBy: ADA, source: 'demo' } as const
  const { id } = await runtime.runs.start({ ...request, ceilings })
  await engine.settle()
  return id
}

/** The same, until the vendor has called back and the mails wait for their answers. */
async function asking(): Promise<string> {
  const id = await searching()
  await callbacks.letIn()
  await engine.settle()
  return id
}

const run = (id: string) => runtime.runs.get(organizationId, id)
const waiting = async (runId: string) => (await core.approvals.list(organizationId, { runId, state: 'pending' })).items

async function rows<Row>(text: string): Promise<readonly Row[]> {
  return (await db.database.query<Row>({ name: '', text })).rows
}

const paid = () =>
  rows<{ item: string; n: number }>(
    `SELECT provider || ' ' || item AS item, count(*)::int AS n FROM public.ai_usage_log WHERE kind = 'tool' GROUP BY 1 ORDER BY 1`,
  )

interface JobRow {
  readonly id: string
  readonly state: string
  readonly span: string
  readonly usage: string | null
  readonly contacts: number
}

const jobsOf = (runId: string) =>
  rows<JobRow>(
    `SELECT id, state, tool_call_id AS span, usage_id AS usage, json_array_length(contact_refs::json) AS contacts
     FROM agent.provider_jobs WHERE root_run_id = '${runId}'`,
  )

const enrichmentCost = () =>
  rows<{ id: string; run: string; root: string; credits: number }>(
    `SELECT id, run_id AS run, root_run_id AS root, (quantity->>'credits')::int AS credits
     FROM public.ai_usage_log WHERE provider = 'fullenrich'`,
  )

async function approveAll(runId: string): Promise<void> {
  for (const { id: approvalId, argumentsHash } of await waiting(runId)) {
    const answer = { organizationId, approvalId, argumentsHash, decider: DECIDER, note: null }
    expect((await core.approvals.approve(answer)).kind).toBe('answered')
  }
  await engine.settle()
}

/** Lets time pass, and wakes what is due then. */
async function pass(seconds: number): Promise<void> {
  ahead += seconds * 1000
  await db.database.execute(`UPDATE agent.runs SET wake_at = wake_at - interval '${seconds} seconds'`)
  await engine.sweep()
  await engine.settle()
}

/** Whom the first vendor has no confirmed address of. */
const CALLED_BACK = [
  'ines.exemple@rail.example',
  'noor.doe@freight.example',
  'robin.sample@freight.example',
  'tomas.sample@rail.example',
]

const addressed = async () =>
  (await readOutbox(join(dataDir, 'outbox'))).flatMap(({ deliveredTo }) => deliveredTo).toSorted()

test('companies are searched and pruned, the addresses that are missing are called back, and every mail waits for its own answer', async () => {
  const id = await searching()
  expect(await run(id)).toMatchObject({ status: 'parked', kind: 'workflow', lane: 'batch' })
  // Three companies searched, one of them pruned; three people at each of the two, and an address asked for each.
  const searched = [
    { item: 'exa search', n: 2 },
    { item: 'hunter email-finder', n: 6 },
    { item: 'parallel search.basic', n: 3 },
  ]
  expect(await paid()).toEqual(searched)
  // Two of the six are confirmed; nobody is written to before the other four have been looked for.
  expect(await waiting(id)).toEqual([])
  expect(await jobsOf(id)).toMatchObject([{ state: 'submitted', usage: null, contacts: 4 }])

  await callbacks.letIn()
  expect(callbacks.statuses).toEqual([200])
  await engine.settle()
  expect(await waiting(id)).toHaveLength(6)
  await approveAll(id)
  expect(await run(id)).toMatchObject({
    status: 'completed',
    output: { companies: 3, kept: 2, list: expect.any(String), enriched: 4, withoutAddress: 0 },
  })

  const to = await addressed()
  expect(to).toHaveLength(6)
  expect(to).toEqual(expect.arrayContaining(CALLED_BACK))
  const [cost, ...others] = await enrichmentCost()
  expect(others).toEqual([])
  expect(cost).toMatchObject({ run: id, root: id, credits: 4 })
  expect((await paid()).toSorted((a, b) => a.item.localeCompare(b.item))).toEqual([
    searched[0],
    { item: 'fullenrich work-email', n: 1 },
    ...searched.slice(1),
  ])
  const [kept] = await rows(`SELECT (SELECT count(*)::int FROM public.people) AS people,
    (SELECT count(*)::int FROM public.list_members) AS members, (SELECT count(*)::int FROM public.companies) AS companies`)
  expect(kept).toEqual({ people: 6, members: 6, companies: 2 })
})

test('T07 R49 a run that is cancelled while the batch is out is charged for it once, in its tree', async () => {
  const id = await searching()
  await runtime.runs.cancel({ organizationId, runId: id, by: ADA, reason: 'enough' })
  await engine.settle()
  expect(await run(id)).toMatchObject({ status: 'cancelled' })
  expect(await enrichmentCost()).toEqual([])

  await callbacks.letIn()
  await engine.settle()
  expect(await callbacks.again()).toBe(200)
  await engine.settle()
  expect(callbacks.statuses).toEqual([200, 200])
  const [cost, ...others] = await enrichmentCost()
  expect(others).toEqual([])
  expect(cost).toMatchObject({ run: id, root: id, credits: 4 })
  expect(await run(id)).toMatchObject({ status: 'cancelled' })
  expect(await waiting(id)).toEqual([])

  // The tree of the run shows the call that the job belongs to, with what it cost in the end.
  const [job] = await jobsOf(id)
  expect(job).toMatchObject({ state: 'completed', usage: cost?.id })
  await core.ledger.flush()
  const span = (await core.stores.spans.tree(organizationId, id)).find((one) => one.id === job?.span)
  expect(span).toMatchObject({ name: 'fullenrich.submit', attributes: { usageId: cost?.id } })
})

test('a batch that takes too long is gone on without, and paid for when it comes', async () => {
  const id = await searching()
  await pass(1_801)
  expect(await waiting(id)).toHaveLength(2)
  await approveAll(id)
  expect(await run(id)).toMatchObject({
    status: 'completed',
    output: { kept: 2, enriched: 0, withoutAddress: 4 },
  })
  const to = await addressed()
  expect(to).toHaveLength(2)
  expect(to.filter((address) => CALLED_BACK.includes(address))).toEqual([])
  await callbacks.letIn()
  await engine.settle()
  expect(await enrichmentCost()).toMatchObject([{ run: id, credits: 4 }])
  expect(await addressed()).toEqual(to)
})

test('an enrichment that is refused costs nothing, and those who are confirmed are written to without it', async () => {
  const refusal = { name: 'none', tools: ['fullenrich.submit'], when: null, effect: 'deny', mode: 'enforce' } as const
  const rules = checkRules(core, [...(parts.rules ?? []), refusal])
  await core.stores.rules.sync({ organizationId, by: CONFIG_ACTOR, rules })
  const id = await searching()
  expect(await waiting(id)).toHaveLength(2)
  await approveAll(id)
  expect(await run(id)).toMatchObject({ status: 'partial', reason: 'step_failed', output: { enriched: 0 } })
  expect(await addressed()).toHaveLength(2)
  expect(await jobsOf(id)).toEqual([])
})

test('a refused mail is left out, and the run says that it is not whole', async () => {
  const id = await asking()
  const questions = await waiting(id)
  for (const [index, { id: approvalId, argumentsHash }] of questions.entries()) {
    const answer = { organizationId, approvalId, argumentsHash, decider: DECIDER, note: null }
    await core.approvals[index === 0 ? 'reject' : 'approve'](answer)
  }
  await engine.settle()
  expect(await run(id)).toMatchObject({ status: 'partial', reason: 'step_failed', output: { kept: 2 } })
  expect(await readOutbox(join(dataDir, 'outbox'))).toHaveLength(questions.length - 1)
})

test('a cost ceiling ends the run partial, with what it has', async () => {
  const id = await searching({ maxCostCents: 2 })
  expect(await run(id)).toMatchObject({
    status: 'partial',
    reason: expect.stringMatching(/^(max_cost|budget_exhausted)$/),
    output: { companies: 3, list: expect.any(String) },
  })
  const [spent] = await rows<{ cents: number; calls: number }>(
    'SELECT sum(cost_cents)::float8 AS cents, count(*)::int AS calls FROM public.ai_usage_log',
  )
  expect(spent?.cents).toBeGreaterThanOrEqual(2)
  expect(spent?.calls).toBeLessThan(11)
  expect(await waiting(id)).toEqual([])
  expect(await readOutbox(join(dataDir, 'outbox'))).toEqual([])
})

test('what it can ask of each vendor at the same time fits the accounts', () => {
  const reach = vendorReach(parts, 1).map(({ vendor, calls, verdict }) => [vendor, calls, verdict])
  expect(reach).toEqual([
    ['exa', 16, 'fits'],
    ['firecrawl', 0, 'fits'],
    ['fullenrich', 4, 'fits'],
    ['hunter', 48, 'fits'],
    ['parallel', 20, 'fits'],
  ])
})
