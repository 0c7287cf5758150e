import { describe, expect, test } from 'vitest'
import {
  advance,
  answer,
  contract,
  endOf,
  openSession,
  proposalsOf,
  refusal,
  results,
  START,
  story,
  watchedStory,
} from '../../../test/ai-sdk-session.ts'
import type { JsonValue } from '../../tools/json.ts'

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
