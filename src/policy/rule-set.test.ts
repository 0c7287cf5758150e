import { describe, expect, test } from 'vitest'
import type { FactType } from '../tools/handler.ts'
import type { ToolInvocation } from '../tools/invocation.ts'
import type { JsonObject } from '../tools/json.ts'
import type { PolicyCatalogue } from './catalogue.ts'
import type { StoredRule } from './rule.ts'
import type { PolicyCall } from './rule-set.ts'
import { compileRules } from './rule-set.ts'

const FACTS: readonly (readonly [string, FactType])[] = [
  ['recipient_is_new', 'bool'],
  ['domain', 'string'],
  ['open_deals', 'int'],
]

const CATALOGUE: PolicyCatalogue = {
  tools: new Map([
    ['email.send', ['recipient_is_new', 'domain', 'open_deals']],
    ['email.archive', ['domain']],
    ['crm.find', []],
    ['web.search', []],
  ]),
  egress: new Set(['email.send', 'web.search']),
  facts: new Map(FACTS),
}

function invocation(changes: Partial<ToolInvocation> = {}): ToolInvocation {
  return {
    organizationId: 'org',
    userId: null,
    runId: 'run-1',
    definitionId: 'def-1',
    stepPath: 'agent',
    principal: {
      agent: 'outreach',
      userId: null,
      roles: ['sales'],
      scopes: ['email.send'],
      startedBy: { kind: 'api_key', id: 'k1', name: 'key' },
    },
    ceilings: { maxTurns: 1, maxToolCalls: 1, maxDurationS: 1, maxCostCents: null },
    deadline: new Date(0),
    source: 'api',
    contracts: {},
    ...changes,
  }
}

function call(tool = 'email.send', args: JsonObject = {}): PolicyCall {
  return { tool, args, invocation: invocation(), taintSources: [] }
}

let nextId = 0
function rule(changes: Readonly<Record<string, unknown>> = {}): StoredRule {
  nextId += 1
  return {
    id: `rule-${nextId}`,
    name: `rule ${nextId}`,
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

function read(changes: Readonly<Record<string, unknown>>, facts: JsonObject = {}, asked = call()): unknown {
  const [reading, ...rest] = compileRules([rule(changes)], CATALOGUE).evaluate(asked, facts)
  expect(rest).toEqual([])
  return reading === undefined ? 'not about it' : 'fault' in reading ? { fault: reading.fault } : reading.matched
}

describe('which rules are about a call', () => {
  test.each([
    ['email.send', ['email.send'], true],
    ['email.send', ['email.archive', 'email.send'], true],
    ['email.send', ['email.archive'], false],
    ['email.send', ['email.*'], true],
    ['email.send', ['*'], true],
    ['email.send', ['crm.*'], false],
    ['emailx.send', ['email.*'], false],
    ['email', ['email.*'], false],
    ['mcp.github.create', ['mcp.*'], true],
    ['mcp.github.create', ['mcp.github.*'], true],
  ])('%s and tools %j: %j', (tool, tools, about) => {
    expect(read({ tools }, {}, call(tool))).toBe(about ? true : 'not about it')
  })

  test('they keep their stored order and carry everything a decision records', () => {
    const first = rule({ tools: ['*'], effect: 'require_approval', approvers: ['owner'], ttlS: 60 })
    const second = rule({ mode: 'shadow' })
    const rules = compileRules([first, second, rule({ tools: ['crm.find'] })], CATALOGUE, 7)
    expect(rules.version).toBe(7)
    expect(rules.evaluate(call(), {})).toEqual([
      {
        ruleId: first.id,
        name: first.name,
        effect: 'require_approval',
        mode: 'enforce',
        approvers: ['owner'],
        ttlS: 60,
        limit: null,
        matched: true,
      },
      {
        ruleId: second.id,
        name: second.name,
        effect: 'deny',
        mode: 'shadow',
        approvers: [],
        ttlS: null,
        limit: null,
        matched: true,
      },
    ])
    expect(rules.matching('email.send').map(({ id }) => id)).toEqual([first.id, second.id])
  })

  test('no rules match nothing', () => {
    expect(compileRules([], CATALOGUE).evaluate(call(), {})).toEqual([])
  })
})

describe('what a condition sees', () => {
  test('the call, the principal and the run', () => {
    const when = `tool == 'email.send' && principal.agent == 'outreach' && principal.roles == ['sales'] && principal.scopes == ['email.send']
      && principal.started_by == 'api_key' && principal.user_id == '' && run.id == 'run-1' && run.source == 'api' && run.step_path == 'agent'
      && arguments.n == 1`
    expect(read({ when }, {}, call('email.send', { n: 1 }))).toBe(true)
  })

  test('the user behind the principal', () => {
    const asked = { ...call(), invocation: invocation({ principal: { ...invocation().principal, userId: 'u1' } }) }
    expect(read({ when: "principal.user_id == 'u1'" }, {}, asked)).toBe(true)
  })

  test('facts as they were resolved', () => {
    const when = "recipient_is_new && domain == 'acme.com' && open_deals + 1 == 4"
    expect(read({ when }, { recipient_is_new: true, domain: 'acme.com', open_deals: 3 })).toBe(true)
    expect(read({ when }, { recipient_is_new: false, domain: 'acme.com', open_deals: 3 })).toBe(false)
  })
})

describe('facts that are asked for', () => {
  const rules = compileRules(
    [
      rule({ when: 'recipient_is_new' }),
      rule({ when: "domain == 'a' && recipient_is_new" }),
      rule({ when: 'open_deals > 3 && recipient_is_new', mode: 'shadow' }),
      rule({ when: "domain == 'a'", tools: ['email.archive'] }),
      rule({ when: null, tools: ['*'] }),
    ],
    CATALOGUE,
  )

  test('are those that a matching rule reads', () => {
    expect(rules.factsNeeded('email.send')).toEqual(['domain', 'recipient_is_new'])
    expect(rules.factsNeeded('email.archive')).toEqual(['domain'])
    expect(rules.factsNeeded('crm.find')).toEqual([])
  })

  test('are apart where only a shadow rule reads them', () => {
    expect(rules.factsForShadow('email.send')).toEqual(['open_deals'])
    expect(rules.factsForShadow('crm.find')).toEqual([])
  })
})

describe('a rule that cannot be evaluated', () => {
  test('because a value is missing is a fault that names the rule, the part and the reason', () => {
    const named = { name: 'big invoices', when: 'size(tool) > 0 && arguments.amount > 100' }
    expect(read(named)).toEqual({ fault: 'rule "big invoices": arguments.amount: there is no field amount' })
  })

  test('because a fact was not resolved or is of another type is a fault', () => {
    expect(read({ when: 'recipient_is_new' })).toEqual({
      fault: expect.stringContaining('recipient_is_new is missing'),
    })
    expect(read({ when: 'recipient_is_new' }, { recipient_is_new: 'no' })).toEqual({
      fault: expect.stringContaining('is not a bool'),
    })
  })

  test('because its fact lost its resolver stays, as a fault', () => {
    const removed: PolicyCatalogue = { ...CATALOGUE, facts: new Map() }
    const rules = compileRules([rule({ when: 'recipient_is_new' })], removed)
    expect(rules.factsNeeded('email.send')).toEqual([])
    expect(rules.evaluate(call(), { recipient_is_new: false })).toEqual([
      expect.objectContaining({ fault: expect.stringContaining('there is no recipient_is_new') }),
    ])
    expect(rules.matching('email.send')[0]?.fault).toContain('there is no recipient_is_new')
    expect(rules.evaluate(call('crm.find'), {})).toEqual([])
  })

  test('because the tool does not declare its fact is a fault for that tool alone', () => {
    const rules = compileRules([rule({ tools: ['email.*'], when: 'recipient_is_new' })], CATALOGUE)
    expect(rules.evaluate(call('email.send'), { recipient_is_new: true })).toEqual([
      expect.objectContaining({ matched: true }),
    ])
    expect(rules.evaluate(call('email.archive'), { recipient_is_new: true })).toEqual([
      expect.objectContaining({
        fault: expect.stringContaining('email.archive does not declare the fact recipient_is_new'),
      }),
    ])
    expect(rules.factsNeeded('email.archive')).toEqual([])
  })

  test('for a tool that appears later is a fault as well', () => {
    const tools = new Map(CATALOGUE.tools)
    const rules = compileRules([rule({ tools: ['email.*'], when: 'recipient_is_new' })], { ...CATALOGUE, tools })
    expect(rules.evaluate(call('email.new'), { recipient_is_new: true })[0]).toHaveProperty('fault')
    tools.set('email.new', ['recipient_is_new'])
    expect(rules.evaluate(call('email.new'), { recipient_is_new: true })[0]).toHaveProperty('matched', true)
  })

  test.each([
    ['a condition that is no condition', { when: 'toool ==' }],
    ['a condition that is no text', { when: 7 }],
    ['an effect that does not exist', { effect: 'forbid' }],
    ['a mode that does not exist', { mode: 'off' }],
    ['a wildcard that allows', { tools: ['email.*'], effect: 'allow' }],
    ['approvers that are no list', { approvers: 'owner' }],
    ['a time to answer that is no number', { ttlS: 'soon', effect: 'require_approval' }],
    ['tools that are no list', { tools: 'email.send' }],
    ['no tools', { tools: [] }],
    ['a wildcard that does not exist', { tools: ['em*'] }],
    ['a tool that is no text', { tools: [null] }],
  ])('because its row holds %s is an enforced fault', (_, changes) => {
    const [reading] = compileRules([rule(changes)], CATALOGUE).evaluate(call(), {})
    expect(reading).toMatchObject({ mode: 'enforce', fault: expect.stringContaining('cannot be read') })
  })

  test('because its tools cannot be read is a fault of every call', () => {
    const rules = compileRules([rule({ tools: ['email.**'] })], CATALOGUE)
    for (const tool of ['email.send', 'crm.find', 'anything.else']) {
      expect(rules.evaluate(call(tool), {})).toEqual([expect.objectContaining({ fault: expect.any(String) })])
    }
  })

  test('does not keep the others from being evaluated', () => {
    const readings = compileRules([rule({ when: 'arguments.x == 1' }), rule({ when: 'true' })], CATALOGUE).evaluate(
      call(),
      {},
    )
    expect(readings.map((reading) => ('fault' in reading ? 'fault' : reading.matched))).toEqual(['fault', true])
  })
})
