import { describe, expect, test } from 'vitest'
import {
  advance,
  answer,
  contract,
  countOf,
  endOf,
  openSession,
  proposalsOf,
  READ,
  refusal,
  results,
  SEND,
  stopSlot,
  textOf,
} from '../../../test/ai-sdk-session.ts'
import type { SessionEvent } from '../../runs/session.ts'
import { scriptedTurns, type ScriptedConversation, type ScriptedTurn } from '../../testing/script.ts'
import { scriptedModel } from '../../testing/scripted-model.ts'
import type { JsonValue } from '../../tools/json.ts'

const START = { kind: 'start', text: 'Invite Jo to the demo.' } as const

function story(...turns: readonly ScriptedTurn[]) {
  return scriptedModel({ name: 'story', next: scriptedTurns(turns) })
}

/** A story that keeps what the model was shown before each of its turns. */
function watchedStory(...turns: readonly ScriptedTurn[]) {
  const seen: ScriptedConversation[] = []
  const next = scriptedTurns(turns)
  const model = scriptedModel({
    name: 'story',
    next: (conversation) => {
      seen.push(conversation)
      return next(conversation)
    },
  })
  return { model, seen }
}

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

describe('names', () => {
  test('T66 a dotted name reaches the model derived, and the paused call maps back to the dotted name', async () => {
    const { model, seen } = watchedStory({ calls: [{ tool: 'email_send', args: { to: 'jo@acme.test' } }] })
    const proposals = proposalsOf(await advance(openSession({ model }), START))
    expect(seen[0]?.tools).toEqual(['crm_search_people', 'crm_upsert_person', 'email_send'])
    expect(proposals[0]?.toolName).toBe('email.send')
  })

  test('T67 two contracts that derive one name are refused when the segment is built', () => {
    const contracts = [contract('crm.search_people', 'read'), contract('crm_search.people', 'write')]
    expect(() => openSession({ model: story(), contracts })).toThrow(/crm\.search_people and crm_search\.people/)
  })

  test.each(['constructor', '__proto__', 'toString', 'hasOwnProperty'])(
    'a call of %s is proposed as an unknown tool, not looked up on a prototype',
    async (tool) => {
      const { model, seen } = watchedStory({ calls: [{ tool, args: {} }] }, { text: 'I see.' })
      const session = openSession({ model })
      const proposals = proposalsOf(await advance(session, START))
      expect(proposals.map((proposal) => proposal.toolName)).toEqual([tool])
      await advance(session, results(proposals, refusal('tool_unavailable', 'no such tool')))
      expect(seen[1]?.turns[0]?.calls[0]?.answer).toContain('tool_unavailable')
    },
  )

  test('a contract named like a prototype member is still only itself', async () => {
    const contracts = [contract('__proto__', 'read'), contract('constructor', 'write')]
    const reads: string[] = []
    const session = openSession({
      model: story({ calls: [{ tool: '__proto__' }, { tool: 'constructor' }] }),
      contracts,
      callRead: (tool) => {
        reads.push(tool)
        return Promise.resolve(answer(null))
      },
    })
    expect(proposalsOf(await advance(session, START)).map((proposal) => proposal.toolName)).toEqual(['constructor'])
    expect(reads).toEqual(['__proto__'])
  })

  test('an unknown name is answered by the invoker; the model reads no list of tools', async () => {
    const { model, seen } = watchedStory(
      { calls: [{ tool: 'drop database', args: { now: true } }] },
      { text: 'I see.' },
    )
    const session = openSession({ model })
    const proposals = proposalsOf(await advance(session, START))
    expect(proposals).toMatchObject([{ toolName: 'drop database', args: { now: true } }])
    await advance(session, results(proposals, refusal('tool_unavailable', 'no such tool')))
    const call = seen[1]?.turns[0]?.calls[0]
    expect(call?.tool).toBe('unknown_tool')
    expect(call?.answer).toContain('tool_unavailable')
    expect(JSON.stringify(session.save())).not.toMatch(/crm_search_people|Available tools/)
  })

  test('a name of any length reaches the invoker cut to a bound', async () => {
    const session = openSession({ model: story({ calls: [{ tool: 'x'.repeat(10_000) }] }) })
    const [proposal] = proposalsOf(await advance(session, START))
    expect(proposal?.toolName.length).toBeLessThanOrEqual(128)
  })
})

describe('arguments', () => {
  test('that fit no contract reach the invoker as they were written', async () => {
    const reads: JsonValue[] = []
    const session = openSession({
      model: story({
        calls: [
          { tool: 'crm.search_people', args: { q: 7, extra: [] } },
          { tool: 'email.send', args: 'just a text' },
          { tool: 'email.send', args: null },
        ],
      }),
      callRead: (_, args) => {
        reads.push(args)
        return Promise.resolve(refusal('invalid_input', 'q must be a string'))
      },
    })
    const proposals = proposalsOf(await advance(session, START))
    expect(reads).toEqual([{ q: 7, extra: [] }])
    expect(proposals.map((proposal) => proposal.args)).toEqual(['just a text', null])
  })

  test('that are no JSON reach the invoker as a text, for reads and writes alike', async () => {
    const reads: JsonValue[] = []
    const { model, seen } = watchedStory(
      {
        calls: [
          { tool: 'crm.search_people', rawArgs: '{"q": ' },
          { tool: 'email.send', rawArgs: 'to: jo' },
          { tool: 'email.send', rawArgs: '{"__proto__": {"to": "jo@acme.test"}}' },
        ],
      },
      { text: 'I see.' },
    )
    const session = openSession({
      model,
      callRead: (_, args) => {
        reads.push(args)
        return Promise.resolve(refusal('invalid_input', 'not an object'))
      },
    })
    const proposals = proposalsOf(await advance(session, START))
    expect(reads).toEqual(['{"q": '])
    expect(proposals.map((proposal) => typeof proposal.args)).toEqual(['string', 'string'])
    await advance(session, results(proposals, refusal('invalid_input', 'not an object')))
    // A provider takes back objects only, so the history shows the calls without arguments and with their refusals.
    expect(seen[1]?.turns[0]?.calls.map((call) => call.args)).toEqual([{}, {}, {}])
    expect(JSON.stringify(seen[1])).not.toMatch(/JSON parsing failed|AI_/)
  })

  test('of a turn that the provider cut off are not run, even where their JSON closes', async () => {
    const reads: JsonValue[] = []
    const session = openSession({
      model: story({
        calls: [
          { tool: 'crm.search_people', args: {} },
          { tool: 'email.send', args: {} },
        ],
        finish: 'length',
      }),
      callRead: (_, args) => {
        reads.push(args)
        return Promise.resolve(refusal('invalid_input', 'not an object'))
      },
    })
    const [proposal] = proposalsOf(await advance(session, START))
    expect(reads).toEqual(['{}'])
    expect(proposal?.args).toBe('{}')
  })

  test('of a turn with an unknown finish reason are run: some servers name their own', async () => {
    const reads: JsonValue[] = []
    const session = openSession({
      model: story({ calls: [{ tool: 'crm.search_people', args: { q: 'jo' } }], finish: 'other' }, { text: 'Done.' }),
      callRead: (_, args) => {
        reads.push(args)
        return Promise.resolve(answer(null))
      },
    })
    expect(endOf(await advance(session, START)).kind).toBe('finished')
    expect(reads).toEqual([{ q: 'jo' }])
  })

  test('nested deeper than a stack can follow are refused, not a crash', async () => {
    const depth = 200_000
    const session = openSession({
      model: story({ calls: [{ tool: 'email.send', rawArgs: `{"q":${'['.repeat(depth)}${']'.repeat(depth)}}` }] }),
    })
    const [proposal] = proposalsOf(await advance(session, START))
    expect(typeof proposal?.args).toBe('string')
  })
})

describe('call ids that a provider repeats', () => {
  test('inside one turn do not cross results', async () => {
    const { model, seen } = watchedStory(
      {
        calls: [
          { tool: 'crm.search_people', args: { q: 'a' }, id: 'call' },
          { tool: 'crm.search_people', args: { q: 'b' }, id: 'call' },
          { tool: 'email.send', args: { to: 'c' }, id: 'call' },
        ],
      },
      { text: 'Done.' },
    )
    const session = openSession({ model, callRead: (_, args) => Promise.resolve(answer({ asked: args })) })
    const proposals = proposalsOf(await advance(session, START))
    await advance(session, results(proposals, answer({ sent: 'c' })))
    const answers = seen[1]?.turns[0]?.calls.map((call) => call.answer) ?? []
    expect(answers).toHaveLength(3)
    expect(answers[0]).toContain('"a"')
    expect(answers[1]).toContain('"b"')
    expect(answers[2]).toContain('sent')
    expect(new Set(seen[1]?.turns[0]?.calls.map((call) => call.id)).size).toBe(3)
  })

  test('across turns do not cross results', async () => {
    const { model, seen } = watchedStory(
      { calls: [{ tool: 'email.send', args: { to: 'a' }, id: '0' }] },
      { calls: [{ tool: 'email.send', args: { to: 'b' }, id: '0' }] },
      { text: 'Done.' },
    )
    const session = openSession({ model })
    const first = proposalsOf(await advance(session, START))
    const second = proposalsOf(await advance(session, results(first, answer('first effect'))))
    expect(second[0]?.callId).not.toBe(first[0]?.callId)
    await expect(advance(session, results(first, answer('wrong slot')))).rejects.toThrow(/has no result/)
    await advance(session, results(second, answer('second effect')))
    expect(seen[2]?.turns.map((turn) => turn.calls[0]?.answer)).toEqual([
      expect.stringContaining('first effect'),
      expect.stringContaining('second effect'),
    ])
  })

  test('or that no provider would take back are replaced', async () => {
    const session = openSession({
      model: story({
        calls: [
          { tool: 'email.send', id: 'a b"c' },
          { tool: 'email.send', id: '' },
        ],
      }),
    })
    const ids = proposalsOf(await advance(session, START)).map((proposal) => proposal.callId)
    expect(new Set(ids).size).toBe(2)
    for (const id of ids) expect(id).toMatch(/^[a-zA-Z0-9_-]{1,64}$/)
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

  test('reads the instructions, the request and the tools of its definition, and no others', async () => {
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
