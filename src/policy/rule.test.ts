import { describe, expect, test } from 'vitest'
import { policyCatalogue } from './catalogue.ts'
import type { RuleDraft, RuleProblem } from './rule.ts'
import { MAX_TTL_S, validateRule } from './rule.ts'

const CATALOGUE = policyCatalogue(
  [
    { name: 'email.send', egress: true, policyFacts: ['recipient_is_new', 'domain'] },
    { name: 'email.archive', egress: false, policyFacts: ['domain'] },
    { name: 'crm.upsert_person', egress: false, policyFacts: [] },
    { name: 'mcp.github.create-issue', egress: true, policyFacts: [] },
  ],
  [
    { name: 'recipient_is_new', type: 'bool' },
    { name: 'domain', type: 'string' },
    { name: 'orphan', type: 'bool' },
  ],
)

const DRAFT: RuleDraft = {
  name: 'Ask before the first mail',
  tools: ['email.send'],
  when: 'recipient_is_new && size(arguments.to) > 3',
  effect: 'require_approval',
  mode: 'enforce',
}

/** A draft as it may come out of a request body. */
function draft(changes: Readonly<Record<string, unknown>>): RuleDraft {
  return { ...DRAFT, ...changes }
}

function problems(changes: Readonly<Record<string, unknown>>): readonly RuleProblem[] {
  const result = validateRule(draft(changes), CATALOGUE)
  return result.kind === 'valid' ? [] : result.problems
}

function fault(field: string, reason: string): unknown {
  return expect.objectContaining({ field, message: expect.stringContaining(reason) })
}

test('a valid draft becomes a rule with every field', () => {
  expect(validateRule(DRAFT, CATALOGUE)).toEqual({
    kind: 'valid',
    rule: { ...DRAFT, approvers: [], ttlS: null, limit: null },
  })
  expect(validateRule({ ...DRAFT, approvers: ['approver', 'u-1'], ttlS: 60 }, CATALOGUE)).toMatchObject({
    kind: 'valid',
    rule: { approvers: ['approver', 'u-1'], ttlS: 60 },
  })
})

test('all faults of a rule are reported at once, each with its field', () => {
  const found = problems({
    name: '',
    tools: ['emial.send', 'no good'],
    when: 'tool ==',
    effect: 'forbid',
    mode: 'dry-run',
    approvers: ['a b'],
    ttlS: 0,
    limit: { count: 0, per: 'week' },
  })
  expect(new Set(found.map((problem) => problem.field))).toEqual(
    new Set(['name', 'tools', 'when', 'effect', 'mode', 'approvers', 'ttlS', 'limit']),
  )
})

describe('name', () => {
  test.each(['a', 'Erste Mail prüfen', '初回メール', 'ask (first mail)', 'v1.2: big-invoices', 'a'.repeat(80)])(
    '%s is accepted',
    (name) => {
      expect(problems({ name })).toEqual([])
    },
  )

  test.each([
    [''],
    [' a'],
    ['a '],
    ['a\nb'],
    ['a\u202eb'],
    ['a\u0000b'],
    ['<b>'],
    ['a'.repeat(81)],
    ['e\u0301'],
    [7],
    [null],
    [undefined],
  ])('%j is refused', (name) => {
    expect(problems({ name })).toEqual([fault('name', '1 to 80')])
  })
})

describe('tools', () => {
  test.each([
    [['email.send', 'email.archive']],
    [['email.*']],
    [['*']],
    [['mcp.github.create-issue']],
    [['mcp.github.*']],
    [['mcp.*', 'crm.*']],
  ])('%j is accepted', (tools) => {
    expect(problems({ tools, when: null })).toEqual([])
  })

  test.each([
    [[], 'at least one'],
    [undefined, 'at least one'],
    ['email.send', 'at least one'],
    [['email*'], 'is no tool'],
    [['*.send'], 'is no tool'],
    [['email.**'], 'is no tool'],
    [['Email.*'], 'is no tool'],
    [['email.send '], 'is no tool'],
    [[''], 'is no tool'],
    [[7], 'is no tool'],
    [[null], 'is no tool'],
    [['email.sned'], 'did you mean email.send?'],
    [['email_send'], 'did you mean email.send?'],
    [['constructor'], 'there is no tool constructor'],
    [['emial.*'], 'did you mean email.*?'],
    [['email.send.*'], 'no tool matches'],
    [['email.send', 'email.send'], 'named twice'],
    [Array.from({ length: 101 }, (_, index) => `a.b${index}`), 'at most 100'],
  ])('%j is refused: %s', (tools, reason) => {
    expect(problems({ tools, when: null })).toEqual([fault('tools', reason)])
  })

  test('every wrong entry is named', () => {
    expect(
      problems({ tools: ['email.sned', 'crm.upsert_persn', 'email.send'], when: null }).map(
        (problem) => problem.message,
      ),
    ).toEqual([expect.stringContaining('email.send?'), expect.stringContaining('crm.upsert_person?')])
  })

  test.each(['email.*', '*'])('the wildcard %s may restrict, in every mode, and never allow', (wildcard) => {
    for (const mode of ['enforce', 'shadow']) {
      expect(problems({ tools: [wildcard], when: null, effect: 'deny', mode })).toEqual([])
      expect(problems({ tools: [wildcard], when: null, effect: 'require_approval', mode })).toEqual([])
      expect(problems({ tools: [wildcard], when: null, effect: 'allow', mode })).toEqual([
        fault('tools', 'never allow'),
      ])
      expect(problems({ tools: ['crm.upsert_person', wildcard], when: null, effect: 'allow', mode })).toEqual([
        fault('tools', 'never allow'),
      ])
    }
  })
})

describe('when', () => {
  test.each([[null], ['tool == "email.send"'], ['arguments.n > 1 // above one']])('%j is accepted', (when) => {
    expect(problems({ when })).toEqual([])
  })

  test('a condition that cannot be read says where', () => {
    const when = 'size(arguments.to) > 3 && recipient_is_nev'
    expect(problems({ when })).toEqual([fault('when', 'did you mean recipient_is_new?')])
    expect(problems({ when })[0]?.position).toEqual({ start: 26, end: 42 })
  })

  test.each([[7], [undefined], [{}]])('%j is refused', (when) => {
    expect(problems({ when })).toEqual([fault('when', 'null for every call')])
  })

  test('a fact that one of the tools does not declare is refused, with the tools that do', () => {
    expect(problems({ tools: ['email.send', 'email.archive'] })).toEqual([
      {
        field: 'when',
        message: 'the fact recipient_is_new is not declared by email.archive; name only tools that do: email.send',
        position: { start: 0, end: 'recipient_is_new'.length },
      },
    ])
    expect(problems({ tools: ['email.*'] })).toEqual([fault('when', 'not declared by email.archive')])
    expect(problems({ tools: ['*'], when: 'domain == "a"' })).toEqual([
      fault('when', 'not declared by crm.upsert_person, mcp.github.create-issue'),
    ])
    expect(problems({ when: 'orphan' })).toEqual([fault('when', 'no tool declares it')])
    expect(problems({ tools: ['email.*'], when: 'domain == "a"' })).toEqual([])
  })
})

describe('effect and mode', () => {
  test.each(['allow', 'deny', 'require_approval'])('effect %s', (effect) => {
    expect(problems({ effect })).toEqual([])
  })
  test.each(['enforce', 'shadow'])('mode %s', (mode) => {
    expect(problems({ mode })).toEqual([])
  })
  test.each([['Allow'], [''], [null], [undefined], ['constructor']])('effect %j is refused', (effect) => {
    expect(problems({ effect })).toEqual([fault('effect', 'allow, deny')])
  })
  test.each([['off'], [''], [null], [undefined], ['toString']])('mode %j is refused', (mode) => {
    expect(problems({ mode })).toEqual([fault('mode', 'enforce or shadow')])
  })
})

describe('approvers and ttlS', () => {
  test.each([[1], [MAX_TTL_S], [null], [undefined]])('ttlS %j is accepted', (ttlS) => {
    expect(problems({ ttlS })).toEqual([])
  })
  test.each([[0], [-1], [1.5], [MAX_TTL_S + 1], [Number.NaN], ['60'], [Infinity]])('ttlS %j is refused', (ttlS) => {
    expect(problems({ ttlS })).toEqual([fault('ttlS', '30 days')])
  })

  test.each([[[]], [['owner']], [['ada@example.com', '0198c7f0-0000-7000-8000-000000000001']]])(
    'approvers %j are accepted',
    (approvers) => {
      expect(problems({ approvers })).toEqual([])
    },
  )
  test.each([
    ['owner', 'is a list'],
    [[''], 'neither a user id'],
    [['a b'], 'neither a user id'],
    [[7], 'neither a user id'],
    [Array.from({ length: 51 }, () => 'owner'), 'at most 50'],
  ])('approvers %j are refused', (approvers, reason) => {
    expect(problems({ approvers })).toEqual([fault('approvers', reason)])
  })

  test.each(['allow', 'deny'])('a rule that says %s waits for nobody, so neither has a meaning', (effect) => {
    expect(problems({ effect, approvers: ['owner'] })).toEqual([fault('approvers', 'leave them out')])
    expect(problems({ effect, ttlS: 60 })).toEqual([fault('ttlS', 'leave ttlS out')])
    expect(problems({ effect, approvers: [], ttlS: null })).toEqual([])
  })
})

describe('a limit', () => {
  test.each([
    [{ count: 1, per: 'run' }],
    [{ count: 50, per: 'hour' }],
    [{ count: 1_000_000, per: 'day' }],
    [null],
    [undefined],
  ])('%j is accepted', (limit) => {
    expect(problems({ limit })).toEqual([])
    expect(problems({ limit, effect: 'deny', mode: 'shadow' })).toEqual([])
    expect(validateRule(draft({ limit }), CATALOGUE)).toMatchObject({ rule: { limit: limit ?? null } })
  })

  test.each([
    [{ count: 0, per: 'run' }],
    [{ count: -1, per: 'run' }],
    [{ count: 1.5, per: 'run' }],
    [{ count: 1_000_001, per: 'run' }],
    [{ count: '5', per: 'run' }],
    [{ count: Number.NaN, per: 'day' }],
    [{ count: 5, per: 'week' }],
    [{ count: 5, per: 'toString' }],
    [{ count: 5 }],
    [{ per: 'day' }],
    [{ count: 5, per: 'day', of: 'calls' }],
    [[5, 'day']],
    ['5 a day'],
    [5],
  ])('%j is refused', (limit) => {
    expect(problems({ limit })).toEqual([fault('limit', 'run, hour or day')])
  })

  test('does not go with a rule that allows: it would say nothing about the call after the last', () => {
    expect(problems({ effect: 'allow', limit: { count: 5, per: 'day' } })).toEqual([fault('limit', 'deny or require')])
  })
})
