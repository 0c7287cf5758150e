import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Script, ScriptedCall } from '../src/testing/script.ts'
import { syncRules } from '../src/bailiff.ts'
import { internalTool } from '../src/tools/declarations.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { STARTER, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const open = (options: Omit<WorldOptions, 'database'> = {}): Promise<World> =>
  world({ database: db.database, ...options })

const send = (to: string): ScriptedCall => ({ tool: 'email.send', args: { to } })
const note = (text: string): ScriptedCall => ({ tool: 'crm.note', args: { text } })

/** Proposes the given calls in its first turn and sums up afterwards. */
const proposing =
  (...calls: readonly ScriptedCall[]): Script =>
  ({ turns }) =>
    turns.length === 0 ? { text: 'on it', calls } : { text: JSON.stringify(turns[0]?.calls.map((call) => call.result)) }

const settle = async (w: World): Promise<void> => {
  await w.engine.settle()
}

describe('approval', () => {
  test('T15 a required approval ends the segment, and the resume executes the tool once into the paused call’s slot', async () => {
    const w = await open({ script: proposing(send('jo@acme.test')) })
    const run = await w.start()
    await settle(w)
    expect((await w.run(run.id)).status).toBe('parked')
    expect(w.effects.sent).toEqual([])
    await w.approve(run.id)
    await settle(w)
    const ended = await w.run(run.id)
    expect(ended.status).toBe('completed')
    expect(ended.output).toContain('jo@acme.test')
    expect(w.effects.sent).toEqual([{ to: 'jo@acme.test', subject: 'hello' }])
  })

  test('T16 R19 a required approval closes its tool span ok, carrying the approval id', async () => {
    const w = await open({ script: proposing(send('jo@acme.test')) })
    const run = await w.start()
    await settle(w)
    const [pending] = await w.pending(run.id)
    const span = (await w.spans(run.id)).find((node) => node.name === 'email.send')
    expect(span).toMatchObject({ status: 'ok', code: null, attributes: { approvalId: pending?.id } })
  })

  test('T26 a turn holding two gated write calls finishes in three passes, with two effects', async () => {
    const w = await open({ script: proposing(send('jo@acme.test'), send('sam@other.test')) })
    const run = await w.start()
    expect(await w.engine.settle()).toBe(1)
    // Both are filed at once, so that the person sees the whole turn.
    const [first, second] = await w.pending(run.id)
    const answer = {
      organizationId: w.organizationId,
      decider: { actor: { kind: 'user', id: 'b', name: 'Ben' }, roles: [] },
      note: null,
    } as const
    await w.core.approvals.approve({ ...answer, approvalId: first!.id, argumentsHash: first!.argumentsHash })
    expect(await w.engine.settle()).toBe(1)
    expect(w.effects.sent.map((mail) => mail.to)).toEqual(['jo@acme.test'])
    expect((await w.run(run.id)).status).toBe('parked')
    await w.core.approvals.approve({ ...answer, approvalId: second!.id, argumentsHash: second!.argumentsHash })
    expect(await w.engine.settle()).toBe(1)
    expect(w.effects.sent.map((mail) => mail.to)).toEqual(['jo@acme.test', 'sam@other.test'])
    expect((await w.run(run.id)).status).toBe('completed')
  })

  test('two holds answered together are executed in one pass, and the model is called once after the last answer', async () => {
    let turns = 0
    const script: Script = (conversation) => {
      turns += 1
      return proposing(send('jo@acme.test'), send('sam@other.test'))(conversation)
    }
    const w = await open({ script })
    const run = await w.start()
    await settle(w)
    await w.approve(run.id)
    await settle(w)
    expect(w.effects.sent).toHaveLength(2)
    expect(turns).toBe(2)
  })

  test('T17 a resumed pause holding a second write call decides it live, and parks the run on its own approval', async () => {
    const w = await open({ script: proposing(send('jo@acme.test'), send('sam@other.test')) })
    const run = await w.start()
    await settle(w)
    const [first, second] = await w.pending(run.id)
    await w.core.approvals.approve({
      organizationId: w.organizationId,
      approvalId: first!.id,
      argumentsHash: first!.argumentsHash,
      decider: { actor: { kind: 'user', id: 'b', name: 'Ben' }, roles: [] },
      note: null,
    })
    await settle(w)
    expect((await w.run(run.id)).status).toBe('parked')
    expect((await w.pending(run.id)).map((approval) => approval.id)).toEqual([second!.id])
  })

  test('T52 R16 an approved call executes on resume even when the model proposes nothing', async () => {
    const script: Script = ({ turns }) =>
      turns.length === 0 ? { calls: [send('jo@acme.test')] } : { text: 'nothing more' }
    const w = await open({ script })
    const run = await w.start()
    await settle(w)
    await w.approve(run.id)
    await settle(w)
    expect(w.effects.sent).toHaveLength(1)
    expect((await w.run(run.id)).output).toBe('nothing more')
  })

  test('T53 a rejected approval returns a rejected result into the loop, and the run continues', async () => {
    const w = await open({ script: proposing(send('jo@acme.test')) })
    const run = await w.start()
    await settle(w)
    await w.reject(run.id, 'wrong person')
    await settle(w)
    const ended = await w.run(run.id)
    expect(ended.status).toBe('completed')
    expect(ended.output).toContain('rejected')
    expect(ended.output).toContain('wrong person')
    expect(w.effects.sent).toEqual([])
  })

  test('R18 a call a person already refused is refused again in a later turn, without a second card', async () => {
    const script: Script = ({ turns }) =>
      turns.length < 2 ? { calls: [send('jo@acme.test')] } : { text: JSON.stringify(turns[1]?.calls[0]?.result) }
    const w = await open({ script })
    const run = await w.start()
    await settle(w)
    await w.reject(run.id, 'no')
    await settle(w)
    const ended = await w.run(run.id)
    expect(ended.status).toBe('completed')
    expect(ended.output).toContain('rejected')
    expect((await w.core.approvals.list(w.organizationId, { runId: run.id })).items).toHaveLength(1)
  })

  test('T32 a revoked tool is refused after an approval resume', async () => {
    const w = await open({ script: proposing(send('jo@acme.test')) })
    const run = await w.start()
    await settle(w)
    await w.approve(run.id)
    await w.core.stores.grants.revoke({
      organizationId: w.organizationId,
      definition: 'outreach',
      tool: 'email.send',
      by: { kind: 'system', id: 't', name: 't' },
    })
    await settle(w)
    expect((await w.run(run.id)).output).toContain('denied')
    expect(w.effects.sent).toEqual([])
  })

  test('an approval nobody answers in time is told to the model as a rejection, and the run ends', async () => {
    const w = await open({
      script: proposing(send('jo@acme.test')),
      rules: [{ name: 'ask quickly', tools: ['email.send'], effect: 'require_approval', ttlS: 1 }],
    })
    const run = await w.start()
    await settle(w)
    await db.database.execute("UPDATE agent.approvals SET expires_at = now() - interval '1 second'")
    await w.engine.sweep()
    await settle(w)
    const ended = await w.run(run.id)
    expect(ended.status).toBe('completed')
    expect(ended.output).toContain('nobody answered')
    expect(w.effects.sent).toEqual([])
  })
})

describe('one turn, several proposals', () => {
  test('T14 R09 two proposals in one turn get two decisions, and a denial does not stop the call beside it', async () => {
    const w = await open({
      script: proposing(note('keep'), send('jo@acme.test')),
      rules: [{ name: 'no mail', tools: ['email.send'], effect: 'deny' }],
    })
    const run = await w.start()
    await settle(w)
    const ended = await w.run(run.id)
    expect(ended.status).toBe('completed')
    expect(ended.output).toContain('denied')
    expect(w.effects.notes).toEqual(['keep'])
    expect(w.effects.sent).toEqual([])
  })

  test('T12 a call policy allows pauses, is granted in process, and never reaches the engine', async () => {
    const w = await open({ script: proposing(note('a')) })
    const run = await w.start()
    expect(await w.engine.settle()).toBe(1)
    expect((await w.run(run.id)).status).toBe('completed')
    expect(w.effects.notes).toEqual(['a'])
  })

  test('T60 a non repeatable tool called twice with identical arguments writes one', async () => {
    const script: Script = ({ turns }) =>
      turns.length < 2 ? { calls: [note('same')] } : { text: JSON.stringify(turns[1]?.calls[0]?.result) }
    const w = await open({ script })
    const run = await w.start()
    await settle(w)
    expect(w.effects.notes).toEqual(['same'])
    expect((await w.run(run.id)).output).toContain('replay')
    const replays = (await w.spans(run.id)).filter((span) => span.attributes['replayed'] === true)
    expect(replays).toHaveLength(1)
  })

  test('with one tool call left, ten proposed notes are one note', async () => {
    const calls = Array.from({ length: 10 }, (_, index) => note(`n${index}`))
    const w = await open({ script: proposing(...calls), ceilings: { maxToolCalls: 1 } })
    const run = await w.start()
    await settle(w)
    expect(w.effects.notes).toEqual(['n0'])
    expect(await w.run(run.id)).toMatchObject({ status: 'partial', reason: 'max_tool_calls' })
  })
})

describe('reads and stops', () => {
  test('a read held by a rule that came while its segment ran ends the run, and the model reads nothing about it', async () => {
    const seen: number[] = []
    const script: Script = ({ turns }) => {
      seen.push(turns.length)
      return {
        calls: [turns.length === 0 ? { tool: 'ops.tighten', args: {} } : { tool: 'crm.search', args: { query: 'jo' } }],
      }
    }
    const tighten = internalTool({
      name: 'ops.tighten',
      description: 'Adds a rule.',
      input: z.object({}),
      output: z.object({}),
      sideEffects: 'read',
      handler: async () => {
        const rules = [{ name: 'ask for reads', tools: ['crm.search'], effect: 'require_approval' as const }]
        await syncRules(w.core, { organizationId: w.organizationId, rules, by: STARTER })
        return ok({})
      },
    })
    const w: World = await open({ script, extraTools: [tighten] })
    const run = await w.start()
    await settle(w)
    expect(await w.run(run.id)).toMatchObject({ status: 'failed', reason: 'read_tool_needs_approval' })
    expect(w.effects.searches).toEqual([])
    expect(seen).toEqual([0, 1])
  })

  test('T09 a denied read reaches no handler, and the model is told', async () => {
    const script: Script = ({ turns }) =>
      turns.length === 0
        ? { calls: [{ tool: 'crm.search', args: { query: 'jo' } }] }
        : { text: JSON.stringify(turns[0]?.calls[0]?.result) }
    const w = await open({ script, rules: [{ name: 'no search', tools: ['crm.search'], effect: 'deny' }] })
    const run = await w.start()
    await settle(w)
    expect((await w.run(run.id)).output).toContain('denied')
    expect(w.effects.searches).toEqual([])
  })

  test('a cancel stops a parked run at its next boundary and closes its open approvals', async () => {
    const w = await open({ script: proposing(send('jo@acme.test')) })
    const run = await w.start()
    await settle(w)
    await w.runtime.runs.cancel({
      organizationId: w.organizationId,
      runId: run.id,
      reason: 'changed my mind',
      by: { kind: 'user', id: 'a', name: 'Ada' },
    })
    await settle(w)
    expect(await w.run(run.id)).toMatchObject({ status: 'cancelled', message: 'changed my mind' })
    expect((await w.core.approvals.list(w.organizationId, { runId: run.id })).items[0]?.state).toBe('cancelled')
    expect(w.effects.sent).toEqual([])
  })
})
