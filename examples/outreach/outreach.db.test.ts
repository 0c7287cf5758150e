import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { scriptedModel, manualEngine, type ManualEngine } from 'bailiff/testing'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { crmTools, scopedPeople } from 'bailiff/handlers/crm'
import { emailTools, recipientIsNew } from 'bailiff/handlers/email'
import { type SmtpSimulator, startSmtpServer } from '../../simulators/smtp-server.ts'
import { syncRules } from '../../src/bailiff.ts'
import { type Core, createCore } from '../../src/core.ts'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import { createRuntime, type Runtime } from '../../src/runtime.ts'
import { scopedDb } from '../../src/storage/scoped-db.ts'
import type { Actor } from '../../src/tools/invocation.ts'
import { empty, type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { outreach } from './agent.ts'
import { readLeads } from './leads-file.ts'
import { outreachScript } from './script.ts'

const STARTER: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000a', name: 'Ada' }
const APPROVER: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000b', name: 'Ben' }

let db: TestDatabase
let mail: SmtpSimulator
let core: Core
let runtime: Runtime
let engine: ManualEngine
let organizationId: string

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
afterEach(async () => {
  await mail.close()
  await rm(mail.outboxDir, { recursive: true })
})
beforeEach(async () => {
  await empty(db.database)
  mail = await startSmtpServer({ outboxDir: await mkdtemp(join(tmpdir(), 'bailiff-outbox-')) })
  const people = scopedPeople((id) => scopedDb(db.database, id))
  core = await createCore({
    database: db.database,
    tools: [...crmTools({ people }), ...emailTools({ recipients: people })],
    facts: [recipientIsNew(people)],
    secrets: { read: async () => ({}) },
  })
  const organization = { id: core.newId(), slug: 'acme', name: 'Acme', settings: {} }
  organizationId = (await core.stores.organizations.ensure(organization)).id
  const settings = { host: mail.host, port: String(mail.port), security: 'none', from: 'team@bailiff.test' }
  await core.stores.connections.create({ organizationId, provider: 'email', label: 'outbox', settings })
  await syncRules(core, {
    organizationId,
    rules: [
      { name: 'new', tools: ['email.send'], when: 'recipient_is_new', effect: 'require_approval' },
      { name: 'known', tools: ['email.send'], when: '!recipient_is_new', effect: 'allow' },
    ],
    by: STARTER,
  })
  engine = manualEngine()
  const model = scriptedModel({ name: 'scripted/outreach', next: outreachScript })
  runtime = createRuntime(core, {
    frameworks: [aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })],
    engine,
    defaultModel: 'scripted/outreach',
    maxFailures: 2,
  })
  await runtime.start()
  await runtime.runs.publish(organizationId, outreach, STARTER)
})

async function start(): Promise<string> {
  const input = await readLeads(new URL('./leads.csv', import.meta.url))
  const run = await runtime.runs.start({
    organizationId,
    definition: 'outreach',
    input: { ...input },
    startedBy: STARTER,
    source: 'demo',
  })
  await engine.settle()
  return run.id
}

async function pending(runId: string) {
  return (await core.approvals.list(organizationId, { runId, state: 'pending' })).items
}

async function answer(runId: string, verdicts: Readonly<Record<string, 'approve' | 'reject'>>) {
  for (const { id, argumentsHash, preview } of await pending(runId)) {
    const verdict = Object.entries(verdicts).find(([address]) => preview?.includes(address))?.[1]
    if (verdict === undefined) continue
    await core.approvals[verdict]({
      organizationId,
      approvalId: id,
      argumentsHash,
      decider: { actor: APPROVER, roles: [] },
      note: null,
    })
  }
  await engine.settle()
}

describe('the outreach run', () => {
  test('parks with one question for every new recipient, and nothing has been sent', async () => {
    const runId = await start()
    expect((await core.stores.runs.get(organizationId, runId))?.status).toBe('parked')
    expect((await pending(runId)).map(({ preview }) => preview ?? '').toSorted()).toEqual([
      'Email "A question for Acme Bearings" to jo.weber@acme.test (a new recipient)',
      'Email "A question for Fjord Packaging, Ltd." to maja.lindqvist@fjord.example (a new recipient)',
      'Email "A question for Northwind Tools" to sam@northwind.example (a new recipient)',
    ])
    expect(mail.connections()).toBe(0)
  })

  test("sends what was approved, once, and the summary tells every lead's own story", async () => {
    const runId = await start()
    await answer(runId, { 'jo.weber': 'approve', sam: 'reject', maja: 'approve' })
    const run = await core.stores.runs.get(organizationId, runId)
    expect(run?.status).toBe('completed')
    expect((await mail.messages()).flatMap(({ deliveredTo }) => deliveredTo).toSorted()).toEqual([
      'jo.weber@acme.test',
      'maja.lindqvist@fjord.example',
    ])
    expect(run?.output).toContain('2 of 3 mails sent.')
    expect(run?.output).toMatch(/sam@northwind\.example>: not sent, a person rejected it/)
  })

  test('the same people are known to the next run, which asks nobody', async () => {
    const first = await start()
    await answer(first, { 'jo.weber': 'approve', sam: 'approve', maja: 'approve' })
    const second = await start()
    expect(await pending(second)).toEqual([])
    expect((await core.stores.runs.get(organizationId, second))?.output).toContain('3 of 3 mails sent.')
    expect(await mail.messages()).toHaveLength(6)
  })

  test('a mail whose answer was lost is not claimed as sent and not sent again', async () => {
    mail.inject({ dropAfterData: 'after_filing' })
    const runId = await start()
    await answer(runId, { 'jo.weber': 'approve', sam: 'reject', maja: 'reject' })
    const run = await core.stores.runs.get(organizationId, runId)
    expect(run?.output).toMatch(/jo\.weber@acme\.test>: not known to be sent/)
    expect(await mail.messages()).toHaveLength(1)
  })
})
