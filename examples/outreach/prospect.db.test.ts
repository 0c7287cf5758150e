import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { manualEngine, type ManualEngine } from 'bailiff/testing'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { readOutbox } from '../../simulators/smtp-server.ts'
import { createCore, type Core } from '../../src/core.ts'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import { createRuntime, type Runtime } from '../../src/runtime.ts'
import { appServices } from '../../src/server/app-services.ts'
import type { AppParts } from '../../src/server/config.ts'
import { deployOrganization, deployParts } from '../../src/server/deployment.ts'
import { readSettings } from '../../src/server/settings.ts'
import type { Actor } from '../../src/tools/invocation.ts'
import { empty, type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import config from './bailiff.config.ts'

const ADA: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000a', name: 'Ada' }

let db: TestDatabase
let dataDir: string
let parts: AppParts
let core: Core
let runtime: Runtime
let engine: ManualEngine
let organizationId: string

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  dataDir = await mkdtemp(join(tmpdir(), 'bailiff-prospect-'))
  const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
  parts = await config.setup(appServices({ database: db.database, dataDir, logger, settings: readSettings({}) }))
  core = await createCore({ database: db.database, tools: parts.tools, facts: parts.facts ?? [] })
  organizationId = (await deployOrganization(core, parts.organization)).id
  engine = manualEngine()
  const model = parts.models?.['scripted/outreach']
  if (model === undefined) throw new Error('the demo has no scripted model')
  runtime = createRuntime(core, {
    frameworks: [aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })],
    engine,
    defaultModel: 'scripted/outreach',
    maxFailures: 2,
  })
  await runtime.start()
  await deployParts(core, runtime, { organizationId, parts })
})
afterEach(async () => {
  await parts.close?.()
  await rm(dataDir, { recursive: true })
})

async function prospecting(): Promise<string> {
  const input = { domain: 'freight.example', company: 'Sample Freight', title: 'Head of Operations' }
  const { id } = await runtime.runs.start({
    organizationId,
    definition: 'prospect',
    input,
    startedBy: ADA,
    source: 'demo',
  })
  await engine.settle()
  return id
}

const run = (id: string) => runtime.runs.get(organizationId, id)
const waiting = async (runId: string) => (await core.approvals.list(organizationId, { runId, state: 'pending' })).items

async function rows<Row>(text: string): Promise<readonly Row[]> {
  return (await db.database.query<Row>({ name: '', text })).rows
}

test('people are found, paid for once each, recorded, and written to when a person agrees', async () => {
  const id = await prospecting()
  const questions = await waiting(id)
  expect(questions.map(({ tool }) => tool)).toEqual(questions.map(() => 'email.send'))
  expect(questions.length).toBeGreaterThan(0)
  for (const { id: approvalId, argumentsHash } of questions) {
    const decider = { actor: ADA, roles: ['owner'] }
    const answer = { organizationId, approvalId, argumentsHash, decider, note: null }
    expect((await core.approvals.approve(answer)).kind).toBe('answered')
  }
  await engine.settle()
  expect(await run(id)).toMatchObject({ status: 'completed', output: expect.stringContaining('written to.') })
  expect(await readOutbox(join(dataDir, 'outbox'))).toHaveLength(questions.length)

  const paid = await rows<{ item: string; n: number; free: boolean }>(
    `SELECT provider || ' ' || item AS item, count(*)::int AS n, bool_or(cost_cents = 0) AS free
     FROM public.ai_usage_log WHERE kind = 'tool' GROUP BY 1 ORDER BY 1`,
  )
  expect(paid).toEqual([
    { item: 'exa search', n: 1, free: false },
    { item: 'hunter company-enrichment', n: 1, free: false },
    { item: 'hunter email-finder', n: 3, free: false },
    { item: 'parallel search.basic', n: 1, free: false },
  ])
  const [kept] = await rows<{ people: number; members: number; companies: number; trusted: boolean }>(
    `SELECT (SELECT count(*)::int FROM public.people) AS people, (SELECT count(*)::int FROM public.list_members) AS members,
       (SELECT count(*)::int FROM public.companies) AS companies, (SELECT bool_or(trusted) FROM public.people) AS trusted`,
  )
  expect(kept).toEqual({ people: 3, members: 3, companies: 1, trusted: false })
})

test('who is known by now is written to without asking, and nobody is recorded twice', async () => {
  const first = await prospecting()
  for (const { id: approvalId, argumentsHash } of await waiting(first)) {
    const decider = { actor: ADA, roles: ['owner'] }
    await core.approvals.approve({ organizationId, approvalId, argumentsHash, decider, note: null })
  }
  await engine.settle()
  const second = await prospecting()
  expect(await run(second)).toMatchObject({ status: 'completed' })
  expect(await rows('SELECT id FROM public.people')).toHaveLength(3)
  expect(await rows('SELECT created_at FROM public.list_members')).toHaveLength(3)
})
