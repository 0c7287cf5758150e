import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Rule } from '../src/bailiff.ts'
import type { RuleReplay } from '../src/policy/replay.ts'
import type { RuleDraft } from '../src/policy/rule.ts'
import { internalTool, vendorTool } from '../src/tools/declarations.ts'
import type { FactResolver } from '../src/tools/handler.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import { ApprovalRequired } from '../src/tools/invoker.ts'
import type { JsonValue } from '../src/tools/json.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const RULES: readonly Rule<string>[] = [
  { name: 'new people', tools: ['email.send'], when: 'is_new', effect: 'require_approval' },
  { name: 'few notes', tools: ['crm.note', 'crm.secret'], effect: 'deny', limit: { count: 3, per: 'run' } },
  { name: 'ask late', tools: ['email.send'], effect: 'require_approval', limit: { count: 2, per: 'run' } },
  { name: 'careful', tools: ['crm.note'], when: 'run.tainted', effect: 'deny' },
]

/** People are new when their name starts with an n. */
const isNew: FactResolver = {
  name: 'is_new',
  type: 'bool',
  resolve: async ({ args }) => typeof args['to'] === 'string' && args['to'].startsWith('n'),
}

const secret = internalTool({
  name: 'crm.secret',
  description: 'Keep a secret.',
  input: z.object({ password: z.string(), kind: z.string() }),
  output: z.object({}),
  sideEffects: 'write',
  repeatable: false,
  handler: async () => ok({}),
})

const fetchPage = vendorTool({
  name: 'web.fetch',
  description: 'Fetch a page.',
  input: z.object({ url: z.string() }),
  output: z.object({ text: z.string() }),
  sideEffects: 'read',
  handler: async () => ok({ text: 'content' }),
})

const open = (options: Partial<WorldOptions> = {}): Promise<World> =>
  world({
    database: db.database,
    settings: { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } },
    rules: RULES,
    facts: [isNew],
    extraTools: [secret, fetchPage],
    ...options,
  })

/** Makes calls in a run of their own; whoever is asked about is approved or rejected, as their name ends. */
async function live(w: World, calls: readonly (readonly [tool: string, args: JsonValue])[]): Promise<ToolInvocation> {
  const invocation = await w.invocation()
  const call = ([toolName, args]: readonly [string, JsonValue], authorizedBy: readonly string[] = []) =>
    inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName, args }, invocation, { authorizedBy }))
  for (const proposed of calls) {
    try {
      await call(proposed)
    } catch (error) {
      if (!(error instanceof ApprovalRequired)) throw error
      if (JSON.stringify(proposed).includes('no"')) await w.reject(invocation.runId)
      else await w.approve(invocation.runId)
      await call(proposed, [error.approvalId])
    }
  }
  await w.core.ledger.flush()
  return invocation
}

const send = (to: string) => ['email.send', { to }] as const
const note = (text: string) => ['crm.note', { text }] as const
const keep = (kind: string) => ['crm.secret', { password: 'hunter2', kind }] as const
const FETCH = ['web.fetch', { url: 'one' }] as const

const DAY = [
  [send('ada'), send('nora'), send('nils no'), send('bo'), send('cy'), send('di no'), note('1')],
  [note('1'), keep('a'), note('1'), note('2'), note('3'), keep('b'), send('nora')],
  [note('1'), FETCH, note('2'), send('ada')],
]

function draft(changes: Partial<RuleDraft>): RuleDraft {
  return { name: 'draft', tools: ['*'], when: null, effect: 'deny', mode: 'enforce', ...changes }
}

async function replay(w: World, changes: Partial<RuleDraft>, more: { since?: Date; limit?: number } = {}) {
  const { organizationId } = w
  const result: RuleReplay = await w.core.replayRule({ organizationId, draft: draft(changes), ...more })
  if (result.kind === 'invalid') throw new Error(JSON.stringify(result.problems))
  return result
}

/** Every call, oldest first, as `tool: was -> would be`. */
async function told(w: World, changes: Partial<RuleDraft>): Promise<string[]> {
  const { calls } = await replay(w, changes)
  return calls.map((call) => `${call.tool}: ${call.decided.outcome} -> ${call.now.outcome}`).toReversed()
}

describe('past calls, replayed', () => {
  test('under the rules they met are decided as they were: facts, taints, limits, answers and all', async () => {
    const w = await open()
    for (const calls of DAY) await live(w, calls)
    await live(await open({ slug: 'rival', database: db.admin }), DAY[0]!)
    for (const rule of RULES) {
      const { calls, summary } = await replay(w, { ...rule, tools: rule.tools, when: rule.when ?? null })
      expect(calls.length).toBeGreaterThan(2)
      expect(summary).toEqual({ calls: calls.length, unchanged: calls.length, unknown: 0, changed: [] })
      expect(calls.map((call) => call.decided.rule)).toEqual(
        calls.map((call) => (call.now.outcome === 'unknown' ? '?' : call.now.rule)),
      )
    }
  })

  test('under another rule are decided otherwise, and nothing runs and nothing is asked', async () => {
    const w = await open()
    for (const calls of DAY) await live(w, calls)
    const before = [w.effects.sent.length, w.effects.notes.length]
    expect(await told(w, { tools: ['email.send'], when: 'arguments.to.contains("no")' })).toEqual([
      'email.send: allow -> allow',
      'email.send: require_approval -> deny',
      'email.send: require_approval -> deny',
      // Nora did not get through, so there was room for one more.
      'email.send: require_approval -> allow',
      'email.send: require_approval -> require_approval',
      'email.send: require_approval -> deny',
      'email.send: require_approval -> deny',
      'email.send: allow -> allow',
    ])
    expect([w.effects.sent.length, w.effects.notes.length]).toEqual(before)
    expect((await w.core.approvals.list(w.organizationId, { state: 'pending' })).items).toEqual([])
    expect(await w.core.stores.rules.list(w.organizationId)).toHaveLength(RULES.length)
  })

  test('are unknown where a credential was redacted and the rule reads what was left, and known where it does not', async () => {
    const w = await open()
    await live(w, [keep('a'), keep('b')])
    expect(await told(w, { tools: ['crm.secret'], when: 'arguments.kind == "a"' })).toEqual([
      'crm.secret: allow -> unknown',
      'crm.secret: allow -> unknown',
    ])
    expect(await told(w, { tools: ['crm.secret'], when: 'run.source == "library"' })).toEqual([
      'crm.secret: allow -> deny',
      'crm.secret: allow -> deny',
    ])
  })

  test('are unknown where nobody had asked for a fact', async () => {
    const w = await open()
    await w.core.stores.rules.remove({
      organizationId: w.organizationId,
      by: { kind: 'system', id: 't', name: 't' },
      name: 'new people',
    })
    await live(w, [send('ada')])
    const { calls } = await replay(w, { tools: ['email.send'], when: 'is_new' })
    expect(calls).toMatchObject([{ now: { outcome: 'unknown', why: 'the fact is_new was not recorded' } }])
  })

  test('have the defaults of their contract, which the model left out', async () => {
    const w = await open()
    await live(w, [send('ada')])
    expect(await told(w, { tools: ['email.send'], when: 'arguments.subject == "hello"' })).toEqual([
      'email.send: allow -> deny',
    ])
  })

  test('are the newest, since a time, newest first; one that went on after an answer is one call', async () => {
    const w = await open()
    await live(w, [send('ada'), send('nora'), send('bo')])
    const all = await replay(w, { tools: ['email.send'] })
    expect(all.calls).toHaveLength(3)
    expect(all.calls.map((call) => call.decidedAt.getTime())).toEqual(
      all.calls.map((call) => call.decidedAt.getTime()).toSorted((a, b) => b - a),
    )
    const { calls } = await replay(w, { tools: ['email.send'] }, { limit: 2 })
    expect(calls.map((call) => call.spanId)).toEqual(all.calls.slice(0, 2).map((call) => call.spanId))
    const since = all.calls[0]!.decidedAt
    expect((await replay(w, { tools: ['email.send'] }, { since })).calls.length).toBeLessThan(3)
    expect((await replay(w, { tools: ['email.send'] }, { since: new Date(since.getTime() + 1000) })).calls).toEqual([])
  })

  test('do not count a question about what became of a call', async () => {
    const w = await open()
    const invocation = await live(w, [send('ada')])
    await db.database.execute(
      "UPDATE agent.idempotency_keys SET status = 'processing', response = NULL, lease_until = now() - interval '1 second'",
    )
    const again = inRun(w.core, invocation, () =>
      w.core.invoker.invoke({ toolName: 'email.send', args: { to: 'ada' } }, invocation),
    )
    await expect(again).rejects.toBeInstanceOf(ApprovalRequired)
    expect(await told(w, { tools: ['email.send'] })).toEqual(['email.send: allow -> deny'])
  })

  test('of another organization are not seen', async () => {
    const w = await open()
    await live(await open({ slug: 'rival', database: db.admin }), [send('ada')])
    expect((await replay(w, { tools: ['email.send'] })).summary.calls).toBe(0)
  })
})
