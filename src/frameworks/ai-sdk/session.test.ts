import { describe, expect, test } from 'vitest'
import {
  advance,
  answer,
  countOf,
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
  textOf,
  watchedStory,
} from '../../../test/ai-sdk-session.ts'
import type { SessionEvent } from '../../runs/session.ts'
import type { JsonValue } from '../../tools/json.ts'

describe('a conversation', () => {
  test('without calls streams its text, reports its usage and ends finished', async () => {
    const session = openSession({ model: story({ text: 'There is nothing to do here, everything is done.' }) })
    const events = await advance(session, START)
    expect(events.map((event) => event.type).filter((type) => type !== 'text-delta')).toEqual([
      'turn-start',
      'turn-end',
      'end',
    ])
    expect(countOf(events, 'text-delta')).toBeGreaterThan(1)
    expect(textOf(events)).toBe('There is nothing to do here, everything is done.')
    expect(events.find((event) => event.type === 'turn-end')).toMatchObject({
      text: 'There is nothing to do here, everything is done.',
      usage: {
        provider: 'scripted',
        model: 'story',
        inputTokens: expect.any(Number),
        outputTokens: expect.any(Number),
      },
    })
    expect(endOf(events)).toEqual({ kind: 'finished', text: 'There is nothing to do here, everything is done.' })
  })

  test('T13 one turn with a read and two writes runs the read in the loop and executes neither write', async () => {
    const reads: [string, JsonValue][] = []
    const { model, seen } = watchedStory(
      {
        text: 'Looking.',
        calls: [
          { tool: 'crm.search_people', args: { q: 'jo' } },
          { tool: 'crm.upsert_person', args: { to: 'jo@acme.test' } },
          { tool: 'email.send', args: { to: 'jo@acme.test' } },
        ],
      },
      { text: 'Sent.' },
    )
    const session = openSession({
      model,
      callRead: (tool, args) => {
        reads.push([tool, args])
        return Promise.resolve(answer(['Jo']))
      },
    })
    const first = await advance(session, START)
    const proposals = proposalsOf(first)
    expect(reads).toEqual([['crm.search_people', { q: 'jo' }]])
    expect(countOf(first, 'turn-end')).toBe(1)
    expect(proposals.map(({ toolName, args }) => [toolName, args])).toEqual([
      ['crm.upsert_person', { to: 'jo@acme.test' }],
      ['email.send', { to: 'jo@acme.test' }],
    ])

    const second = await advance(session, results(proposals, answer('done')))
    expect(endOf(second)).toEqual({ kind: 'finished', text: 'Sent.' })
    expect(seen).toHaveLength(2)
    expect(seen[1]?.turns[0]?.calls.map((call) => [call.tool, call.answer === null])).toEqual([
      ['crm_search_people', false],
      ['crm_upsert_person', false],
      ['email_send', false],
    ])
    expect(JSON.stringify(seen[1]?.callsOf('crm.search_people')[0]?.result)).toContain('Jo')
  })

  test('several turns of reads run in one segment, one model call at a time', async () => {
    const { model, seen } = watchedStory(
      { calls: [{ tool: 'crm.search_people', args: { q: 'a' } }] },
      {
        calls: [
          { tool: 'crm.search_people', args: { q: 'b' } },
          { tool: 'crm.search_people', args: { q: 'c' } },
        ],
      },
      { text: 'Found them.' },
    )
    const events = await advance(openSession({ model, callRead: (_, args) => Promise.resolve(answer(args)) }), START)
    expect(countOf(events, 'turn-end')).toBe(3)
    expect(
      seen
        .at(-1)
        ?.callsOf('crm.search_people')
        .map((call) => call.args),
    ).toEqual([{ q: 'a' }, { q: 'b' }, { q: 'c' }])
    expect(endOf(events)).toEqual({ kind: 'finished', text: 'Found them.' })
  })

  test('pauses again for the writes of a later turn', async () => {
    const session = openSession({
      model: story(
        { calls: [{ tool: 'email.send', args: { to: 'a@x.test' } }] },
        { calls: [{ tool: 'email.send', args: { to: 'b@x.test' } }] },
        { text: 'Both sent.' },
      ),
    })
    const first = proposalsOf(await advance(session, START))
    const second = proposalsOf(await advance(session, results(first, answer(null))))
    expect(second[0]?.args).toEqual({ to: 'b@x.test' })
    expect(second[0]?.callId).not.toBe(first[0]?.callId)
    expect(endOf(await advance(session, results(second, answer(null)))).kind).toBe('finished')
  })

  test('the next model call waits until the consumer pulls past the end of a turn', async () => {
    const { model, seen } = watchedStory({ calls: [{ tool: 'crm.search_people' }] }, { text: 'Done.' })
    const session = openSession({ model })
    for await (const event of session.advance(START, new AbortController().signal)) {
      if (event.type === 'turn-end') break
    }
    expect(seen).toHaveLength(1)
    expect(session.save().state).toMatchObject({ phase: 'running' })
    expect(endOf(await advance(session, { kind: 'continue' }))).toEqual({ kind: 'finished', text: 'Done.' })
  })

  test('T14 a denial is delivered beside a success, each to its own call', async () => {
    const { model, seen } = watchedStory(
      {
        calls: [
          { tool: 'email.send', args: { to: 'jo@acme.test' } },
          { tool: 'email.send', args: { to: 'sam@other.test' } },
        ],
      },
      { text: 'One of two.' },
    )
    const session = openSession({ model })
    const [sent, denied] = proposalsOf(await advance(session, START))
    if (sent === undefined || denied === undefined) throw new Error('two proposals expected')
    await advance(session, {
      kind: 'results',
      // The order of delivery does not matter; the ids do.
      results: [
        { proposal: denied, result: refusal('denied', 'not to other.test') },
        { proposal: sent, result: answer({ messageId: 'm-1' }) },
      ],
    })
    const [first, second] = seen[1]?.callsOf('email.send') ?? []
    expect(first?.answer).toContain('m-1')
    expect(second?.answer).toContain('denied')
    expect(second?.answer).not.toContain('m-1')
  })
})

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

  test('are refused unless every open call has exactly one, and nothing is sent', async () => {
    const { session, seen, proposals } = await paused()
    const before = session.save()
    const stranger = proposals.map((proposal) => ({ ...proposal, callId: `${proposal.callId}x` }))
    await expect(advance(session, results(proposals.slice(0, 1), answer(null)))).rejects.toThrow(/has no result/)
    await expect(advance(session, results([...proposals, ...stranger], answer(null)))).rejects.toThrow(/is not open/)
    await expect(advance(session, results([...proposals, ...proposals], answer(null)))).rejects.toThrow(/more than one/)
    await expect(advance(session, results([], answer(null)))).rejects.toThrow(/has no result/)
    expect(session.save()).toEqual(before)
    expect(seen).toHaveLength(1)
    expect(endOf(await advance(session, results(proposals, answer(null)))).kind).toBe('finished')
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

  test('are refused by a session that is not paused', async () => {
    const session = openSession({ model: story({ text: 'Hello.' }) })
    await expect(advance(session, results([], answer(null)))).rejects.toThrow(/waits for no results/)
    await advance(session, START)
    await expect(advance(session, results([], answer(null)))).rejects.toThrow(/waits for no results/)
    await expect(advance(session, START)).rejects.toThrow(/already been started/)
  })
})

describe('stops', () => {
  test('R10 a read that recorded a stop ends the segment before the model is called again', async () => {
    const { model, seen } = watchedStory({ calls: [{ tool: 'crm.search_people' }] }, { text: 'Nobody is there.' })
    const stop = stopSlot()
    const failure = new Error('database is down')
    const session = openSession({
      model,
      stop,
      callRead: () => {
        stop.record({ kind: 'failed', code: 'internal_error', message: 'the platform failed', error: failure })
        return Promise.resolve(refusal('internal_error', 'the platform failed'))
      },
    })
    const events = await advance(session, START)
    expect(endOf(events)).toMatchObject({ kind: 'stopped', stop: { kind: 'failed', error: failure } })
    expect(countOf(events, 'turn-end')).toBe(1)
    expect(seen).toHaveLength(1)
    expect(textOf(events)).toBe('')
  })

  test('R10 an exception of a read becomes a stop, never a text for the model', async () => {
    const { model, seen } = watchedStory({ calls: [{ tool: 'crm.search_people' }] }, { text: 'Nobody is there.' })
    const failure = new Error('password=hunter2')
    const session = openSession({ model, callRead: () => Promise.reject(failure) })
    const events = await advance(session, START)
    expect(endOf(events)).toMatchObject({ kind: 'stopped', stop: { kind: 'failed', error: failure } })
    expect(seen).toHaveLength(1)
    expect(JSON.stringify(session.save())).not.toContain('hunter2')
  })

  test('R11 the stop is looked at before the pause, although a write was proposed in the same turn', async () => {
    const stop = stopSlot()
    const session = openSession({
      model: story({ calls: [{ tool: 'crm.search_people' }, { tool: 'email.send', args: { to: 'jo@acme.test' } }] }),
      stop,
      callRead: () => {
        stop.record({ kind: 'ceiling', reason: 'the budget is spent' })
        stop.record({ kind: 'cancelled', reason: 'too late' })
        return Promise.resolve(refusal('budget_exhausted', 'the budget is spent'))
      },
    })
    const events = await advance(session, START)
    expect(endOf(events)).toEqual({ kind: 'stopped', stop: { kind: 'ceiling', reason: 'the budget is spent' } })
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

  test('a stop that the consumer records between two turns is met before the next model call', async () => {
    const { model, seen } = watchedStory({ calls: [{ tool: 'crm.search_people' }] }, { text: 'On and on.' })
    const stop = stopSlot()
    const events: SessionEvent[] = []
    for await (const event of openSession({ model, stop }).advance(START, new AbortController().signal)) {
      events.push(event)
      if (event.type === 'turn-end') stop.record({ kind: 'ceiling', reason: 'turns' })
    }
    expect(endOf(events)).toEqual({ kind: 'stopped', stop: { kind: 'ceiling', reason: 'turns' } })
    expect(seen).toHaveLength(1)
  })

  test('T11 two segments that run at the same time in one process do not read each other’s stop', async () => {
    const stops = { first: stopSlot(), second: stopSlot() }
    const bothReading = Promise.withResolvers<void>()
    let reading = 0
    const open = (name: 'first' | 'second') =>
      openSession({
        model: story({ calls: [{ tool: 'crm.search_people' }] }, { text: `${name} is done` }),
        stop: stops[name],
        callRead: async () => {
          reading += 1
          if (reading === 2) bothReading.resolve()
          await bothReading.promise
          if (name === 'first') stops.first.record({ kind: 'ceiling', reason: 'only the first' })
          return answer(null)
        },
      })
    const [first, second] = await Promise.all([advance(open('first'), START), advance(open('second'), START)])
    expect(endOf(first)).toEqual({ kind: 'stopped', stop: { kind: 'ceiling', reason: 'only the first' } })
    expect(endOf(second)).toEqual({ kind: 'finished', text: 'second is done' })
    expect(stops.second.current).toBeNull()
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

  test('R03 reads the instructions, the request and the tools of its definition, and no others', async () => {
    const { model, seen } = watchedStory({ text: 'Hello.' })
    await advance(openSession({ model, contracts: [READ, SEND] }), START)
    expect(seen[0]).toMatchObject({
      instructions: 'Help the sales team.',
      input: 'Invite Jo to the demo.',
      tools: ['crm_search_people', 'email_send'],
    })
  })

  test('says nothing at all: the run is finished with an empty text', async () => {
    const session = openSession({ model: story({}) })
    expect(endOf(await advance(session, START))).toEqual({ kind: 'finished', text: '' })
  })
})
