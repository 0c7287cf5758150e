import { generateText, isStepCount, streamText, ToolLoopAgent } from 'ai'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { empty, testDatabase, type TestDatabase } from '../../../test/setup/database.ts'
import { createBailiff, type Bailiff } from '../../bailiff.ts'
import type { Database } from '../../storage/database.ts'
import type { Script } from '../../testing/script.ts'
import { scriptedModel } from '../../testing/scripted-model.ts'
import { internalTool } from '../../tools/declarations.ts'
import { ok } from '../../tools/models.ts'
import { governed, type GovernedRun } from './own-loop.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

type Name = 'message.post' | 'crm.find'

async function open(database: Database, posted: string[]): Promise<Bailiff<Name>> {
  return createBailiff({
    database,
    tools: [
      internalTool({
        name: 'message.post',
        description: 'Post a message.',
        input: z.object({ to: z.string() }),
        output: z.object({ to: z.string() }),
        sideEffects: 'write',
        repeatable: false,
        handler: async (_invocation, { to }) => {
          posted.push(to)
          return ok({ to })
        },
      }),
      internalTool({
        name: 'crm.find',
        description: 'Find somebody.',
        input: z.object({ name: z.string() }),
        output: z.object({ found: z.boolean() }),
        sideEffects: 'read',
        handler: async (_invocation, { name }) => {
          if (name === 'down') throw new Error('the database is down: password=hunter2')
          return ok({ found: true })
        },
      }),
    ],
    rules: [{ name: 'ask', tools: ['message.post'], when: 'arguments.to != "staff"', effect: 'require_approval' }],
  })
}

const post = (to: string) => ({ tool: 'message.post', args: { to } })
const find = (name: string) => ({ tool: 'crm.find', args: { name } })

const OPTIONS = { agent: 'support', tools: ['message.post', 'crm.find'] } as const

async function converse(run: GovernedRun, script: Script): Promise<void> {
  const model = scriptedModel({ name: 'scripted/own', next: script })
  while (run.status.kind === 'ready') {
    const { messages, tools, stopWhen } = run
    await run.drain(await generateText({ model, messages, tools, stopWhen: [isStepCount(5), stopWhen], maxRetries: 0 }))
  }
}

async function approveAll(bailiff: Bailiff): Promise<void> {
  for (const { id, argumentsHash } of (await bailiff.approvals.list({ state: 'pending' })).items) {
    expect((await bailiff.approvals.approve({ id, argumentsHash, by: { id: 'ben', name: 'Ben' } })).kind).toBe(
      'answered',
    )
  }
}

const summing =
  (...calls: readonly { tool: string; args: { [key: string]: string } }[]): Script =>
  ({ turns }) =>
    turns.length === 0 ? { calls } : { text: JSON.stringify(turns[0]?.calls.map((call) => call.result)) }

describe('a governed session in a loop of your own', () => {
  test('an allowed write runs in process, and the run finishes with what the model said', async () => {
    const posted: string[] = []
    const bailiff = await open(db.database, posted)
    const run = await (await governed(bailiff, OPTIONS)).start('go')
    await converse(run, summing(post('staff')))
    expect(run.status).toMatchObject({ kind: 'finished', text: expect.stringContaining('"staff"') as string })
    expect(posted).toEqual(['staff'])
  })

  test('a held write parks the run; another process goes on with it after the answer, and the effect happens once', async () => {
    const posted: string[] = []
    const first = await open(db.database, posted)
    const run = await (await governed(first, OPTIONS)).start('go')
    await converse(run, summing(find('jo'), post('jo'), post('staff')))
    expect(run.status).toMatchObject({
      kind: 'waiting',
      approvals: [{ tool: 'message.post', arguments: { to: 'jo' } }],
    })
    // The proposal behind the hold was decided and not executed.
    expect(posted).toEqual([])
    const second = await open(await db.another(), posted)
    await approveAll(second)
    const resumed = await (await governed(second, OPTIONS)).continue(run.runId)
    await converse(resumed, summing(find('jo'), post('jo'), post('staff')))
    expect(resumed.status.kind).toBe('finished')
    expect(posted).toEqual(['jo', 'staff'])
  })

  test('what the loop read before it proposed a write is still told when the run goes on', async () => {
    const posted: string[] = []
    const bailiff = await open(db.database, posted)
    const session = await governed(bailiff, OPTIONS)
    const script: Script = ({ turns }) =>
      [{ text: 'Looking.', calls: [find('jo')] }, { calls: [post('jo')] }][turns.length] ?? {
        text: JSON.stringify(turns.map((turn) => [turn.text, turn.calls.map((call) => call.result)])),
      }
    const run = await session.start('go')
    await converse(run, script)
    await approveAll(bailiff)
    const resumed = await session.continue(run.runId)
    await converse(resumed, script)
    const told = [
      ['Looking.', [{ ok: true, data: { found: true } }]],
      ['', [{ ok: true, data: { to: 'jo' } }]],
    ]
    expect(resumed.status).toEqual({ kind: 'finished', text: JSON.stringify(told) })
  })

  test('a model that fails after an approved write leaves a run that goes on without a second effect', async () => {
    const posted: string[] = []
    const bailiff = await open(db.database, posted)
    const session = await governed(bailiff, OPTIONS)
    const run = await session.start('go')
    await converse(run, summing(post('jo')))
    await approveAll(bailiff)
    const resumed = await session.continue(run.runId)
    const failing: Script = () => ({ fail: new Error('the provider is down') })
    await expect(converse(resumed, failing)).rejects.toThrow('the provider is down')
    expect(posted).toEqual(['jo'])
    const again = await session.continue(run.runId)
    await converse(again, summing(post('jo')))
    expect(again.status).toMatchObject({ kind: 'finished' })
    expect(posted).toEqual(['jo'])
  })

  test('continuing twice at once does not make the effect twice', async () => {
    const posted: string[] = []
    const bailiff = await open(db.database, posted)
    const session = await governed(bailiff, OPTIONS)
    const run = await session.start('go')
    await converse(run, summing(post('jo')))
    await approveAll(bailiff)
    await Promise.allSettled([session.continue(run.runId), session.continue(run.runId)])
    expect(posted).toEqual(['jo'])
  })

  test('T10 a database fault inside a read ends the run, and no text of it reaches the model', async () => {
    const seen: string[] = []
    const bailiff = await open(db.database, [])
    const run = await (await governed(bailiff, OPTIONS)).start('go')
    const script: Script = ({ turns }) => {
      seen.push(JSON.stringify(turns))
      return { calls: [find('down')] }
    }
    await expect(converse(run, script)).rejects.toThrow('the database is down')
    expect(seen.join('')).not.toContain('hunter2')
  })

  test('a ceiling ends the run with its reason', async () => {
    const posted: string[] = []
    const bailiff = await open(db.database, posted)
    const run = await (await governed(bailiff, { ...OPTIONS, ceilings: { maxToolCalls: 1 } })).start('go')
    await converse(run, summing(post('staff'), { tool: 'message.post', args: { to: 'staff2' } }))
    expect(run.status).toEqual({ kind: 'ended', status: 'partial', reason: 'max_tool_calls' })
    expect(posted).toEqual(['staff'])
  })

  test('a guarded model cannot say two things at once: a key written twice is invalid, and nothing runs', async () => {
    const posted: string[] = []
    const bailiff = await open(db.database, posted)
    const run = await (await governed(bailiff, OPTIONS)).start('go')
    const twice: Script = ({ turns }) =>
      turns.length === 0
        ? { calls: [{ tool: 'message.post', rawArgs: '{"to":"staff","to":"jo"}' }] }
        : { text: String(turns[0]?.calls[0]?.answer) }
    const model = run.guard(scriptedModel({ name: 'scripted/own', next: twice }))
    while (run.status.kind === 'ready') {
      const { messages, tools } = run
      await run.drain(await generateText({ model, messages, tools }))
    }
    expect(run.status).toMatchObject({ kind: 'finished', text: expect.stringContaining('invalid_input') as string })
    expect(posted).toEqual([])
  })

  test('streamText and ToolLoopAgent are governed alike', async () => {
    for (const loop of ['stream', 'agent'] as const) {
      await empty(db.database)
      const posted: string[] = []
      const bailiff = await open(db.database, posted)
      const run = await (await governed(bailiff, OPTIONS)).start('go')
      const model = scriptedModel({ name: 'scripted/own', next: summing(find('jo'), post('staff')) })
      while (run.status.kind === 'ready') {
        const { messages, tools, stopWhen } = run
        if (loop === 'stream') {
          const result = streamText({ model, messages, tools, stopWhen: [isStepCount(5), stopWhen] })
          await result.consumeStream()
          await run.drain(result)
        } else {
          await run.drain(
            await new ToolLoopAgent({ model, tools, stopWhen: [isStepCount(5), stopWhen] }).generate({ messages }),
          )
        }
      }
      expect(run.status.kind).toBe('finished')
      expect(posted).toEqual(['staff'])
    }
  })

  test('a run of the platform or of another organization cannot be continued', async () => {
    const bailiff = await open(db.database, [])
    const session = await governed(bailiff, OPTIONS)
    await expect(session.continue('0199c0de-0000-7000-8000-000000000000')).rejects.toThrow('there is no run')
  })
})
