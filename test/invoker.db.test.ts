import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { internalTool, vendorTool } from '../src/tools/declarations.ts'
import {
  ConflictError,
  NotFoundError,
  RetryableUpstreamError,
  UpstreamUnavailableError,
  ValidationError,
} from '../src/tools/errors.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import { ApprovalRequired, CancelRequested, ClaimInFlight } from '../src/tools/invoker.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { APPROVER, inRun, STARTER, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const open = (options: Omit<WorldOptions, 'database'> = {}): Promise<World> =>
  world({ database: db.database, ...options })

type Proposed = readonly [tool: string, args: unknown]

const call = (w: World, invocation: ToolInvocation, [toolName, args]: Proposed) =>
  inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName, args }, invocation))

async function count(table: string): Promise<number> {
  const { rows } = await db.database.query<{ n: number }>({ name: '', text: `SELECT count(*)::int AS n FROM ${table}` })
  return rows[0]?.n ?? 0
}

/** A write whose behaviour each test chooses. */
function flaky(behave: (attempt: number) => Promise<void>, options: { downstreamKey?: boolean } = {}) {
  let attempts = 0
  const tool = internalTool({
    name: 'crm.flaky',
    description: 'Behaves as told.',
    input: z.object({ id: z.string() }),
    output: z.object({ done: z.boolean() }),
    sideEffects: 'write',
    repeatable: false,
    timeoutS: 1,
    ...(options.downstreamKey === undefined ? {} : { downstreamKey: options.downstreamKey }),
    handler: async () => {
      attempts += 1
      await behave(attempts)
      return ok({ done: true })
    },
  })
  return { tool, attempts: () => attempts }
}

const settings = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const

describe('the journal', () => {
  test('T27 a call that stops for a person leaves no claim behind', async () => {
    const w = await open()
    const invocation = await w.invocation()
    await expect(call(w, invocation, ['email.send', { to: 'jo@acme.test' }])).rejects.toBeInstanceOf(ApprovalRequired)
    expect(await count('agent.idempotency_keys')).toBe(0)
    expect(await count('agent.approvals')).toBe(1)
  })

  test('R20 R21 a completed call answers its replay before policy is asked', async () => {
    const w = await open({ settings })
    const invocation = await w.invocation()
    const first = await call(w, invocation, ['email.send', { to: 'jo@acme.test' }])
    await w.core.stores.organizations.configure(w.organizationId, {
      policyDefaults: { read: 'deny', write: 'deny', send: 'deny' },
    })
    const again = await call(w, invocation, ['email.send', { to: 'jo@acme.test' }])
    expect(again).toMatchObject({ ok: true, data: first.data })
    expect(again.meta.replayedFrom).toBeDefined()
    expect(w.effects.sent).toHaveLength(1)
  })

  test('T29 R22 a live claim on the call’s own key raises, and the model reads no result for it', async () => {
    const { promise: entered, resolve: enter } = Promise.withResolvers<void>()
    const { promise: gate, resolve: leave } = Promise.withResolvers<void>()
    const w = await open({
      settings,
      onSend: async () => {
        enter()
        await gate
      },
    })
    const invocation = await w.invocation()
    const first = call(w, invocation, ['email.send', { to: 'jo@acme.test' }])
    await entered
    await expect(call(w, invocation, ['email.send', { to: 'jo@acme.test' }])).rejects.toBeInstanceOf(ClaimInFlight)
    leave()
    expect((await first).ok).toBe(true)
    expect(w.effects.sent).toHaveLength(1)
  })

  test('T28 a crashed worker’s claim is read as absent, and the next attempt reclaims and executes it', async () => {
    const { tool, attempts } = flaky(async () => undefined)
    const w = await open({ extraTools: [tool] })
    const invocation = await w.invocation()
    await call(w, invocation, ['crm.flaky', { id: '1' }])
    // What a worker that died after its claim leaves: an open claim whose lease ran out.
    await db.database.execute(
      "UPDATE agent.idempotency_keys SET status = 'processing', response = NULL, lease_until = now() - interval '1 second'",
    )
    expect((await call(w, invocation, ['crm.flaky', { id: '1' }])).ok).toBe(true)
    expect(attempts()).toBe(2)
    const { rows } = await db.database.query<{ attempt: number }>({
      name: '',
      text: 'SELECT attempt FROM agent.idempotency_keys',
    })
    expect(rows[0]?.attempt).toBe(2)
  })

  test('T50 R29 a retryable failure leaves no claim, and the next identical call executes', async () => {
    const { tool, attempts } = flaky(async (attempt) => {
      if (attempt === 1) throw new RetryableUpstreamError('429')
    })
    const w = await open({ extraTools: [tool] })
    const invocation = await w.invocation()
    expect((await call(w, invocation, ['crm.flaky', { id: '1' }])).error).toMatchObject({
      code: 'retryable_upstream',
      retryable: true,
    })
    expect(await count('agent.idempotency_keys')).toBe(0)
    expect((await call(w, invocation, ['crm.flaky', { id: '1' }])).ok).toBe(true)
    expect(attempts()).toBe(2)
  })

  test.each([
    ['not_found', () => new NotFoundError('no such person')],
    ['invalid_input', () => new ValidationError('bad')],
    ['conflict', () => new ConflictError('taken')],
    ['unavailable', () => new UpstreamUnavailableError('unsupported')],
  ])(
    'T51 a business failure (%s) leaves a completed claim, and the next identical call returns it',
    async (code, error) => {
      const { tool, attempts } = flaky(async () => {
        throw error()
      })
      const w = await open({ extraTools: [tool] })
      const invocation = await w.invocation()
      expect((await call(w, invocation, ['crm.flaky', { id: '1' }])).error?.code).toBe(code)
      expect((await call(w, invocation, ['crm.flaky', { id: '1' }])).error?.code).toBe(code)
      expect(attempts()).toBe(1)
    },
  )

  test('T64 R27 a domain business exception is a value, and every other exception raises, subclasses and wrappers among them', async () => {
    class Wrapped extends NotFoundError {}
    for (const error of [new Error('database down'), new Wrapped('wrapped'), 'a string']) {
      await empty(db.database)
      const { tool } = flaky(async () => {
        throw error
      })
      const w = await open({ extraTools: [tool] })
      const invocation = await w.invocation()
      await expect(call(w, invocation, ['crm.flaky', { id: '1' }])).rejects.toBe(error)
      expect(await count('agent.idempotency_keys')).toBe(0)
    }
  })

  test('a call that times out while its handler runs holds its claim, and is not run again inside the lease', async () => {
    const { promise: never } = Promise.withResolvers<void>()
    const { tool, attempts } = flaky(() => never)
    const w = await open({ extraTools: [tool] })
    const invocation = await w.invocation()
    expect((await call(w, invocation, ['crm.flaky', { id: '1' }])).error?.code).toBe('timeout')
    await expect(call(w, invocation, ['crm.flaky', { id: '1' }])).rejects.toBeInstanceOf(ClaimInFlight)
    expect(attempts()).toBe(1)
  })

  test('a call past the run’s deadline reaches no handler and leaves no claim', async () => {
    const { tool, attempts } = flaky(async () => undefined)
    const w = await open({ extraTools: [tool] })
    const invocation = { ...(await w.invocation()), deadline: new Date(Date.now() - 1) }
    expect((await call(w, invocation, ['crm.flaky', { id: '1' }])).error?.code).toBe('timeout')
    expect(attempts()).toBe(0)
    expect(await count('agent.idempotency_keys')).toBe(0)
  })

  test('T25 a late worker cannot overwrite a newer attempt, and its answer reaches no model', async () => {
    const { promise: gate, resolve: leave } = Promise.withResolvers<void>()
    const { promise: entered, resolve: enter } = Promise.withResolvers<void>()
    const { tool, attempts } = flaky(async (attempt) => {
      if (attempt > 1) return
      enter()
      await gate
    })
    const w = await open({ extraTools: [tool] })
    const invocation = await w.invocation()
    const late = call(w, invocation, ['crm.flaky', { id: '1' }])
    await entered
    await db.database.execute("UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second'")
    expect((await call(w, invocation, ['crm.flaky', { id: '1' }])).ok).toBe(true)
    leave()
    await expect(late).rejects.toBeInstanceOf(ClaimInFlight)
    expect(attempts()).toBe(2)
    const { rows } = await db.database.query<{ attempt: number; status: string }>({
      name: '',
      text: 'SELECT attempt, status FROM agent.idempotency_keys',
    })
    expect(rows).toEqual([{ attempt: 2, status: 'completed' }])
  })
})

describe('an outcome nobody knows', () => {
  const stranded = async (w: World) => {
    const invocation = await w.invocation()
    await call(w, invocation, ['email.send', { to: 'jo@acme.test' }])
    await db.database.execute(
      "UPDATE agent.idempotency_keys SET status = 'processing', response = NULL, lease_until = now() - interval '1 second'",
    )
    await expect(call(w, invocation, ['email.send', { to: 'jo@acme.test' }])).rejects.toBeInstanceOf(ApprovalRequired)
    const [question] = (await w.core.approvals.list(w.organizationId, { state: 'pending' })).items
    return { invocation, question: question! }
  }
  const answer = (w: World, question: { id: string; argumentsHash: string }, outcome?: 'arrived' | 'send_again') =>
    w.core.approvals.approve({
      organizationId: w.organizationId,
      approvalId: question.id,
      argumentsHash: question.argumentsHash,
      decider: { actor: APPROVER, roles: [] },
      note: null,
      ...(outcome === undefined ? {} : { outcome }),
    })

  test('an unmatched send asks a person instead of running', async () => {
    const w = await open({ settings })
    const { question } = await stranded(w)
    expect(question).toMatchObject({ kind: 'outcome', tool: 'email.send' })
    expect(question.preview).toContain('no answer came')
    expect(w.effects.sent).toHaveLength(1)
  })

  test('an approval that does not say which of the two is refused', async () => {
    const w = await open({ settings })
    const { question } = await stranded(w)
    expect((await answer(w, question)).kind).toBe('outcome_required')
  })

  test('“it arrived” completes the call without sending again', async () => {
    const w = await open({ settings })
    const { invocation, question } = await stranded(w)
    expect((await answer(w, question, 'arrived')).kind).toBe('answered')
    expect(await call(w, invocation, ['email.send', { to: 'jo@acme.test' }])).toMatchObject({ ok: true, data: null })
    expect(w.effects.sent).toHaveLength(1)
  })

  test('“send again” runs the next attempt under the same downstream key', async () => {
    const w = await open({ settings })
    const { invocation, question } = await stranded(w)
    await answer(w, question, 'send_again')
    expect(await call(w, invocation, ['email.send', { to: 'jo@acme.test' }])).toMatchObject({
      ok: true,
      data: { accepted: 'jo@acme.test' },
    })
    expect(w.effects.sent).toHaveLength(2)
  })

  test('a rejection leaves it unknown for good: the model reads timeout, and nothing is sent', async () => {
    const w = await open({ settings })
    const { invocation, question } = await stranded(w)
    await w.core.approvals.reject({
      organizationId: w.organizationId,
      approvalId: question.id,
      argumentsHash: question.argumentsHash,
      decider: { actor: APPROVER, roles: [] },
      note: null,
    })
    expect((await call(w, invocation, ['email.send', { to: 'jo@acme.test' }])).error?.code).toBe('timeout')
    expect(w.effects.sent).toHaveLength(1)
  })
})

describe('before the decision', () => {
  const batch = internalTool({
    name: 'crm.tag_people',
    description: 'Tags people.',
    input: z.object({ ids: z.array(z.string()), tag: z.string().default('x') }),
    output: z.object({ tagged: z.int() }),
    sideEffects: 'write',
    repeatable: false,
    batchArgument: 'ids',
    maxBatchSize: 2,
    handler: {
      execute: async (_invocation, { ids }) => ok({ tagged: ids.length }),
      preview: async () => {
        throw new Error('the preview was reached')
      },
    },
  })

  test('T18 T19 an oversized batch is refused with no journal read, policy read, claim, handler or preview', async () => {
    const w = await open({
      extraTools: [batch],
      rules: [{ name: 'ask', tools: ['crm.tag_people'], effect: 'require_approval' }],
    })
    const invocation = await w.invocation()
    const result = await call(w, invocation, ['crm.tag_people', { ids: ['a', 'b', 'c'] }])
    expect(result.error).toMatchObject({ code: 'batch_too_large' })
    expect(result.error?.message).toContain('at most 2')
    expect(await count('agent.idempotency_keys')).toBe(0)
    expect(await count('agent.policy_decisions')).toBe(0)
    expect(await count('agent.approvals')).toBe(0)
  })

  test('an input off its schema is invalid_input, and a changed contract answers tool_changed even then', async () => {
    const w = await open()
    const invocation = await w.invocation()
    expect((await call(w, invocation, ['crm.note', { wrong: 1 }])).error?.code).toBe('invalid_input')
    const frozen = invocation.contracts['crm.note']!
    const older = { ...invocation, contracts: { 'crm.note': { ...frozen, version: 99 } } }
    expect((await call(w, older, ['crm.note', { wrong: 1 }])).error?.code).toBe('tool_changed')
    expect((await call(w, older, ['crm.note', { text: 'hi' }])).error?.code).toBe('tool_changed')
    expect(w.effects.notes).toEqual([])
  })

  test.each(['constructor', '__proto__', 'toString', 'nope.nope', ''])(
    'a tool the run was not shown (%j) is tool_unavailable',
    async (name) => {
      const w = await open()
      const invocation = await w.invocation()
      expect((await call(w, invocation, [name, {}])).error?.code).toBe('tool_unavailable')
    },
  )

  test('a disabled tool is tool_unavailable from the next call on', async () => {
    const w = await open()
    const invocation = await w.invocation()
    await w.core.stores.tools.setEnabled({
      organizationId: w.organizationId,
      tool: 'crm.note',
      enabled: false,
      by: STARTER,
    })
    expect((await call(w, invocation, ['crm.note', { text: 'hi' }])).error?.code).toBe('tool_unavailable')
  })

  test('T62 R05 the invoker refuses a name the principal does not hold, as a recorded policy decision', async () => {
    const w = await open()
    const invocation = await w.invocation()
    const narrowed = { ...invocation, principal: { ...invocation.principal, scopes: ['crm.search'] } }
    expect((await call(w, narrowed, ['crm.note', { text: 'hi' }])).error?.code).toBe('denied')
    const { rows } = await db.database.query({ name: '', text: 'SELECT stage, outcome FROM agent.policy_decisions' })
    expect(rows).toEqual([{ stage: 1, outcome: 'deny' }])
    expect(w.effects.notes).toEqual([])
  })

  test('R23 a refused call is in the tree, closed error under its stable code', async () => {
    const w = await open({ rules: [{ name: 'no notes', tools: ['crm.note'], effect: 'deny' }] })
    const invocation = await w.invocation()
    await call(w, invocation, ['crm.note', { text: 'hi' }])
    const span = (await w.spans(invocation.runId)).find((node) => node.name === 'crm.note')
    expect(span).toMatchObject({ status: 'error', code: 'denied' })
  })

  test('R24 the span of a call is a child of whatever is current, and no invocation carries its id', async () => {
    const w = await open()
    const invocation = await w.invocation()
    await call(w, invocation, ['crm.note', { text: 'hi' }])
    const tree = await w.core.stores.spans.tree(w.organizationId, invocation.runId)
    expect(tree.find((node) => node.name === 'crm.note')?.parentId).toBe(invocation.runId)
    expect(Object.keys(invocation)).not.toContain('spanId')
  })

  test('a cancelled run raises at its next call', async () => {
    const w = await open()
    const invocation = await w.invocation()
    await w.core.stores.runs.requestCancel({
      organizationId: w.organizationId,
      runId: invocation.runId,
      reason: 'stop',
      by: STARTER,
    })
    await expect(call(w, invocation, ['crm.note', { text: 'hi' }])).rejects.toBeInstanceOf(CancelRequested)
    expect(w.effects.notes).toEqual([])
  })
})

describe('the answer', () => {
  test('T55 R41 a handler returning off schema data produces invalid_output, and its claim is complete', async () => {
    const broken = internalTool({
      name: 'crm.broken',
      description: 'Answers off its contract.',
      input: z.object({}),
      output: z.object({ id: z.string() }),
      sideEffects: 'write',
      repeatable: false,
      handler: async () => ok({ id: 7 as unknown as string }),
    })
    const w = await open({ extraTools: [broken] })
    const invocation = await w.invocation()
    expect((await call(w, invocation, ['crm.broken', {}])).error?.code).toBe('invalid_output')
    const { rows } = await db.database.query({ name: '', text: 'SELECT status FROM agent.idempotency_keys' })
    expect(rows).toEqual([{ status: 'completed' }])
  })

  test('R12 a stop that a handler wrote is dropped', async () => {
    const sly = vendorTool({
      name: 'research.sly',
      description: 'Writes a stop.',
      input: z.object({}),
      output: z.object({}),
      sideEffects: 'read',
      handler: async () => ({ ...ok({}), stop: 'fault' }),
    })
    const w = await open({ extraTools: [sly] })
    const invocation = await w.invocation()
    expect((await call(w, invocation, ['research.sly', {}])).stop).toBeNull()
  })

  test('T33 a handler result is valid against output_schema before the boundary changes its transport form', async () => {
    const many = internalTool({
      name: 'crm.many',
      description: 'Answers more than is kept.',
      input: z.object({}),
      output: z.array(z.int()).min(3),
      sideEffects: 'read',
      maxResults: 2,
      handler: async () => ok([1, 2, 3]),
    })
    const w = await open({ extraTools: [many] })
    const invocation = await w.invocation()
    expect(await call(w, invocation, ['crm.many', {}])).toMatchObject({
      ok: true,
      data: [1, 2],
      meta: { count: 2, truncated: true },
    })
  })
})

describe('previews', () => {
  const previewing = (preview: () => Promise<string>) =>
    internalTool({
      name: 'crm.previewed',
      description: 'Shows a line.',
      input: z.object({ id: z.string() }),
      output: z.object({}),
      sideEffects: 'write',
      repeatable: false,
      timeoutS: 1,
      handler: { execute: async () => ok({}), preview },
    })
  const previewOf = async (preview: () => Promise<string>): Promise<string | null> => {
    const w = await open({
      extraTools: [previewing(preview)],
      rules: [{ name: 'ask', tools: ['crm.previewed'], effect: 'require_approval' }],
    })
    const invocation = await w.invocation()
    await expect(call(w, invocation, ['crm.previewed', { id: '1' }])).rejects.toBeInstanceOf(ApprovalRequired)
    return (await w.core.approvals.list(w.organizationId)).items[0]!.preview
  }

  test('T23 a preview is one line: whitespace runs become single spaces', async () => {
    expect(await previewOf(async () => '  one\n message\t to  Jo ')).toBe('one message to Jo')
  })

  test.each([
    ['an exception', () => Promise.reject(new Error('crm down'))],
    ['an empty line', () => Promise.resolve('  \n ')],
    ['an oversized line', () => Promise.resolve('x'.repeat(513))],
    ['a non-string', () => Promise.resolve(7 as unknown as string)],
  ])('T24 T56 %s files the approval without a preview', async (_what, preview) => {
    expect(await previewOf(preview)).toBeNull()
  })

  test('T24 a preview that does not answer in time files the approval without one', async () => {
    const { promise: never } = Promise.withResolvers<string>()
    expect(await previewOf(() => never)).toBeNull()
  })
})
