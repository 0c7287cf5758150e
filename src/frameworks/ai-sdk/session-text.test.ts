import { describe, expect, test } from 'vitest'
import {
  advance,
  answer,
  openSession,
  proposalsOf,
  refusal,
  restarted,
  results,
  START,
  story,
  watchedStory,
} from '../../../test/ai-sdk-session.ts'
import type { JsonValue } from '../../tools/json.ts'
import { validateArguments } from '../../tools/arguments.ts'

/** What a write and a read of one turn are asked for, when the model writes this text for both. */
async function askedFor(rawArgs: string): Promise<{ readonly write: JsonValue; readonly read: JsonValue }> {
  const reads: JsonValue[] = []
  const session = openSession({
    model: story({
      calls: [
        { tool: 'crm.search_people', rawArgs },
        { tool: 'email.send', rawArgs },
      ],
    }),
    callRead: (_, args) => {
      reads.push(args)
      return Promise.resolve(refusal('invalid_input', 'not an object'))
    },
  })
  const [proposal] = proposalsOf(await advance(session, START))
  return { write: proposal?.args ?? null, read: reads[0] ?? null }
}

describe('what a model wrote as arguments', () => {
  test.each([
    ['two values for one key', '{"to":"jo@acme.test","to":"eve@evil.test"}', 'gives the key "to" twice'],
    ['one value twice', '{"to":"jo@acme.test","to":"jo@acme.test"}', 'gives the key "to" twice'],
    ['a key in two spellings', '{"to":"a","\\u0074o":"b"}', 'gives the key "to" twice'],
    ['two values further inside', '{"to":"a","more":[{"x":1,"x":2}]}', 'gives the key "x" twice'],
    ['an integer that would become another', '{"q":9007199254740993}', 'too large to be exact'],
    ['a number that would become null', '{"q":1e400}', 'too large to be read'],
    ['a minus zero', '{"q":-0}', 'minus zero'],
    ['half a character', '{"q":"\\ud83d"}', 'lone surrogate'],
    ['something behind the end', '{"to":"a"} {"to":"b"}', 'is not JSON'],
    ['a list without an end', '{"q":[', 'is not JSON'],
    ['deep nesting', `{"q":${'['.repeat(100)}${']'.repeat(100)}}`, 'deeper than 64'],
    ['a prototype', '{"__proto__":{"to":"a"}}', ''],
  ])('reaches the invoker as a text when it holds %s, for reads and writes alike', async (_name, text, reason) => {
    const { write, read } = await askedFor(text)
    expect(write).toBe(text)
    expect(read).toBe(text)
    const verdict = validateArguments({ type: 'object' }, write)
    expect(verdict).toMatchObject({ kind: 'invalid', message: expect.stringContaining(reason) as string })
  })

  test.each<[string, JsonValue]>([
    ['{"to":"jo@acme.test"}', { to: 'jo@acme.test' }],
    ['{ "to" : "jo", "more" : { "to" : 1.50 } }', { to: 'jo', more: { to: 1.5 } }],
    ['{"constructor":1,"toString":"x","hasOwnProperty":null}', { constructor: 1, toString: 'x', hasOwnProperty: null }],
    ['', {}],
    [' \n', {}],
    ['"just a text"', 'just a text'],
    ['[1,2]', [1, 2]],
    ['null', null],
  ])('reaches it as the value it is when it says one thing: %j', async (text, value) => {
    const { write, read } = await askedFor(text)
    expect(write).toEqual(value)
    expect(read).toEqual(value)
  })

  test('is cut when it is far too long to be arguments', async () => {
    const { write } = await askedFor(`{"to":"${'a'.repeat(2_000_000)}"}`)
    expect(typeof write === 'string' && write.length).toBe(100_000)
  })

  test('stays a text over a restart, and the next turn shows the provider an object', async () => {
    const turns = [{ calls: [{ tool: 'email.send', rawArgs: '{"to":"a","to":"b"}' }] }, { text: 'I see.' }]
    const { model, seen } = watchedStory(...turns)
    const proposals = proposalsOf(await advance(openSession({ model }), START))
    const first = openSession({ model: story(...turns) })
    await advance(first, START)
    const session = restarted(first, { model })
    await advance(session, results(proposals, refusal('invalid_input', 'twice')))
    expect(seen.at(-1)?.turns[0]?.calls[0]).toMatchObject({
      args: {},
      answer: expect.stringContaining('twice') as string,
    })
  })

  test('does not hold up the calls beside it', async () => {
    const reads: JsonValue[] = []
    const session = openSession({
      model: story({
        calls: [
          { tool: 'email.send', rawArgs: '{"to":"a","to":"b"}' },
          { tool: 'crm.search_people', args: { q: 'jo' } },
          { tool: 'crm.upsert_person', args: { q: 'sam' } },
        ],
      }),
      callRead: (_, args) => {
        reads.push(args)
        return Promise.resolve(answer([]))
      },
    })
    const proposals = proposalsOf(await advance(session, START))
    expect(reads).toEqual([{ q: 'jo' }])
    expect(proposals.map((proposal) => proposal.args)).toEqual(['{"to":"a","to":"b"}', { q: 'sam' }])
  })
})
