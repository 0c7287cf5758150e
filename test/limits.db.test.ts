import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Rule } from '../src/bailiff.ts'
import { internalTool } from '../src/tools/declarations.ts'
import { NotFoundError, RetryableUpstreamError } from '../src/tools/errors.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import { ApprovalRequired, ClaimInFlight, ReadHeld } from '../src/tools/invoker.ts'
import type { JsonValue } from '../src/tools/json.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { APPROVER, inRun, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const ALLOW_ALL = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const

const open = (rules: readonly Rule<string>[], options: Partial<Omit<WorldOptions, 'rules'>> = {}): Promise<World> =>
  world({ database: db.database, settings: ALLOW_ALL, rules, ...options })

const call = (w: World, invocation: ToolInvocation, [toolName, args]: readonly [string, JsonValue]) =>
  inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName, args }, invocation))

const note = (text: string) => ['crm.note', { text }] as const
const send = (to: string) => ['email.send', { to }] as const
const search = (query: string) => ['crm.search', { query }] as const

/** Periods of the calendar could end in the middle of a test. */
const perRun = (count: number): Pick<Rule<string>, 'limit'> => ({ limit: { count, per: 'run' } })

/** What the rules have counted, by name; periods do not matter where a test has one. */
async function used(): Promise<Record<string, number>> {
  const { rows } = await db.database.query<{ rule: string; used: number }>({
    name: '',
    text: 'SELECT rule, sum(used)::int AS used FROM agent.rule_counters GROUP BY rule',
  })
  return Object.fromEntries(rows.map((row) => [row.rule, row.used]))
}

/** Approves what is open about a run and makes the call again, as the segment after an approval does. */
async function approved(w: World, invocation: ToolInvocation, [toolName, args]: readonly [string, JsonValue]) {
  const { items } = await w.core.approvals.list(w.organizationId, { runId: invocation.runId, state: 'pending' })
  await w.approve(invocation.runId)
  const authorizedBy = items.map((item) => item.id)
  return inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName, args }, invocation, { authorizedBy }))
}

describe('a rule with a limit', () => {
  test('does not apply below its count, and applies its effect from then on', async () => {
    const w = await open([{ name: 'few notes', tools: ['crm.note'], effect: 'deny', ...perRun(2) }])
    const invocation = await w.invocation()
    for (const text of ['one', 'two']) expect((await call(w, invocation, note(text))).ok).toBe(true)
    for (const text of ['three', 'four']) {
      const { error } = await call(w, invocation, note(text))
      expect(error?.code).toBe('denied')
      expect(error?.message).toContain('the limit of 2 calls a run is reached')
    }
    expect(w.effects.notes).toEqual(['one', 'two'])
    expect(await used()).toEqual({ 'few notes': 2 })
    const { rows } = await db.database.query({
      name: '',
      text: 'SELECT outcome, rule_name, message FROM agent.policy_decisions ORDER BY decided_at',
    })
    const denied = { outcome: 'deny', rule_name: 'few notes', message: 'the limit of 2 calls a run is reached' }
    const allowed = { outcome: 'allow', rule_name: null, message: null }
    expect(rows).toEqual([allowed, allowed, denied, denied])
  })

  test('that asks lets approved calls past its count, counts them, and asks for the next one again', async () => {
    const w = await open([{ name: 'ask late', tools: ['email.send'], effect: 'require_approval', ...perRun(1) }])
    const invocation = await w.invocation()
    expect((await call(w, invocation, send('a@acme.test'))).ok).toBe(true)
    for (const to of ['b@acme.test', 'c@acme.test']) {
      await expect(call(w, invocation, send(to))).rejects.toBeInstanceOf(ApprovalRequired)
      expect((await approved(w, invocation, send(to))).ok).toBe(true)
    }
    expect(w.effects.sent).toHaveLength(3)
    expect(await used()).toEqual({ 'ask late': 3 })
  })

  test('that denies still denies a call a person approved for another reason', async () => {
    const w = await open([
      { name: 'ask', tools: ['email.send'], effect: 'require_approval' },
      { name: 'stop', tools: ['email.send'], effect: 'deny', ...perRun(1) },
    ])
    const invocation = await w.invocation()
    for (const [to, passes] of [
      ['a@acme.test', true],
      ['b@acme.test', false],
    ] as const) {
      const proposed = call(w, invocation, send(to))
      if (!passes) expect((await proposed).error?.code).toBe('denied')
      else {
        await expect(proposed).rejects.toBeInstanceOf(ApprovalRequired)
        expect((await approved(w, invocation, send(to))).ok).toBe(true)
      }
    }
    expect(await used()).toEqual({ stop: 1 })
  })

  test('that the last place went to while a person thought denies the approved call', async () => {
    const w = await open([
      { name: 'ask', tools: ['email.send'], when: 'arguments.to == "b"', effect: 'require_approval' },
      { name: 'stop', tools: ['email.send'], effect: 'deny', ...perRun(1) },
    ])
    const invocation = await w.invocation()
    await expect(call(w, invocation, send('b'))).rejects.toBeInstanceOf(ApprovalRequired)
    expect((await call(w, invocation, send('a'))).ok).toBe(true)
    expect((await approved(w, invocation, send('b'))).error?.code).toBe('denied')
    expect(await used()).toEqual({ stop: 1 })
  })

  test('counts the calls of all its tools together, and only those its condition holds for', async () => {
    const when = 'tool != "crm.note" || arguments.text != "free"'
    const w = await open([{ name: 'few calls', tools: ['crm.*'], when, effect: 'deny', ...perRun(2) }])
    const invocation = await w.invocation()
    expect((await call(w, invocation, note('free'))).ok).toBe(true)
    expect((await call(w, invocation, search('jo'))).ok).toBe(true)
    expect((await call(w, invocation, note('two'))).ok).toBe(true)
    expect((await call(w, invocation, note('three'))).error?.code).toBe('denied')
    expect((await call(w, invocation, search('sam'))).error?.code).toBe('denied')
    expect((await call(w, invocation, send('jo@acme.test'))).ok).toBe(true)
    expect(await used()).toEqual({ 'few calls': 2 })
  })

  test('whose condition has no answer is a fault, however much room it has', async () => {
    const when = 'arguments.missing == 1'
    const w = await open([{ name: 'broken', tools: ['crm.note'], when, effect: 'deny', ...perRun(100) }])
    const result = await call(w, await w.invocation(), note('one'))
    expect(result).toMatchObject({ error: { code: 'internal_error' }, stop: 'fault' })
    expect(w.effects.notes).toEqual([])
    expect(await used()).toEqual({})
  })

  test('in shadow counts on without a bound, says what it would have done, and does nothing', async () => {
    const w = await open([
      { name: 'tried out', tools: ['crm.note', 'crm.search'], effect: 'deny', mode: 'shadow', ...perRun(2) },
    ])
    const invocation = await w.invocation()
    for (const text of ['one', 'two', 'three', 'four']) expect((await call(w, invocation, note(text))).ok).toBe(true)
    expect((await call(w, invocation, search('jo'))).ok).toBe(true)
    expect(await used()).toEqual({ 'tried out': 5 })
    await w.core.ledger.flush()
    const { rows } = await db.database.query<{ outcome: string; shadow: JsonValue }>({
      name: '',
      text: 'SELECT outcome, shadow FROM agent.policy_decisions ORDER BY decided_at',
    })
    const would = [{ ruleName: 'tried out', effect: 'deny' }]
    expect(rows.map((row) => row.outcome)).toEqual(Array.from({ length: 5 }, () => 'allow'))
    expect(rows.map((row) => row.shadow)).toEqual([[], [], would, would, would])
  })
})

describe('what is counted', () => {
  test('is a call that was let through: no replay, no refusal, no question', async () => {
    const w = await open([
      { name: 'limit', tools: ['*'], effect: 'deny', ...perRun(10) },
      { name: 'no secrets', tools: ['crm.note'], when: 'arguments.text == "secret"', effect: 'deny' },
      { name: 'ask', tools: ['email.send'], effect: 'require_approval' },
    ])
    const invocation = await w.invocation()
    for (const text of ['once', 'once', 'secret']) await call(w, invocation, note(text))
    await expect(call(w, invocation, send('jo@acme.test'))).rejects.toBeInstanceOf(ApprovalRequired)
    expect((await call(w, invocation, ['crm.note', { wrong: 1 }])).error?.code).toBe('invalid_input')
    expect(await used()).toEqual({ limit: 1 })
  })

  /** A write that behaves as its argument says, the first time. */
  const flaky = () => {
    const tried = new Set<string>()
    return internalTool({
      name: 'crm.flaky',
      description: 'Behaves as told.',
      input: z.object({ how: z.enum(['fine', 'busy', 'missing', 'broken', 'slow']) }),
      output: z.object({}),
      sideEffects: 'write',
      repeatable: false,
      timeoutS: 1,
      handler: async (_invocation, { how }) => {
        if (tried.has(how)) return ok({})
        tried.add(how)
        if (how === 'busy') throw new RetryableUpstreamError('429')
        if (how === 'missing') throw new NotFoundError('nobody')
        if (how === 'broken') throw new Error('a fault')
        if (how === 'slow') await Promise.withResolvers<void>().promise
        return ok({})
      },
    })
  }
  const limited = (count: number) =>
    open([{ name: 'limit', tools: ['crm.flaky'], effect: 'deny', ...perRun(count) }], { extraTools: [flaky()] })

  test('is given back by a call that came to nothing, so that its retry is not refused', async () => {
    const w = await limited(1)
    const invocation = await w.invocation()
    expect((await call(w, invocation, ['crm.flaky', { how: 'busy' }])).error?.code).toBe('retryable_upstream')
    expect(await used()).toEqual({ limit: 0 })
    await expect(call(w, invocation, ['crm.flaky', { how: 'broken' }])).rejects.toThrow('a fault')
    expect(await used()).toEqual({ limit: 0 })
    expect((await call(w, invocation, ['crm.flaky', { how: 'busy' }])).ok).toBe(true)
    expect((await call(w, invocation, ['crm.flaky', { how: 'fine' }])).error?.code).toBe('denied')
    expect(await used()).toEqual({ limit: 1 })
  })

  test('stays counted when the answer is no, or never came', async () => {
    const w = await limited(2)
    const invocation = await w.invocation()
    expect((await call(w, invocation, ['crm.flaky', { how: 'missing' }])).error?.code).toBe('not_found')
    expect((await call(w, invocation, ['crm.flaky', { how: 'slow' }])).error?.code).toBe('timeout')
    expect(await used()).toEqual({ limit: 2 })
    await expect(call(w, invocation, ['crm.flaky', { how: 'slow' }])).rejects.toBeInstanceOf(ClaimInFlight)
    expect((await call(w, invocation, ['crm.flaky', { how: 'fine' }])).error?.code).toBe('denied')
  })

  test('T28 is one call, however many workers died on it: the last place is its own', async () => {
    const w = await limited(1)
    const invocation = await w.invocation()
    expect((await call(w, invocation, ['crm.flaky', { how: 'slow' }])).error?.code).toBe('timeout')
    await db.database.execute("UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second'")
    expect((await call(w, invocation, ['crm.flaky', { how: 'slow' }])).ok).toBe(true)
    expect(await used()).toEqual({ limit: 1 })
  })

  test('is one call when a person says to send it again', async () => {
    const w = await open([{ name: 'limit', tools: ['email.send'], effect: 'deny', ...perRun(1) }])
    const invocation = await w.invocation()
    await call(w, invocation, send('jo@acme.test'))
    await db.database.execute(
      "UPDATE agent.idempotency_keys SET status = 'processing', response = NULL, lease_until = now() - interval '1 second'",
    )
    await expect(call(w, invocation, send('jo@acme.test'))).rejects.toBeInstanceOf(ApprovalRequired)
    const [question] = (await w.core.approvals.list(w.organizationId, { state: 'pending' })).items
    await w.core.approvals.approve({
      organizationId: w.organizationId,
      approvalId: question!.id,
      argumentsHash: question!.argumentsHash,
      decider: { actor: APPROVER, roles: [] },
      note: null,
      outcome: 'send_again',
    })
    expect((await call(w, invocation, send('jo@acme.test'))).ok).toBe(true)
    expect(w.effects.sent).toHaveLength(2)
    expect(await used()).toEqual({ limit: 1 })
  })

  test('goes on when the rule is saved again, and is each organization’s own', async () => {
    const rule = { name: 'limit', tools: ['crm.note'], effect: 'deny', ...perRun(2) } as const
    const w = await open([rule])
    const invocation = await w.invocation()
    for (const text of ['one', 'two']) await call(w, invocation, note(text))
    expect((await call(w, invocation, note('three'))).error?.code).toBe('denied')
    const by = { kind: 'system', id: 'test', name: 'test' } as const
    const raised = {
      ...rule,
      when: null,
      mode: 'enforce',
      approvers: [],
      ttlS: null,
      limit: { count: 3, per: 'run' },
    } as const
    await w.core.stores.rules.save({ organizationId: w.organizationId, by, id: w.core.newId(), rule: raised })
    expect((await call(w, invocation, note('three'))).ok).toBe(true)
    expect((await call(w, invocation, note('four'))).error?.code).toBe('denied')
    const rival = await open([rule], { slug: 'rival', database: db.admin })
    const theirs = await rival.invocation()
    const { organizationId, runId } = theirs
    // Even a tree of the same name.
    const result = await rival.core.ambient.enter(
      { organizationId, runId, rootRunId: invocation.runId, spanId: runId },
      () => rival.core.invoker.invoke({ toolName: 'crm.note', args: { text: 'one' } }, theirs),
    )
    expect(result.ok).toBe(true)
  })
})

describe('the periods of a limit', () => {
  test('a run is its whole tree, and every tree has its own count', async () => {
    const w = await open([{ name: 'once', tools: ['crm.note'], effect: 'deny', limit: { count: 1, per: 'run' } }])
    const [parent, child, other] = [await w.invocation(), await w.invocation(), await w.invocation()]
    const inTreeOf = (root: ToolInvocation, invocation: ToolInvocation, text: string) => {
      const { organizationId, runId } = invocation
      return w.core.ambient.enter({ organizationId, runId, rootRunId: root.runId, spanId: runId }, () =>
        w.core.invoker.invoke({ toolName: 'crm.note', args: { text } }, invocation),
      )
    }
    expect((await inTreeOf(parent, child, 'one')).ok).toBe(true)
    expect((await inTreeOf(parent, parent, 'two')).error?.code).toBe('denied')
    expect((await inTreeOf(parent, await w.invocation(), 'two')).error?.code).toBe('denied')
    expect((await inTreeOf(other, other, 'three')).ok).toBe(true)
    // Outside of any tree a run is its own.
    expect((await w.core.invoker.invoke({ toolName: 'crm.note', args: { text: 'four' } }, other)).error?.code).toBe(
      'denied',
    )
  })

  test.each([
    ['hour', `'hour:' || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24')`],
    ['day', `'day:' || to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')`],
  ] as const)('of the %s begin anew by the clock of the database, in UTC', async (per, period) => {
    const w = await open([{ name: 'once', tools: ['crm.note'], effect: 'deny', limit: { count: 1, per } }])
    const invocation = await w.invocation()
    expect((await call(w, invocation, note('one'))).ok).toBe(true)
    const { rows } = await db.database.query<{ same: boolean }>({
      name: '',
      text: `SELECT period IN (${period}, ${period.replace('now()', "(now() - interval '1 minute')")}) AS same FROM agent.rule_counters`,
    })
    expect(rows).toEqual([{ same: true }])
    // What the end of the period does.
    await db.database.execute("UPDATE agent.rule_counters SET period = split_part(period, ':', 1) || ':1999-12-31'")
    expect((await call(w, invocation, note('two'))).ok).toBe(true)
    expect(await used()).toEqual({ once: 2 })
  })

  test('read the same clock wherever the server stands', async () => {
    const { rows } = await db.database.transaction(async (tx) => {
      await tx.execute("SET LOCAL TIME ZONE 'Pacific/Kiritimati'")
      return tx.query<{ there: string; utc: string }>({
        name: '',
        text: `SELECT agent.limit_period('hour', NULL) AS there,
                 'hour:' || to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24') AS utc`,
      })
    })
    expect(rows[0]?.there).toBe(rows[0]?.utc)
    expect(rows[0]?.there).toMatch(/^hour:\d{4}-\d\d-\d\dT\d\d$/)
  })
})

describe('a read with a limit', () => {
  test('is counted before it runs, so that one that fails is counted too', async () => {
    const failing = internalTool({
      name: 'crm.lookup',
      description: 'Fails.',
      input: z.object({ id: z.string() }),
      output: z.object({}),
      sideEffects: 'read',
      handler: async () => {
        throw new RetryableUpstreamError('429')
      },
    })
    const w = await open([{ name: 'limit', tools: ['crm.lookup'], effect: 'deny', ...perRun(2) }], {
      extraTools: [failing],
    })
    const invocation = await w.invocation()
    const codes = []
    for (const id of ['1', '1', '1']) codes.push((await call(w, invocation, ['crm.lookup', { id }])).error?.code)
    expect(codes).toEqual(['retryable_upstream', 'retryable_upstream', 'denied'])
    expect(await used()).toEqual({ limit: 2 })
  })

  test('that asks past its count cannot wait for a person', async () => {
    const w = await open([{ name: 'limit', tools: ['crm.search'], effect: 'require_approval', ...perRun(1) }])
    const invocation = await w.invocation()
    expect((await call(w, invocation, search('jo'))).ok).toBe(true)
    await expect(call(w, invocation, search('jo'))).rejects.toBeInstanceOf(ReadHeld)
    expect(await used()).toEqual({ limit: 1 })
  })
})
