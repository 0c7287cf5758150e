import { wrapLanguageModel } from 'ai'
import { describe, expect, test } from 'vitest'
import {
  advance,
  answer,
  endOf,
  openSession,
  proposalsOf,
  READ,
  refusal,
  results,
  SEND,
  START,
  stopSlot,
  story,
  watchedStory,
} from '../../../test/ai-sdk-session.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { ModelPrompt } from './model-types.ts'

function messagesOf(state: JsonValue): readonly JsonValue[] {
  return (state as { messages: readonly JsonValue[] }).messages
}

describe('results of a pause', () => {
  async function paused() {
    const { model, seen } = watchedStory(
      { calls: [{ tool: 'email.send' }, { tool: 'crm.upsert_person' }] },
      { text: 'ok' },
    )
    const session = openSession({ model })
    return { session, seen, proposals: proposalsOf(await advance(session, START)) }
  }

  test('are refused with what is wrong about them', async () => {
    const { session, proposals } = await paused()
    const stranger = proposals.map((proposal) => ({ ...proposal, callId: `${proposal.callId}x` }))
    await expect(advance(session, results(proposals.slice(0, 1), answer(null)))).rejects.toThrow(/has no result/)
    await expect(advance(session, results([...proposals, ...stranger], answer(null)))).rejects.toThrow(/is not open/)
    await expect(advance(session, results([...proposals, ...proposals], answer(null)))).rejects.toThrow(/more than one/)
    await expect(advance(session, results([], answer(null)))).rejects.toThrow(/has no result/)
  })

  test('that nobody waits for are refused with the phase', async () => {
    const session = openSession({ model: story({ text: 'Hello.' }) })
    await expect(advance(session, { kind: 'continue' })).rejects.toThrow(/never started/)
    await expect(advance(session, results([], answer(null)))).rejects.toThrow(/is new and waits for no results/)
    await advance(session, START)
    await expect(advance(session, results([], answer(null)))).rejects.toThrow(/is finished and waits for no results/)
    await expect(advance(session, START)).rejects.toThrow(/already been started/)
  })

  test('T14 stand in one message in the order of the calls, a denial beside a success, however they were delivered', async () => {
    const { session, proposals } = await paused()
    const [sent, denied] = proposals
    if (sent === undefined || denied === undefined) throw new Error('two proposals expected')
    const delivered = [
      { proposal: denied, result: refusal('denied', 'not this one') },
      { proposal: sent, result: answer({ messageId: 'm-1' }) },
    ]
    await advance(session, { kind: 'results', results: delivered })
    expect(messagesOf(session.save().state)[2]).toMatchObject({
      role: 'tool',
      content: [
        { toolCallId: sent.callId, output: { type: 'text', value: expect.stringContaining('m-1') as string } },
        { toolCallId: denied.callId, output: { type: 'text', value: expect.stringContaining('denied') as string } },
      ],
    })
  })

  test('T15 land in the empty slot of the paused call, and no earlier message is edited', async () => {
    const { session, proposals } = await paused()
    const before = messagesOf(session.save().state)
    await advance(session, results(proposals, answer('effect')))
    const after = messagesOf(session.save().state)
    expect(after.slice(0, before.length)).toEqual(before)
    expect(after[before.length]).toMatchObject({
      role: 'tool',
      content: proposals.map(({ callId }) => ({ type: 'tool-result', toolCallId: callId })),
    })
  })
})

describe('stops', () => {
  test('R10 what a read threw is no message of the conversation, although the AI SDK makes a text of it', async () => {
    const { model, seen } = watchedStory({ calls: [{ tool: 'crm.search_people' }] }, { text: 'Nobody is there.' })
    const failure = new Error('password=hunter2')
    const session = openSession({ model, callRead: () => Promise.reject(failure) })
    const events = await advance(session, START)
    expect(endOf(events)).toMatchObject({ kind: 'stopped', stop: { kind: 'failed', error: failure } })
    expect(seen).toHaveLength(1)
    expect(messagesOf(session.save().state)).toHaveLength(1)
  })

  test('R11 a stop leaves the conversation before its turn, which the AI SDK has finished with a pause', async () => {
    const stop = stopSlot()
    const session = openSession({
      model: story({ calls: [{ tool: 'crm.search_people' }, { tool: 'email.send', args: { to: 'jo@acme.test' } }] }),
      stop,
      callRead: () => {
        stop.record({ kind: 'ceiling', reason: 'the budget is spent' })
        return Promise.resolve(refusal('budget_exhausted', 'the budget is spent'))
      },
    })
    const events = await advance(session, START)
    expect(endOf(events)).toEqual({ kind: 'stopped', stop: { kind: 'ceiling', reason: 'the budget is spent' } })
    expect(session.save().state).toMatchObject({ phase: 'running', proposals: [] })
  })

  test('reads that had not started when a stop was recorded do not run', async () => {
    const stop = stopSlot()
    const reads: JsonValue[] = []
    const session = openSession({
      model: story({ calls: ['a', 'b', 'c'].map((q) => ({ tool: 'crm.search_people', args: { q } })) }),
      stop,
      framework: { readConcurrency: 1 },
      callRead: (_, args) => {
        reads.push(args)
        stop.record({ kind: 'cancelled', reason: null })
        return Promise.resolve(answer(null))
      },
    })
    expect(endOf(await advance(session, START)).kind).toBe('stopped')
    expect(reads).toEqual([{ q: 'a' }])
  })

  test('T11 a session that stops hangs up on its own stream, and not on that of another with the same model', async () => {
    const stop = stopSlot()
    const model = story(
      { text: 'A long story about many things.', calls: [{ tool: 'crm.search_people' }] },
      { text: 'End.' },
    )
    const [stopped, other] = [openSession({ model, stop }), openSession({ model })]
    const first = stopped.advance(START, new AbortController().signal)[Symbol.asyncIterator]()
    const second = other.advance(START, new AbortController().signal)[Symbol.asyncIterator]()
    for (const stream of [first, second]) {
      await stream.next()
      expect((await stream.next()).value).toMatchObject({ type: 'text-delta' })
    }
    stop.record({ kind: 'cancelled', reason: 'enough' })
    await first.return?.()
    const rest: unknown[] = []
    for (let next = await second.next(); next.done !== true; next = await second.next()) rest.push(next.value)
    expect(rest.at(-1)).toEqual({ type: 'end', end: { kind: 'finished', text: 'End.' } })
  })
})

describe('the model', () => {
  test('is asked for by the frozen name, once', async () => {
    const asked: string[] = []
    const model = story({ calls: [{ tool: 'crm.search_people' }] }, { text: 'Done.' })
    const session = openSession({
      model,
      modelName: 'openai-compatible/meta/llama-4',
      framework: {
        resolveModel: (name) => {
          asked.push(name)
          return Promise.resolve(model)
        },
      },
    })
    const events = await advance(session, START)
    expect(asked).toEqual(['openai-compatible/meta/llama-4'])
    expect(events.find((event) => event.type === 'turn-end')).toMatchObject({
      usage: { provider: 'openai-compatible', model: 'meta/llama-4' },
    })
  })

  test('R03 reads what its definition says and no other message or tool: without instructions it is sent none', async () => {
    for (const [instructions, roles] of [
      ['Help.', ['system', 'user']],
      ['', ['user']],
    ] as const) {
      const prompts: ModelPrompt[] = []
      const tools: unknown[] = []
      const model = wrapLanguageModel({
        model: story({ text: 'Hello.' }),
        middleware: {
          specificationVersion: 'v4',
          wrapStream: ({ doStream, params }) => {
            prompts.push(params.prompt)
            tools.push(params.tools?.map((tool) => tool.name))
            return doStream()
          },
        },
      })
      await advance(openSession({ model, instructions, contracts: [READ, SEND] }), START)
      expect(prompts.map((prompt) => prompt.map((message) => message.role))).toEqual([roles])
      expect(tools).toEqual([['crm_search_people', 'email_send']])
    }
  })
})
