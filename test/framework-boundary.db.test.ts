import { generateText, isStepCount } from 'ai'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { createBailiff } from '../src/bailiff.ts'
import { governed } from '../src/frameworks/ai-sdk/index.ts'
import { createRuntime } from '../src/runtime.ts'
import type { AgentFramework, AgentSession, SessionEvent, SessionRequest } from '../src/runs/session.ts'
import { manualEngine } from '../src/testing/manual-engine.ts'
import type { Script, ScriptedCall, ScriptedConversation } from '../src/testing/script.ts'
import { scriptedModel } from '../src/testing/scripted-model.ts'
import { internalTool } from '../src/tools/declarations.ts'
import { NotFoundError } from '../src/tools/errors.ts'
import { ApprovalRequired } from '../src/tools/invoker.ts'
import { ok, type ToolResult } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, STARTER, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const open = (options: Omit<WorldOptions, 'database'> = {}): Promise<World> =>
  world({ database: db.database, ...options })

const OPEN = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const

const send = (to: string): ScriptedCall => ({ tool: 'email.send', args: { to } })
const note = (text: string): ScriptedCall => ({ tool: 'crm.note', args: { text } })

/** Proposes the given calls in its first turn and repeats what it was answered. */
const proposing =
  (...calls: readonly ScriptedCall[]): Script =>
  ({ turns }) =>
    turns.length === 0 ? { calls } : { text: JSON.stringify(turns[0]?.calls.map((call) => call.result)) }

async function rowsOf<Row>(text: string): Promise<readonly Row[]> {
  return (await db.database.query<Row>({ name: '', text })).rows
}

const FAULT = 'connection to 10.0.0.5 refused for user bailiff with password hunter2'

/** A read whose database is down for its first `times` calls. */
function failing(times: number) {
  let calls = 0
  const tool = internalTool({
    name: 'crm.lookup',
    description: 'Look somebody up.',
    input: z.object({ id: z.string() }),
    output: z.object({ found: z.boolean() }),
    sideEffects: 'read',
    handler: async () => {
      calls += 1
      if (calls <= times) throw new Error(FAULT)
      return ok({ found: true })
    },
  })
  return { tool, calls: () => calls }
}

describe('a fault inside a read', () => {
  const lookup: ScriptedCall = { tool: 'crm.lookup', args: { id: '1' } }

  test('T10 R10 ends the segment before the model speaks again, and what was proposed beside it is not run', async () => {
    const seen: ScriptedConversation[] = []
    const { tool } = failing(1)
    const script: Script = (conversation) => {
      seen.push(conversation)
      return proposing(lookup, note('after the read'))(conversation)
    }
    const w = await open({ script, extraTools: [tool] })
    const run = await w.start()
    expect(await w.engine.settle()).toBe(1)
    expect(seen).toHaveLength(1)
    expect(w.effects.notes).toEqual([])
    expect((await w.run(run.id)).status).toBe('queued')
    const [span] = (await w.spans(run.id)).filter((node) => node.name === 'crm.lookup')
    expect(span).toMatchObject({ status: 'error', code: 'Error' })
  })

  test('T10 is tried again from where the run stood, and its text reaches neither the model nor the run', async () => {
    const seen: ScriptedConversation[] = []
    const { tool, calls } = failing(1)
    const script: Script = (conversation) => {
      seen.push(conversation)
      return proposing(lookup)(conversation)
    }
    const w = await open({ script, extraTools: [tool] })
    const run = await w.start()
    await w.engine.settle()
    await db.database.execute('UPDATE agent.runs SET wake_at = now()')
    await w.engine.sweep()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'completed', output: '[{"ok":true,"data":{"found":true}}]' })
    expect(calls()).toBe(2)
    expect(seen.map((conversation) => conversation.turns.length)).toEqual([0, 0, 1])
    const kept = await rowsOf(
      'SELECT (SELECT json_agg(s) FROM agent.spans s) AS spans, (SELECT json_agg(s) FROM agent.run_sessions s) AS sessions',
    )
    expect(JSON.stringify([kept, seen])).not.toContain('hunter2')
  })

  test('T10 fails the run once its tries are spent, under a code and without the fault’s own words', async () => {
    const { tool } = failing(Infinity)
    const w = await open({ script: proposing(lookup), extraTools: [tool] })
    const run = await w.start()
    for (let segment = 0; segment < 3; segment += 1) {
      await w.engine.settle()
      await db.database.execute('UPDATE agent.runs SET wake_at = now() WHERE ended_at IS NULL')
      await w.engine.sweep()
    }
    const ended = await w.run(run.id)
    expect(ended).toMatchObject({ status: 'failed', reason: 'internal_error', output: null })
    expect(ended.message).not.toContain('10.0.0.5')
  })
})

describe('a framework', () => {
  test('T13 R07 holds no code for a write; the call pauses and the invoker runs it there', async () => {
    const noted: string[] = []
    const bailiff = await createBailiff({
      database: db.database,
      tools: [
        internalTool({
          name: 'crm.note',
          description: 'Write a note.',
          input: z.object({ text: z.string() }),
          output: z.object({ count: z.int() }),
          sideEffects: 'write',
          repeatable: false,
          handler: async (_invocation, { text }) => ok({ count: noted.push(text) }),
        }),
      ],
    })
    const session = await governed(bailiff, { agent: 'notes', tools: ['crm.note'] })
    const run = await session.start('Write it down.')
    expect(run.tools['crm_note']).toBeDefined()
    expect(run.tools['crm_note']?.execute).toBeUndefined()
    const model = scriptedModel({ name: 'scripted/notes', next: proposing(note('a')) })
    const { messages, tools, stopWhen } = run
    const answer = await generateText({ model, messages, tools, stopWhen: [isStepCount(5), stopWhen] })
    expect(answer.toolCalls.map((call) => call.toolName)).toEqual(['crm_note'])
    expect(noted).toEqual([])
    expect((await run.drain(answer)).kind).toBe('ready')
    expect(noted).toEqual(['a'])
    expect(run.messages.at(-1)).toMatchObject({ role: 'tool', content: [{ toolName: 'crm_note' }] })
  })

  test('R14 is handed no write to run: the drain loop takes every one of them to the invoker', async () => {
    const { adapter, reads } = probe([
      ['crm.search', { query: 'jo' }],
      ['crm.note', { text: 'a' }],
      ['email.send', { to: 'jo@acme.test' }],
    ])
    const { w, run } = await runUnder(adapter, { settings: OPEN })
    expect(reads.map((read) => read.tool)).toEqual(['crm.search'])
    expect(w.effects).toEqual({
      searches: ['jo'],
      notes: ['a'],
      sent: [{ to: 'jo@acme.test', subject: 'hello' }],
    })
    expect((await w.run(run.id)).status).toBe('completed')
  })

  test('T09 R06 that takes a write for a read meets the same policy, and cannot run what it refuses', async () => {
    const { adapter, reads } = probe([['crm.note', { text: 'a' }]], { everythingIsARead: true })
    const rules = [{ name: 'no notes', tools: ['crm.note'], effect: 'deny' }] as const
    const { w } = await runUnder(adapter, { rules })
    expect(reads.map((read) => read.result.error?.code)).toEqual(['denied'])
    expect(w.effects.notes).toEqual([])
    expect(await rowsOf('SELECT tool, outcome, rule_name FROM agent.policy_decisions')).toEqual([
      { tool: 'crm.note', outcome: 'deny', rule_name: 'no notes' },
    ])
  })

  test('R06 policy is asked about every call again: read, write, first and second alike', async () => {
    const { adapter } = probe([
      ['crm.search', { query: 'jo' }],
      ['crm.search', { query: 'jo' }],
      ['crm.note', { text: 'a' }],
      ['crm.note', { text: 'b' }],
    ])
    await runUnder(adapter, { rules: [{ name: 'seen', tools: ['crm.*'], effect: 'require_approval', mode: 'shadow' }] })
    const decisions = await rowsOf<{ tool: string; outcome: string }>(
      'SELECT tool, outcome FROM agent.policy_decisions ORDER BY tool',
    )
    expect(decisions).toEqual([
      { tool: 'crm.note', outcome: 'allow' },
      { tool: 'crm.note', outcome: 'allow' },
      { tool: 'crm.search', outcome: 'allow' },
      { tool: 'crm.search', outcome: 'allow' },
    ])
  })
})

describe('what the invoker answers', () => {
  test('R08 allowed, denied, off its schema, unknown and refused by the business: one segment, no wake-up', async () => {
    const missing = internalTool({
      name: 'crm.rename',
      description: 'Rename somebody.',
      input: z.object({ id: z.string() }),
      output: z.object({}),
      sideEffects: 'write',
      repeatable: false,
      handler: async () => {
        throw new NotFoundError('nobody has this id')
      },
    })
    const calls = [
      note('a'),
      send('jo@acme.test'),
      { tool: 'crm.note', args: { wrong: 1 } },
      { tool: 'crm.never', args: {} },
      { tool: 'crm.rename', args: { id: '7' } },
    ]
    const w = await open({
      script: proposing(...calls),
      extraTools: [missing],
      rules: [{ name: 'no mail', tools: ['email.send'], effect: 'deny' }],
    })
    const run = await w.start()
    expect(await w.engine.settle()).toBe(1)
    const ended = await w.run(run.id)
    expect(ended.status).toBe('completed')
    const answers = JSON.parse(ended.output as string) as ToolResult[]
    expect(answers.map((answer) => answer.error?.code ?? 'ok')).toEqual([
      'ok',
      'denied',
      'invalid_input',
      'tool_unavailable',
      'not_found',
    ])
  })

  test('R08 a wait for a person is what parks the run and needs a wake-up', async () => {
    const w = await open({ script: proposing(send('jo@acme.test')) })
    const run = await w.start()
    await w.engine.settle()
    expect((await w.run(run.id)).status).toBe('parked')
    expect(await w.engine.settle()).toBe(0)
    await w.approve(run.id)
    expect(await w.engine.settle()).toBe(1)
  })

  test('R15 fills the empty slot of its own call, and no message from before is edited', async () => {
    const seen: ScriptedConversation[] = []
    const script: Script = (conversation) => {
      seen.push(conversation)
      return proposing(send('jo@acme.test'), send('sam@acme.test'))(conversation)
    }
    const w = await open({ script })
    const run = await w.start()
    await w.engine.settle()
    const before = await messagesOf(run.id)
    await w.approve(run.id)
    await w.engine.settle()
    const after = await messagesOf(run.id)
    expect(before.length).toBeGreaterThan(0)
    expect(after.slice(0, before.length)).toEqual(before)
    const calls = seen.at(-1)?.turns[0]?.calls
    expect(calls?.map(({ args, result }) => [args, result])).toMatchObject([
      [{ to: 'jo@acme.test' }, { ok: true, data: { accepted: 'jo@acme.test' } }],
      [{ to: 'sam@acme.test' }, { ok: true, data: { accepted: 'sam@acme.test' } }],
    ])
  })

  test('R17 an approval handed along for another call is ignored: this one is decided anew and asks for itself', async () => {
    const w = await open()
    const invocation = await w.invocation()
    const call = (to: string, authorizedBy: readonly string[]) =>
      inRun(w.core, invocation, () =>
        w.core.invoker.invoke({ toolName: 'email.send', args: { to } }, invocation, { authorizedBy }),
      )
    await expect(call('jo@acme.test', [])).rejects.toBeInstanceOf(ApprovalRequired)
    const [first] = await w.pending(invocation.runId)
    await w.approve(invocation.runId)
    const other = call('sam@acme.test', [first!.id])
    await expect(other).rejects.toBeInstanceOf(ApprovalRequired)
    await expect(other).rejects.not.toMatchObject({ approvalId: first!.id })
    expect(w.effects.sent).toEqual([])
    expect(await call('jo@acme.test', [first!.id])).toMatchObject({ ok: true })
    expect(w.effects.sent.map((mail) => mail.to)).toEqual(['jo@acme.test'])
  })

  test('T69 a run cancelled in the middle of a turn answers nothing more, and no result names the cancel', async () => {
    const seen: ScriptedConversation[] = []
    const { promise: started, resolve: begin } = Promise.withResolvers<void>()
    const { promise: gate, resolve: leave } = Promise.withResolvers<void>()
    const script: Script = (conversation) => {
      seen.push(conversation)
      return proposing(send('jo@acme.test'), send('sam@acme.test'))(conversation)
    }
    const onSend = async (): Promise<void> => {
      begin()
      await gate
    }
    const w = await open({ script, settings: OPEN, onSend })
    const run = await w.start()
    const settled = w.engine.settle()
    await started
    const by = { kind: 'user', id: 'ada', name: 'Ada' } as const
    await w.runtime.runs.cancel({ organizationId: w.organizationId, runId: run.id, reason: 'enough', by })
    leave()
    await settled
    expect(await w.run(run.id)).toMatchObject({ status: 'cancelled' })
    expect(w.effects.sent.map((mail) => mail.to)).toEqual(['jo@acme.test'])
    expect(seen).toHaveLength(1)
    const kept = await rowsOf(
      `SELECT (SELECT json_agg(s) FROM agent.spans s) AS spans, (SELECT json_agg(s) FROM agent.run_sessions s) AS sessions,
        (SELECT json_agg(k) FROM agent.idempotency_keys k) AS journal`,
    )
    expect(JSON.stringify(kept)).not.toContain('parent_cancelled')
  })
})

async function messagesOf(runId: string): Promise<readonly unknown[]> {
  const [row] = await rowsOf<{ state: unknown }>(`SELECT state FROM agent.run_sessions WHERE run_id = '${runId}'`)
  return findMessages(row?.state)
}

/** The conversation inside a saved state, wherever the adapter keeps it. */
function findMessages(value: unknown): readonly unknown[] {
  if (typeof value !== 'object' || value === null) return []
  const { messages } = value as { messages?: unknown }
  if (Array.isArray(messages)) return messages
  return Object.values(value).flatMap(findMessages)
}

type ProbedCall = readonly [tool: string, args: { readonly [key: string]: string }]

interface Probe {
  readonly adapter: AgentFramework
  /** What the adapter asked the segment to run inside its own loop. */
  readonly reads: { readonly tool: string; readonly result: ToolResult }[]
}

/** A framework of its own: one turn with the given calls, reads run inside and everything else paused on. */
function probe(calls: readonly ProbedCall[], behaviour: { readonly everythingIsARead?: boolean } = {}): Probe {
  const reads: Probe['reads'] = []
  const open = (request: SessionRequest): AgentSession => {
    const isRead = (tool: string): boolean =>
      behaviour.everythingIsARead === true ||
      request.contracts.find(({ name }) => name === tool)?.sideEffects === 'read'
    let answered = false
    async function* advance(): AsyncGenerator<SessionEvent, void> {
      if (answered) {
        yield { type: 'end', end: { kind: 'finished', text: 'done' } }
        return
      }
      answered = true
      yield { type: 'turn-start' }
      for (const [tool, args] of calls.filter(([name]) => isRead(name)))
        reads.push({ tool, result: await request.callRead(tool, args) })
      yield {
        type: 'turn-end',
        text: '',
        usage: { provider: 'probe', model: 'probe', inputTokens: 1, outputTokens: 1 },
      }
      const proposals = calls
        .filter(([name]) => !isRead(name))
        .map(([toolName, args], index) => ({ callId: `call-${index}`, toolName, args }))
      if (proposals.length === 0) yield { type: 'end', end: { kind: 'finished', text: 'done' } }
      else yield { type: 'end', end: { kind: 'paused', proposals } }
    }
    return { advance, save: () => ({ framework: 'probe', version: 1, state: answered }) }
  }
  return { adapter: { name: 'probe', open }, reads }
}

async function runUnder(adapter: AgentFramework, options: Omit<WorldOptions, 'database'>) {
  const w = await open(options)
  const engine = manualEngine()
  const runtime = createRuntime(w.core, { frameworks: [adapter], engine, defaultModel: 'probe/probe' })
  await runtime.start()
  const { organizationId } = w
  const run = await runtime.runs.start({
    organizationId,
    definition: 'outreach',
    input: 'go',
    startedBy: STARTER,
    source: 'api',
  })
  await engine.settle()
  return { w, run }
}
