import { expect, test } from 'vitest'
import { NOTHING_COUNTED } from '../decision/limits.ts'
import type { PolicyDefaults } from '../decision/stage-two.ts'
import type { ToolInvocation } from '../tools/invocation.ts'
import { decidePolicy } from './decide.ts'
import type { StoredRule } from './rule.ts'
import { compileRules } from './rule-set.ts'

const DEFAULTS: PolicyDefaults = { read: 'allow', write: 'require_approval', send: 'deny' }
const CATALOGUE = { tools: new Map([['email.send', []]]), egress: new Set<string>(), facts: new Map() }
const RULE: StoredRule = {
  id: 'r1',
  name: 'many recipients',
  tools: ['email.send'],
  when: 'size(arguments.to) > 1',
  effect: 'require_approval',
  mode: 'enforce',
  approvers: ['owner'],
  ttlS: 60,
  limit: null,
}
const INVOCATION: ToolInvocation = {
  organizationId: 'org',
  userId: null,
  runId: 'run',
  definitionId: 'def',
  stepPath: 'agent',
  principal: { agent: 'a', userId: null, roles: [], scopes: [], startedBy: { kind: 'system', id: 's', name: 's' } },
  ceilings: { maxTurns: 1, maxToolCalls: 1, maxDurationS: 1, maxCostCents: null },
  deadline: new Date(0),
  source: 'library',
  contracts: {},
}

function decide(to: readonly string[], sideEffects: keyof PolicyDefaults) {
  const call = { tool: 'email.send', args: { to }, invocation: INVOCATION, taintSources: [] }
  return decidePolicy({
    rules: compileRules([RULE], CATALOGUE),
    call,
    facts: { seen: true },
    limits: NOTHING_COUNTED,
    defaults: DEFAULTS,
    sideEffects,
  })
}

test.each(['read', 'write', 'send'] as const)('a %s that no rule matches takes its own default', (sideEffects) => {
  expect(decide(['a'], sideEffects)).toMatchObject({
    effect: DEFAULTS[sideEffects],
    ruleId: null,
    facts: { seen: true },
  })
})

test.each(['read', 'write', 'send'] as const)('a %s that a rule matches is decided by the rule', (sideEffects) => {
  expect(decide(['a', 'b'], sideEffects)).toEqual({
    effect: 'require_approval',
    ruleId: 'r1',
    ruleName: 'many recipients',
    message: null,
    ttlS: 60,
    approvers: ['owner'],
    facts: { seen: true },
    shadow: [],
    counters: [],
  })
})
