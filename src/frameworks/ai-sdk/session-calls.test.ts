import { describe, expect, test } from 'vitest'
import {
  advance,
  answer,
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
  test('an unknown name that no provider takes stands as a placeholder; the model reads no list of tools', async () => {
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
  test('that are no JSON stand as an empty object in the history, with nothing the AI SDK says about them', async () => {
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

  test('of a turn that the provider cut off are handed on as a text', async () => {
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

test('call ids that no provider would take back are replaced by ones that every provider does', async () => {
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
