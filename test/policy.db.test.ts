import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Rule } from '../src/bailiff.ts'
import type { ValidRule } from '../src/policy/rule.ts'
import type { Script, ScriptedCall } from '../src/testing/script.ts'
import type { FactResolver } from '../src/tools/handler.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import { ApprovalRequired } from '../src/tools/invoker.ts'
import type { JsonValue } from '../src/tools/json.ts'
import { counting } from './setup/counting.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, world, type Effects, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const ALLOW_ALL = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const
const BY = { kind: 'system', id: 'test', name: 'test' } as const

const open = (options: Partial<WorldOptions> = {}): Promise<World> =>
  world({ database: db.database, settings: ALLOW_ALL, ...options })

const call = (w: World, invocation: ToolInvocation, [toolName, args]: readonly [string, JsonValue]) =>
  inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName, args }, invocation))

const note = (text: string) => ['crm.note', { text }] as const
const send = (to: string) => ['email.send', { to }] as const
const search = (query: string) => ['crm.search', { query }] as const

const proposing =
  (...calls: readonly ScriptedCall[]): Script =>
  ({ turns }) =>
    turns.length === 0 ? { calls } : { text: 'done' }

function rule(changes: Partial<ValidRule>): ValidRule {
  return {
    name: 'no mail',
    tools: ['email.send'],
    when: null,
    effect: 'deny',
    mode: 'enforce',
    approvers: [],
    ttlS: null,
    limit: null,
    ...changes,
  }
}

const save = (w: World, changes: Partial<ValidRule> = {}): Promise<void> =>
  w.core.stores.rules.save({ organizationId: w.organizationId, by: BY, id: w.core.newId(), rule: rule(changes) })

/** What the decision rows of a run say. */
async function decisions(runId: string) {
  const { rows } = await db.database.query<{
    tool: string
    outcome: string
    rule_name: string | null
    shadow: JsonValue
  }>(
    {
      name: '',
      text: 'SELECT tool, outcome, rule_name, shadow FROM agent.policy_decisions WHERE run_id = $1::uuid ORDER BY tool, decided_at',
    },
    [runId],
  )
  return rows
}

describe('a rule in shadow', () => {
  const RULES: readonly Rule<string>[] = [
    { name: 'would deny', tools: ['crm.*'], effect: 'deny', mode: 'shadow' },
    { name: 'would ask', tools: ['*'], when: 'size(tool) > 0', effect: 'require_approval', mode: 'shadow' },
    { name: 'other people', tools: ['email.send'], when: 'arguments.to != "jo"', effect: 'deny', mode: 'shadow' },
  ]

  test('is recorded with every decision it would have changed, and changes none', async () => {
    const calls = [
      { tool: 'crm.search', args: { query: 'jo' } },
      { tool: 'crm.note', args: { text: 'hi' } },
      { tool: 'email.send', args: { to: 'jo' } },
    ]
    const w = await open({ rules: RULES, script: proposing(...calls) })
    const run = await w.start()
    await w.engine.settle()
    expect((await w.run(run.id)).status).toBe('completed')
    expect(w.effects).toMatchObject({ searches: ['jo'], notes: ['hi'], sent: [{ to: 'jo' }] })
    const would = (name: string, effect: string) => ({ ruleName: `would ${name}`, effect })
    const both = [would('ask', 'require_approval'), would('deny', 'deny')]
    expect(await decisions(run.id)).toEqual([
      { tool: 'crm.note', outcome: 'allow', rule_name: null, shadow: both },
      { tool: 'crm.search', outcome: 'allow', rule_name: null, shadow: both },
      { tool: 'email.send', outcome: 'allow', rule_name: null, shadow: [would('ask', 'require_approval')] },
    ])
    // And where a person looks.
    const tree = await w.core.stores.spans.tree(w.organizationId, run.id)
    expect(tree.find((span) => span.name === 'crm.note')?.decision).toMatchObject({ outcome: 'allow', shadow: both })
  })

  test('is recorded beside the rule that did decide, and does not outweigh it', async () => {
    const w = await open({
      rules: [...RULES, { name: 'ask', tools: ['email.send'], effect: 'require_approval' }],
    })
    const invocation = await w.invocation()
    await expect(call(w, invocation, send('sam'))).rejects.toBeInstanceOf(ApprovalRequired)
    expect(await decisions(invocation.runId)).toMatchObject([
      {
        outcome: 'require_approval',
        rule_name: 'ask',
        shadow: [{ ruleName: 'other people' }, { ruleName: 'would ask' }],
      },
    ])
  })

  test('that can no longer be read is left out', async () => {
    const w = await open({ rules: RULES })
    await db.database.execute(`UPDATE agent.policy_rules SET condition = 'no ==' WHERE name = 'would ask'`)
    const invocation = await w.invocation()
    expect((await call(w, invocation, note('hi'))).ok).toBe(true)
    expect(await decisions(invocation.runId)).toMatchObject([{ shadow: [{ ruleName: 'would deny' }] }])
  })
})

describe('a wildcard', () => {
  test('restricts every tool it names, whatever else allows them', async () => {
    const w = await open({
      rules: [
        { name: 'mail is fine', tools: ['email.send'], effect: 'allow' },
        { name: 'nothing today', tools: ['*'], effect: 'deny' },
      ],
    })
    const invocation = await w.invocation()
    for (const proposed of [note('hi'), send('jo'), search('jo')])
      expect((await call(w, invocation, proposed)).error?.code).toBe('denied')
    expect(w.effects).toEqual({ sent: [], notes: [], searches: [] })
  })

  const allowing: Rule<string> = { name: 'all mail', tools: ['email.*'], effect: 'allow' }

  test('that allows is not saved', async () => {
    await expect(open({ rules: [allowing] })).rejects.toThrow('never allow')
  })

  test('that allows and got in anyway lets nothing through', async () => {
    const w = await open({ settings: {} })
    await save(w, { ...allowing })
    const result = await call(w, await w.invocation(), send('jo'))
    expect(result).toMatchObject({ error: { code: 'internal_error' }, stop: 'fault' })
    expect(w.effects.sent).toEqual([])
  })
})

describe('the defaults of an organization', () => {
  test('apply from the next decision on, in every process', async () => {
    const effects: Effects = { sent: [], notes: [], searches: [] }
    const a = await open({ settings: {}, effects })
    const b = await open({ settings: {}, effects, database: await db.another() })
    const invocation = await a.invocation()
    const codes = async (n: number) => {
      const proposed = [note(`n${n}`), search(`q${n}`)]
      return Promise.all(proposed.map(async (one) => (await call(b, invocation, one)).error?.code ?? 'ok'))
    }
    expect(await codes(1)).toEqual(['ok', 'ok'])
    await expect(call(b, invocation, send('p1'))).rejects.toBeInstanceOf(ApprovalRequired)
    const configure = (defaults: object) =>
      a.core.stores.organizations.configure(a.organizationId, {
        policyDefaults: { read: 'allow', write: 'allow', send: 'require_approval', ...defaults },
      })
    await configure({ write: 'deny', send: 'allow' })
    expect(await codes(2)).toEqual(['denied', 'ok'])
    expect((await call(b, invocation, send('p2'))).ok).toBe(true)
    await configure({ read: 'deny', send: 'deny' })
    expect(await codes(3)).toEqual(['ok', 'denied'])
    expect((await call(b, invocation, send('p3'))).error?.code).toBe('denied')
    expect(effects).toEqual({ sent: [{ to: 'p2', subject: 'hello' }], notes: ['n1', 'n3'], searches: ['q1', 'q2'] })
  })
})

describe('R06 a rule that is saved while a call is being decided', () => {
  /** A fact whose resolution is the moment between what a decision reads and its claim. */
  const meanwhile = (happen: () => Promise<void>): FactResolver => ({
    name: 'is_new',
    type: 'bool',
    async resolve() {
      await happen()
      return false
    },
  })
  const READS_FACT: Rule<string> = { name: 'reads', tools: ['email.send'], when: 'is_new', effect: 'deny' }

  test('makes the claim say moved, and is obeyed by that very call', async () => {
    let pending = true
    const { database, trips } = counting(db.database)
    const w: World = await open({
      database,
      rules: [READS_FACT],
      facts: [
        meanwhile(async () => {
          if (pending) await save(w)
          pending = false
        }),
      ],
    })
    const invocation = await w.invocation()
    trips.length = 0
    expect((await call(w, invocation, send('jo'))).error?.code).toBe('denied')
    expect(w.effects.sent).toEqual([])
    expect(await decisions(invocation.runId)).toMatchObject([{ outcome: 'deny', rule_name: 'no mail' }])
    expect(trips).toEqual(['call_open', 'policy_read', 'call_claim', 'call_open', 'policy_read', 'call_close'])
  })

  test('three times over is a fault, and nothing runs', async () => {
    let saved = 0
    const w: World = await open({
      rules: [READS_FACT],
      facts: [
        meanwhile(async () => {
          saved += 1
          await save(w, { name: `rule ${saved}`, tools: ['crm.note'] })
        }),
      ],
    })
    const invocation = await w.invocation()
    await expect(call(w, invocation, send('jo'))).rejects.toThrow('kept moving')
    expect(saved).toBe(3)
    expect(w.effects.sent).toEqual([])
    const { rows } = await db.database.query({ name: '', text: 'SELECT 1 FROM agent.idempotency_keys' })
    expect(rows).toEqual([])
  })

  test('by another process is met by the claim or comes after it: answer and effect agree', async () => {
    const effects: Effects = { sent: [], notes: [], searches: [] }
    const a = await open({ effects })
    const b = await open({ effects, database: await db.another() })
    const invocation = await a.invocation()
    for (let round = 0; round < 25; round += 1) {
      const [answer] = await Promise.all([call(a, invocation, send(`p${round}`)), save(b)])
      expect(effects.sent.some((mail) => mail.to === `p${round}`)).toBe(answer.ok)
      if (!answer.ok) expect(answer.error?.code).toBe('denied')
      // After the save has answered, nothing new can begin.
      expect((await call(a, invocation, send(`late ${round}`))).error?.code).toBe('denied')
      await b.core.stores.rules.remove({ organizationId: b.organizationId, by: BY, name: 'no mail' })
    }
  })
})

describe('a stored rule that this build cannot read', () => {
  test.each([
    ['a condition that is none', "condition = 'no =='"],
    ['a fact that is gone', "condition = 'recipient_is_new'"],
    ['an unknown period of its limit', `call_limit = '{"count": 5, "per": "week"}'`],
    ['tools that are no list', `tools = '"email.send"'`],
  ])('because of %s fails the run that meets it, and nothing runs', async (_what, change) => {
    const script = proposing({ tool: 'email.send', args: { to: 'jo' } })
    const w = await open({ rules: [{ name: 'careful', tools: ['email.send'], effect: 'require_approval' }], script })
    await db.database.execute(`UPDATE agent.policy_rules SET ${change}`)
    await db.database.execute('UPDATE agent.organizations SET rules_version = rules_version + 1')
    const run = await w.start()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'failed', reason: 'internal_error' })
    expect(w.effects.sent).toEqual([])
    expect(await decisions(run.id)).toMatchObject([{ outcome: 'fault', rule_name: 'careful' }])
    const result = await call(w, await w.invocation(), send('jo'))
    expect(result).toMatchObject({ error: { code: 'internal_error' }, stop: 'fault' })
  })
})
