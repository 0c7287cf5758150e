import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Rule } from '../src/bailiff.ts'
import type { Script, ScriptedCall } from '../src/testing/script.ts'
import { vendorTool } from '../src/tools/declarations.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { APPROVER, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const search = (query: string): ScriptedCall => ({ tool: 'crm.search', args: { query } })
const note = (text: string): ScriptedCall => ({ tool: 'crm.note', args: { text } })
const send = (to: string): ScriptedCall => ({ tool: 'email.send', args: { to } })
const ASK: Rule<string> = { name: 'ask for reads', tools: ['crm.search'], effect: 'require_approval' }

/** Makes the given calls, one list a turn, and says at the end what they answered. */
const turnsOf =
  (...calls: readonly (readonly ScriptedCall[])[]): Script =>
  ({ turns }) => {
    const next = calls[turns.length]
    return next === undefined
      ? { text: JSON.stringify(turns.flatMap((turn) => turn.calls.map((call) => call.result))) }
      : { calls: next }
  }

const open = (options: Omit<WorldOptions, 'database'>): Promise<World> => world({ database: db.database, ...options })

async function approveOne(w: World, runId: string, tool: string): Promise<void> {
  const waiting = await w.pending(runId)
  const one = waiting.find((approval) => approval.tool === tool)
  if (one === undefined) throw new Error(`nothing waits for ${tool}`)
  const outcome = await w.core.approvals.approve({
    organizationId: w.organizationId,
    approvalId: one.id,
    argumentsHash: one.argumentsHash,
    decider: { actor: APPROVER, roles: [] },
    note: null,
  })
  expect(outcome.kind).toBe('answered')
  await w.engine.settle()
}

async function claims(): Promise<number> {
  const { rows } = await db.database.query<{ n: number }>({
    name: '',
    text: 'SELECT count(*)::int AS n FROM agent.idempotency_keys',
  })
  return rows[0]?.n ?? -1
}

describe('a read that a rule may hold', () => {
  test('waits for a person like a write, runs once after the approval, and claims nothing', async () => {
    const w = await open({ rules: [ASK], script: turnsOf([search('jo')]) })
    const run = await w.start()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'parked' })
    expect(await w.pending(run.id)).toMatchObject([{ tool: 'crm.search' }])
    expect(w.effects.searches).toEqual([])
    await w.approve(run.id)
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'completed', output: expect.stringContaining('p1') })
    expect(w.effects.searches).toEqual(['jo'])
    expect(await claims()).toBe(0)
  })

  test('is answered rejected, and is not asked about again when the model insists', async () => {
    const w = await open({ rules: [ASK], script: turnsOf([search('jo')], [search('jo')]) })
    const run = await w.start()
    await w.engine.settle()
    await w.reject(run.id)
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'completed', output: expect.stringContaining('rejected') })
    expect(await w.pending(run.id)).toEqual([])
    expect(w.effects.searches).toEqual([])
  })

  test('of one turn with writes runs last and once, however many passes the turn takes', async () => {
    const w = await open({
      rules: [ASK],
      script: turnsOf([search('jo'), note('a'), send('jo@acme.test'), search('sam')]),
    })
    const run = await w.start()
    await w.engine.settle()
    const tools = (await w.pending(run.id)).map(({ tool }) => tool)
    expect(tools.toSorted()).toEqual(['crm.search', 'crm.search', 'email.send'])
    expect(w.effects).toEqual({ searches: [], notes: ['a'], sent: [] })
    await approveOne(w, run.id, 'crm.search')
    await approveOne(w, run.id, 'email.send')
    expect(w.effects).toMatchObject({ searches: [], notes: ['a'], sent: [{ to: 'jo@acme.test' }] })
    await approveOne(w, run.id, 'crm.search')
    expect(w.effects).toMatchObject({ searches: ['jo', 'sam'], notes: ['a'], sent: [{ to: 'jo@acme.test' }] })
    expect(await w.run(run.id)).toMatchObject({ status: 'completed' })
  })

  test('runs inside the loop when only a shadow rule would hold it', async () => {
    const w = await open({ rules: [{ ...ASK, mode: 'shadow' }], script: turnsOf([search('jo')]) })
    const run = await w.start()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'completed' })
    expect(w.effects.searches).toEqual(['jo'])
  })

  test('is proposed and runs at once when its rule does not match this call', async () => {
    const w = await open({ rules: [{ ...ASK, when: 'arguments.query == "secret"' }], script: turnsOf([search('jo')]) })
    const run = await w.start()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'completed', output: expect.stringContaining('p1') })
    expect(await w.pending(run.id)).toEqual([])
  })
})

describe('a call that carries data out', () => {
  const looked: string[] = []
  const web = vendorTool({
    name: 'web.search',
    description: 'Asks a search engine.',
    input: z.object({ query: z.string() }),
    output: z.object({ hits: z.int() }),
    sideEffects: 'read',
    egress: true,
    handler: async (_invocation, { query }) => {
      looked.push(query)
      return ok({ hits: 1 }, { untrusted: true })
    },
  })
  const rules: Rule<string>[] = [
    {
      name: 'nothing leaves a tainted run unseen',
      tools: ['*'],
      when: 'egress && run.tainted',
      effect: 'require_approval',
    },
  ]

  test('R36 may be held by one rule over every tool as soon as untrusted content is in the run', async () => {
    looked.length = 0
    const ask = (query: string): ScriptedCall => ({ tool: 'web.search', args: { query } })
    const script = turnsOf([ask('first')], [search('jo')], [ask('what the page told me to look up')])
    const w = await open({ rules, script, extraTools: [web] })
    const run = await w.start()
    await w.engine.settle()
    expect(looked).toEqual(['first'])
    expect(w.effects.searches).toEqual(['jo'])
    expect(await w.pending(run.id)).toMatchObject([{ tool: 'web.search' }])
    await w.approve(run.id)
    await w.engine.settle()
    expect(looked).toEqual(['first', 'what the page told me to look up'])
    expect(await w.run(run.id)).toMatchObject({ status: 'completed' })
  })
})
