import { beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { argumentsHash } from '../tools/canonical.ts'
import { internalTool } from '../tools/declarations.ts'
import type { FactResolver } from '../tools/handler.ts'
import type { JsonObject } from '../tools/json.ts'
import { ok } from '../tools/models.ts'
import { buildRegistry } from '../tools/registry.ts'
import { policyCatalogue } from './catalogue.ts'
import type { PastCall } from './past-call.ts'
import type { PolicySettings } from './policy.ts'
import { replayRule, type ReplayRequest, type RuleReplay } from './replay.ts'
import type { RuleDraft, StoredRule } from './rule.ts'

const FACTS: readonly FactResolver[] = [
  { name: 'is_new', type: 'bool', resolve: () => Promise.reject(new Error('a replay resolves nothing')) },
]

const write = (name: string) =>
  internalTool({
    name,
    description: 'Write.',
    input: z.object({ to: z.string(), size: z.int().default(1) }),
    output: z.object({}),
    sideEffects: 'write',
    repeatable: false,
    policyFacts: ['is_new'],
    handler: async () => ok({}),
  })

const TOOLS = [write('mail.send'), write('mail.draft'), write('crm.note')]

const START = Date.UTC(2026, 4, 4, 10)

let calls = 0
beforeEach(() => {
  calls = 0
})

/** A call a minute, every one allowed, with whole arguments, unless said otherwise. */
function past(changes: Partial<PastCall> & { readonly args?: JsonObject; readonly run?: string } = {}): PastCall {
  calls += 1
  const { args = { to: 'jo', size: 1 }, run = 'run-1', ...rest } = changes
  return {
    spanId: `span-${calls}`,
    rootRunId: run,
    rootStartedAt: new Date(START),
    tool: 'mail.send',
    decidedAt: new Date(START + calls * 60_000),
    origin: {
      runId: run,
      source: 'api',
      stepPath: 'agent',
      principal: {
        agent: 'outreach',
        userId: null,
        roles: [],
        scopes: [],
        startedBy: { kind: 'user', id: 'u', name: 'u' },
      },
    },
    argumentsHash: argumentsHash(args),
    filedArguments: null,
    input: args,
    facts: {},
    outcome: 'allow',
    rule: null,
    approval: null,
    failed: false,
    ...rest,
  }
}

function stored(changes: Partial<StoredRule>): StoredRule {
  return { ...DRAFT, id: 'stored', approvers: [], ttlS: null, limit: null, ...changes }
}

const DRAFT: RuleDraft = { name: 'draft', tools: ['mail.send'], when: null, effect: 'deny', mode: 'enforce' }

interface Given {
  readonly calls: readonly PastCall[]
  readonly draft?: Partial<RuleDraft>
  readonly rules?: readonly StoredRule[]
  readonly settings?: PolicySettings
  readonly complete?: boolean
  readonly request?: Partial<ReplayRequest>
}

async function replayed(given: Given) {
  const registry = await buildRegistry(TOOLS, { facts: FACTS })
  const asked: object[] = []
  const result: RuleReplay = await replayRule(
    {
      past: {
        list: async (request) => {
          asked.push(request)
          return { calls: given.calls, complete: given.complete ?? true }
        },
      },
      source: { read: async () => ({ version: 1, rules: given.rules ?? [], settings: given.settings ?? {} }) },
      registry,
      catalogue: policyCatalogue(registry.resolve(registry.names()), FACTS),
    },
    { organizationId: 'org', draft: { ...DRAFT, ...given.draft }, ...given.request },
  )
  return { result, asked }
}

/** What would be decided now, oldest first. */
async function now(given: Given) {
  const { result } = await replayed(given)
  if (result.kind === 'invalid') throw new Error(JSON.stringify(result.problems))
  return result.calls.map((call) => call.now.outcome).toReversed()
}

describe('a draft', () => {
  test('is counted by what was decided and what would be', async () => {
    const { result } = await replayed({
      draft: { when: 'arguments.to != "jo"', effect: 'require_approval' },
      calls: [
        past({ args: { to: 'jo', size: 1 } }),
        past({ args: { to: 'sam', size: 1 } }),
        past({ args: { to: 'kim', size: 1 } }),
        past({ args: { to: 'sam', size: 1 }, outcome: 'deny', rule: 'gone' }),
        past({ args: { to: 'sam', size: 1 }, input: { to: '[redacted]' } }),
      ],
    })
    expect(result).toMatchObject({
      kind: 'replayed',
      summary: {
        calls: 5,
        unchanged: 1,
        unknown: 1,
        changed: [
          { from: 'allow', to: 'require_approval', calls: 2 },
          { from: 'deny', to: 'require_approval', calls: 1 },
        ],
      },
    })
    // The newest first, as lists of calls are.
    expect(result.kind === 'replayed' && result.calls.at(-1)).toMatchObject({
      spanId: 'span-1',
      runId: 'run-1',
      decided: { outcome: 'allow', rule: null },
      now: { outcome: 'allow', rule: null },
    })
  })

  test('that is no rule is answered with its faults, and no call is read', async () => {
    const { result, asked } = await replayed({ draft: { tools: ['mail.sned'], when: 'to ==' }, calls: [] })
    expect(result).toMatchObject({ kind: 'invalid', problems: [{ field: 'tools' }, { field: 'when' }] })
    expect(asked).toEqual([])
  })

  test('stands beside the other rules, and in the place of the one of its name', async () => {
    const rules = [
      stored({ name: 'other', when: 'arguments.to == "sam"', effect: 'require_approval' }),
      stored({ name: 'draft', when: 'arguments.to == "kim"' }),
      stored({ name: 'tried', when: null, mode: 'shadow' }),
    ]
    const people = ['jo', 'sam', 'kim'].map((to) => past({ args: { to, size: 1 } }))
    const draft = { when: 'arguments.to == "jo"' }
    expect(await now({ calls: people, rules, draft })).toEqual(['deny', 'require_approval', 'allow'])
  })

  test('is tried as if it were enforced, whatever its mode', async () => {
    expect(await now({ calls: [past()], draft: { mode: 'shadow' } })).toEqual(['deny'])
  })

  test('meets the defaults of today', async () => {
    const settings = { policyDefaults: { write: 'require_approval' } } as const
    expect(await now({ calls: [past()], draft: { when: 'false' }, settings })).toEqual(['require_approval'])
  })

  test('is told apart from tools it is not about, also those of the rule it replaces', async () => {
    const wide = [stored({ name: 'draft', tools: ['mail.*'] })]
    const { result, asked } = await replayed({
      rules: wide,
      calls: [past(), past({ tool: 'mail.draft', outcome: 'deny' }), past({ tool: 'crm.note' })],
    })
    expect(asked).toMatchObject([{ tools: ['mail.send', 'mail.draft'], since: null, limit: 500 }])
    expect(result).toMatchObject({ summary: { calls: 2, changed: [{ from: 'allow' }, { from: 'deny', to: 'allow' }] } })
  })

  test('is tried on at most 5000 calls', async () => {
    const limits = await Promise.all(
      [0, 7, 1e9].map(async (limit) => (await replayed({ calls: [], request: { limit } })).asked),
    )
    expect(limits).toMatchObject([[{ limit: 1 }], [{ limit: 7 }], [{ limit: 5000 }]])
  })
})

describe('what was recorded', () => {
  const lost = { input: { to: '[redacted]' } }

  test('is enough where the condition does not read what is missing', async () => {
    expect(await now({ calls: [past(lost)], draft: { when: 'principal.agent == "outreach"' } })).toEqual(['deny'])
    expect(await now({ calls: [past(lost)], draft: { when: 'arguments.size > 0' } })).toEqual(['unknown'])
  })

  test('is enough where the missing part could not change the outcome', async () => {
    const rules = [stored({ name: 'strict', effect: 'deny' })]
    const draft = { when: 'arguments.size > 0', effect: 'require_approval' } as const
    expect(await now({ calls: [past(lost)], rules, draft })).toEqual(['deny'])
    const lax = [stored({ name: 'lax', effect: 'allow' })]
    expect(await now({ calls: [past(lost)], rules: lax, draft })).toEqual(['unknown'])
    const settings = { policyDefaults: { write: 'deny' } } as const
    expect(await now({ calls: [past(lost)], settings, draft: { ...draft, effect: 'deny' } })).toEqual(['deny'])
  })

  test('may be uncertain twice: rules that ask different people could be a question nobody can answer', async () => {
    const asking = { when: 'arguments.size > 0', effect: 'require_approval', approvers: ['ana'] } as const
    const rules = [
      stored({ name: 'always', effect: 'require_approval' }),
      stored({ name: 'other', ...asking, approvers: ['bo'] }),
    ]
    expect(await now({ calls: [past(lost)], rules, draft: asking })).toEqual(['unknown'])
    expect(await now({ calls: [past(lost)], rules, draft: { ...asking, approvers: ['bo'] } })).toEqual([
      'require_approval',
    ])
  })

  test('has the defaults that the arguments were given then', async () => {
    const args = { to: 'jo', size: 1 }
    const draft = { when: 'arguments.size == 1' }
    expect(await now({ calls: [past({ args, input: { to: 'jo' } })], draft })).toEqual(['deny'])
    // Another default than today’s.
    expect(await now({ calls: [past({ args: { to: 'jo', size: 2 }, input: { to: 'jo' } })], draft })).toEqual([
      'unknown',
    ])
  })

  test('is whole for a call that a person was asked about', async () => {
    const args = { to: 'jo', size: 3 }
    const call = past({ ...lost, args, filedArguments: args, outcome: 'require_approval', approval: 'rejected' })
    expect(await now({ calls: [call], draft: { when: 'arguments.size == 3' } })).toEqual(['deny'])
    expect(
      await now({ calls: [{ ...call, filedArguments: { to: 'jo' } }], draft: { when: 'arguments.size == 3' } }),
    ).toEqual(['unknown'])
  })

  test('holds the facts that rules read then, and no others', async () => {
    const draft = { when: 'is_new' }
    const known = [past({ facts: { is_new: true } }), past({ facts: { is_new: false } }), past()]
    expect(await now({ calls: known, draft })).toEqual(['deny', 'allow', 'unknown'])
    const { result } = await replayed({ calls: [past()], draft })
    expect(result).toMatchObject({ calls: [{ now: { why: 'the fact is_new was not recorded' } }] })
  })

  test('holds what had tainted the run', async () => {
    const tainted = past({ facts: { 'run.taint_sources': ['web.fetch'] } })
    expect(await now({ calls: [past(), tainted], draft: { when: 'run.tainted' } })).toEqual(['allow', 'deny'])
    const when = '"web.fetch" in run.taint_sources'
    expect(await now({ calls: [past(), tainted], draft: { when } })).toEqual(['allow', 'deny'])
  })

  test('is a fault where a rule of today has no answer', async () => {
    const rules = [stored({ name: 'broken', when: 'no ==' })]
    expect(await now({ calls: [past()], rules })).toEqual(['fault'])
    expect(await now({ calls: [past()], draft: { when: 'arguments.gone == 1' } })).toEqual(['fault'])
  })
})

describe('a limit', () => {
  const limit = (count: number, per: 'run' | 'hour' | 'day' = 'run') => ({ limit: { count, per } })

  test('counts what would have been let through', async () => {
    expect(await now({ calls: [past(), past(), past()], draft: limit(2) })).toEqual(['allow', 'allow', 'deny'])
    const rules = [stored({ name: 'no sam', when: 'arguments.to == "sam"' })]
    const sam = { args: { to: 'sam', size: 1 } }
    expect(await now({ calls: [past(sam), past(sam), past(), past()], rules, draft: limit(1) })).toEqual([
      'deny',
      'deny',
      'allow',
      'deny',
    ])
  })

  test('has a count for each run, hour and day of the calendar', async () => {
    const at = (hour: number, minute: number) => ({ decidedAt: new Date(Date.UTC(2026, 4, 4, hour, minute)) })
    const spread = [at(22, 58), at(22, 59), at(23, 0), at(24, 0)].map((when, index) =>
      past({ ...when, run: `run-${index % 2}` }),
    )
    expect(await now({ calls: spread, draft: limit(1, 'hour') })).toEqual(['allow', 'deny', 'allow', 'allow'])
    expect(await now({ calls: spread, draft: limit(1, 'day') })).toEqual(['allow', 'deny', 'deny', 'allow'])
    expect(await now({ calls: spread, draft: limit(1, 'run') })).toEqual(['allow', 'allow', 'deny', 'deny'])
  })

  test('counts a question by its answer, and cannot tell where nobody was asked', async () => {
    const draft = { ...limit(1), effect: 'require_approval' } as const
    const ask = stored({ name: 'ask', when: 'arguments.to == "sam"', effect: 'require_approval' })
    const sam = { args: { to: 'sam', size: 1 }, outcome: 'require_approval' } as const
    const after = async (first: PastCall) => (await now({ calls: [first, past()], rules: [ask], draft }))[1]
    expect(await after(past({ ...sam, approval: 'approved' }))).toBe('require_approval')
    expect(await after(past({ ...sam, approval: 'rejected' }))).toBe('allow')
    expect(await after(past({ ...sam, outcome: 'allow' }))).toBe('unknown')
  })

  test('cannot tell whether a failed call gave its place back', async () => {
    expect(await now({ calls: [past({ failed: true }), past(), past()], draft: limit(1) })).toEqual([
      'allow',
      'unknown',
      'unknown',
    ])
  })

  test('whose period began before the first call that is known may be full already', async () => {
    const old = { rootStartedAt: new Date(START - 1) }
    const since = new Date(START)
    const calls = [past(old), past({ run: 'run-2' }), past({ run: 'run-2' })]
    expect(await now({ calls, draft: limit(1), request: { since } })).toEqual(['unknown', 'allow', 'deny'])
    // The oldest of a list that was cut off says from when on the calls are known.
    const cut = [past(), past(), past({ run: 'run-2', rootStartedAt: new Date(START + 5 * 60_000) })]
    expect(await now({ calls: cut, draft: limit(1), complete: false })).toEqual(['unknown', 'unknown', 'allow'])
    expect(await now({ calls: cut, draft: { ...limit(1), when: 'false' }, complete: false })).toEqual([
      'allow',
      'allow',
      'allow',
    ])
  })

  test('counts the calls of all its tools, which are read for it, and tells about those it is asked about', async () => {
    const shared = stored({ name: 'shared', tools: ['mail.*', 'crm.note'], ...limit(1) })
    const { result, asked } = await replayed({
      calls: [past({ tool: 'crm.note' }), past()],
      rules: [shared],
      draft: { when: 'false' },
    })
    expect(asked).toMatchObject([{ tools: ['mail.send', 'mail.draft', 'crm.note'] }])
    expect(result).toMatchObject({ calls: [{ tool: 'mail.send', now: { outcome: 'deny', rule: 'shared' } }] })
    expect(result).toMatchObject({ summary: { calls: 1 } })
  })
})
