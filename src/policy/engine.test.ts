import { describe, expect, test } from 'vitest'
import { NOTHING_COUNTED, type LimitGround } from '../decision/limits.ts'
import type { FactResolver } from '../tools/handler.ts'
import type { AdmittedCall, Logger } from '../tools/invoker.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { SideEffects, ToolSpec } from '../tools/models.ts'
import { policyCatalogue } from './catalogue.ts'
import { policyEngine } from './engine.ts'
import type { PolicySettings } from './policy.ts'
import { plainSpec } from '../testing/plain-spec.ts'
import { cachedPolicy } from './policy.ts'
import type { StoredRule } from './rule.ts'

const NOW = 1_000_000

function spec(sideEffects: SideEffects): ToolSpec {
  return plainSpec({ name: 'email.send', sideEffects, policyFacts: ['recipient_is_new', 'domain'], onUnknown: 'ask' })
}

function call(args: JsonObject, sideEffects: SideEffects, leftMs = 60_000): AdmittedCall {
  return {
    invocation: {
      organizationId: 'org',
      userId: null,
      runId: 'run',
      definitionId: 'def',
      stepPath: 'agent',
      principal: {
        agent: 'outreach',
        userId: null,
        roles: [],
        scopes: ['email.send'],
        startedBy: { kind: 'system', id: 's', name: 's' },
      },
      ceilings: { maxTurns: 1, maxToolCalls: 1, maxDurationS: 1, maxCostCents: null },
      deadline: new Date(NOW + leftMs),
      source: 'library',
      contracts: {},
    },
    rootRunId: 'root',
    toolName: 'email.send',
    span: { id: 's', parentId: null, startedAt: new Date(NOW), input: null },
    spec: spec(sideEffects),
    args,
    argsHash: 'h',
    key: 'k',
  }
}

interface Given {
  readonly rules?: readonly Partial<StoredRule>[]
  readonly settings?: PolicySettings
  readonly facts?: Readonly<Record<string, () => Promise<JsonValue>>>
  readonly args?: JsonObject
  readonly sideEffects?: SideEffects
  readonly leftMs?: number
  readonly taintSources?: readonly string[]
  readonly limits?: LimitGround
}

async function gather(given: Given) {
  const { rules = [], settings = {}, facts = {}, args = {}, sideEffects = 'send', leftMs } = given
  const { taintSources = [], limits = NOTHING_COUNTED } = given
  const types = { recipient_is_new: 'bool', domain: 'string' } as const
  const resolvers = Object.entries(types).map(([name, type]): FactResolver => ({
    name,
    type,
    resolve: facts[name] ?? (() => Promise.reject(new Error(`${name} was asked`))),
  }))
  const stored = rules.map((rule, index): StoredRule => ({
    id: `r${index}`,
    name: `rule ${index}`,
    tools: ['email.send'],
    when: null,
    effect: 'deny',
    mode: 'enforce',
    approvers: [],
    ttlS: null,
    limit: null,
    ...rule,
  }))
  const logged: unknown[] = []
  const logger: Logger = { info() {}, warn() {}, error: (message, fields) => void logged.push({ message, ...fields }) }
  const catalogue = policyCatalogue([spec(sideEffects)], resolvers)
  const engine = policyEngine({
    policy: cachedPolicy({ read: async () => ({ version: 3, rules: stored, settings }) }, catalogue),
    resolvers: new Map(resolvers.map((resolver) => [resolver.name, resolver])),
    logger,
    clock: () => NOW,
  })
  const reading = await engine.gather(call(args, sideEffects, leftMs), { rulesVersion: 2, taintSources, limits })
  return { reading, outcome: reading.outcome, logged }
}

test.each([
  ['read', 'allow'],
  ['write', 'allow'],
  ['send', 'require_approval'],
] as const)('a %s that no rule matches is decided by the default: %s', async (sideEffects, effect) => {
  expect((await gather({ sideEffects })).outcome).toMatchObject({ effect, ruleId: null, ruleName: null })
  expect((await gather({ sideEffects, rules: [{ when: 'false' }] })).outcome).toMatchObject({ effect, ruleId: null })
  const settings = { policyDefaults: { [sideEffects]: 'deny' } }
  expect((await gather({ sideEffects, settings })).outcome.effect).toBe('deny')
})

test('the reading carries the version the rules were read at, the default time to answer, the rule and the facts', async () => {
  const { reading } = await gather({
    rules: [{ when: 'recipient_is_new', effect: 'require_approval', approvers: ['owner'], ttlS: 60 }],
    settings: { approvalTtlS: 120 },
    facts: { recipient_is_new: async () => true },
  })
  expect(reading).toEqual({
    rulesVersion: 3,
    approvalTtlS: 120,
    outcome: {
      effect: 'require_approval',
      ruleId: 'r0',
      ruleName: 'rule 0',
      message: null,
      ttlS: 60,
      approvers: ['owner'],
      facts: { recipient_is_new: true },
      shadow: [],
      counters: [],
    },
  })
})

test('a rule that allows a send lifts the default, a stricter one outweighs it', async () => {
  expect((await gather({ rules: [{ effect: 'allow' }] })).outcome.effect).toBe('allow')
  expect((await gather({ rules: [{ effect: 'allow' }, { effect: 'require_approval' }] })).outcome.effect).toBe(
    'require_approval',
  )
  expect(
    (await gather({ rules: [{ effect: 'require_approval' }, { effect: 'deny' }, { effect: 'allow' }] })).outcome,
  ).toMatchObject({ effect: 'deny', ruleId: 'r1' })
})

test('no fact is resolved unless a rule about the tool reads it', async () => {
  expect(
    (
      await gather({
        rules: [{ when: 'arguments.n == 1' }, { when: 'domain == "a"', tools: ['crm.find'] }],
        args: { n: 1 },
      })
    ).outcome.effect,
  ).toBe('deny')
})

describe('a fault', () => {
  test('is a rule without an answer, whatever the other rules say', async () => {
    const rules = [{ effect: 'deny' as const }, { when: 'arguments.amount > 1', effect: 'allow' as const }]
    expect((await gather({ rules })).outcome).toMatchObject({
      effect: 'fault',
      ruleName: 'rule 1',
      message: expect.stringContaining('no field amount'),
    })
  })

  test('is a fact that cannot be resolved; the cause goes to the log and nowhere else', async () => {
    const cause = new Error('password=hunter2')
    const { outcome, logged } = await gather({
      rules: [{ when: 'recipient_is_new' }],
      facts: { recipient_is_new: () => Promise.reject(cause) },
    })
    expect(outcome).toMatchObject({
      effect: 'fault',
      ruleId: null,
      message: 'the fact recipient_is_new could not be resolved',
      facts: {},
    })
    expect(JSON.stringify(outcome)).not.toContain('hunter2')
    expect(logged).toEqual([
      { message: 'policy fact not resolved', fact: 'recipient_is_new', tool: 'email.send', runId: 'run', cause },
    ])
  })

  test('is a fact that is asked for after the deadline of the run', async () => {
    const { outcome } = await gather({
      rules: [{ when: 'recipient_is_new' }],
      facts: { recipient_is_new: () => Promise.withResolvers<JsonValue>().promise },
      leftMs: -1,
    })
    expect(outcome).toMatchObject({ effect: 'fault', message: 'the fact recipient_is_new did not come in time' })
  })

  test('is a policy that cannot be loaded: it is raised, and nothing is decided', async () => {
    await expect(gather({ settings: { approvalTtlS: -1 } })).rejects.toThrow('of the organization')
  })
})

describe('a shadow rule', () => {
  const shadow = { mode: 'shadow' as const }

  test('is recorded with what it would have done', async () => {
    const { outcome } = await gather({
      sideEffects: 'write',
      rules: [{ ...shadow, when: 'recipient_is_new' }],
      facts: { recipient_is_new: async () => true },
    })
    expect(outcome).toMatchObject({ effect: 'allow', ruleId: null, shadow: [{ ruleName: 'rule 0', effect: 'deny' }] })
  })

  test('changes nothing when its fact, its condition or its row fails', async () => {
    for (const rule of [{ when: 'recipient_is_new' }, { when: 'arguments.missing == 1' }, { when: 'no ==' }]) {
      const { outcome } = await gather({ sideEffects: 'write', rules: [{ ...shadow, ...rule }] })
      expect(outcome).toMatchObject({ effect: 'allow', shadow: [] })
    }
  })
})

describe('what is handed to the engine', () => {
  test('taints are read by conditions, and recorded whether or not one reads them', async () => {
    const taintSources = ['web.fetch']
    const rules = [{ when: 'run.tainted', effect: 'require_approval' as const }]
    const facts = { 'run.taint_sources': ['web.fetch'] }
    expect((await gather({ sideEffects: 'write', rules, taintSources })).outcome).toMatchObject({
      effect: 'require_approval',
      facts,
    })
    expect((await gather({ sideEffects: 'write', taintSources })).outcome).toMatchObject({ effect: 'allow', facts })
    expect((await gather({ sideEffects: 'write', rules })).outcome).toMatchObject({ effect: 'allow', facts: {} })
  })

  test('what was counted takes a rule out or leaves it in, and the outcome says what a call adds to', async () => {
    const rules = [{ limit: { count: 2, per: 'day' } as const }]
    const uses = (used: number) => ({ uses: [{ rule: 'rule 0', per: 'day' as const, used }], countedBy: [] })
    const counters = [{ rule: 'rule 0', per: 'day', max: 2, asks: false }]
    const below = await gather({ sideEffects: 'write', rules, limits: uses(1) })
    expect(below.outcome).toMatchObject({ effect: 'allow', ruleId: null, counters })
    const reached = await gather({ sideEffects: 'write', rules, limits: uses(2) })
    expect(reached.outcome).toMatchObject({ effect: 'deny', ruleId: 'r0', counters })
  })
})
