import assert from 'node:assert/strict'
import type { JsonValue } from '../tools/json.ts'
import { isJsonObject } from '../tools/json.ts'
import {
  advance,
  answer,
  assertRefuses,
  contract,
  endOf,
  proposalsOf,
  refusal,
  results,
  SessionScene,
  START,
  type SessionCase,
} from './session-scene.ts'

const NAMES: readonly SessionCase[] = [
  {
    name: 'T66 R38 a dotted name reaches the model derived, and the paused call maps back to the dotted name',
    async run(make) {
      const calls = [
        { tool: 'crm_search_people', args: { q: 'jo' } },
        { tool: 'email_send', args: { to: 'jo@acme.test' } },
      ]
      const scene = new SessionScene(make, [{ calls }])
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      assert.deepEqual(scene.seen[0]?.tools, ['crm_search_people', 'crm_upsert_person', 'email_send'])
      assert.deepEqual(
        scene.reads.map((read) => read.tool),
        ['crm.search_people'],
      )
      assert.equal(proposals[0]?.toolName, 'email.send')
      const again = proposalsOf(await advance(scene.restarted(session), { kind: 'continue' }))
      assert.deepEqual(again, proposals)
    },
  },
  {
    name: 'T67 two contracts that derive one name are refused before the model sees either, and so is one name twice',
    async run(make) {
      const pairs = [
        ['crm.search_people', 'crm_search.people'],
        ['crm.note', 'crm.note'],
      ]
      for (const [one = '', other = ''] of pairs) {
        const contracts = [contract(one, 'read'), contract(other, 'write')]
        const scene = new SessionScene(make, [{ text: 'Hello.' }], { contracts })
        await assertRefuses(() => scene.open(), START, new RegExp(`${one} and ${other}`))
        assert.equal(scene.seen.length, 0)
      }
    },
  },
  {
    name: 'T68 a derived name over 64 characters is refused when a segment is built, not cut',
    async run(make) {
      const longest = `crm.${'a'.repeat(60)}`
      const fits = new SessionScene(make, [{ text: 'ok' }], { contracts: [contract(longest, 'read')] })
      assert.equal(endOf(await advance(fits.open(), START)).kind, 'finished')
      const scene = new SessionScene(make, [{ text: 'ok' }], { contracts: [contract(`${longest}b`, 'read')] })
      await assertRefuses(() => scene.open(), START, /65 characters/)
      assert.equal(scene.seen.length, 0)
    },
  },
  {
    name: 'a call of a name that only a prototype has is proposed as it was written, and its refusal reaches the model',
    async run(make) {
      for (const tool of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
        const scene = new SessionScene(make, [{ calls: [{ tool, args: {} }] }, { text: 'I see.' }])
        const session = scene.open()
        const proposals = proposalsOf(await advance(session, START))
        assert.deepEqual(
          proposals.map((proposal) => proposal.toolName),
          [tool],
        )
        await advance(session, results(proposals, refusal('tool_unavailable', 'no such tool')))
        assert.match(scene.seen[1]?.turns[0]?.calls[0]?.answer ?? '', /tool_unavailable/)
      }
    },
  },
  {
    name: 'a contract named like a prototype member is still only itself',
    async run(make) {
      const contracts = [contract('__proto__', 'read'), contract('constructor', 'write')]
      const calls = [{ tool: '__proto__' }, { tool: 'constructor' }]
      const scene = new SessionScene(make, [{ calls }], { contracts })
      const proposals = proposalsOf(await advance(scene.open(), START))
      assert.deepEqual(
        proposals.map((proposal) => proposal.toolName),
        ['constructor'],
      )
      assert.deepEqual(
        scene.reads.map((read) => read.tool),
        ['__proto__'],
      )
    },
  },
  {
    name: 'a call of an unknown name is proposed, and the framework adds no words of its own to the answer',
    async run(make) {
      const call = { tool: 'no_such_tool', args: { now: true } }
      const scene = new SessionScene(make, [{ calls: [call] }, { text: 'I see.' }])
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      assert.deepEqual(
        proposals.map(({ toolName, args }) => ({ tool: toolName, args })),
        [call],
      )
      await advance(session, results(proposals, refusal('tool_unavailable', 'no such tool')))
      const error = { code: 'tool_unavailable', message: 'no such tool', retryable: false }
      assert.deepEqual(scene.seen[1]?.turns[0]?.calls[0]?.result, { ok: false, error })
    },
  },
]

const ARGUMENTS: readonly SessionCase[] = [
  {
    name: 'arguments that fit no contract reach the consumer as they were written',
    async run(make) {
      const calls = [
        { tool: 'crm.search_people', args: { q: 7, extra: [] } },
        { tool: 'email.send', args: 'just a text' },
        { tool: 'email.send', args: null },
        { tool: 'email.send', args: [{ to: 'a' }] },
      ]
      const scene = new SessionScene(make, [{ calls }])
      const proposals = proposalsOf(await advance(scene.open(), START))
      assert.deepEqual(scene.reads, [{ tool: 'crm.search_people', args: { q: 7, extra: [] } }])
      assert.deepEqual(
        proposals.map((proposal) => proposal.args),
        ['just a text', null, [{ to: 'a' }]],
      )
    },
  },
  {
    name: 'arguments that are no JSON reach the consumer as a text, and the model reads the consumer’s refusal alone',
    async run(make) {
      const calls = [
        { tool: 'crm.search_people', rawArgs: '{"q": ' },
        { tool: 'email.send', rawArgs: 'to: jo' },
      ]
      const refused = refusal('invalid_input', 'not an object')
      const scene = new SessionScene(make, [{ calls }, { text: 'I see.' }], {
        callRead: () => Promise.resolve(refused),
      })
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      assert.deepEqual(scene.reads, [{ tool: 'crm.search_people', args: '{"q": ' }])
      assert.deepEqual(
        proposals.map((proposal) => proposal.args),
        ['to: jo'],
      )
      await advance(session, results(proposals, refused))
      const error = { code: 'invalid_input', message: 'not an object', retryable: false }
      assert.deepEqual(
        scene.seen[1]?.turns[0]?.calls.map((call) => call.result),
        [
          { ok: false, error },
          { ok: false, error },
        ],
      )
    },
  },
  {
    name: 'arguments of a turn that the provider cut off fit no contract, even where their JSON closes',
    async run(make) {
      for (const finish of ['length', 'content-filter'] as const) {
        const calls = [{ tool: 'crm.search_people' }, { tool: 'email.send' }]
        const scene = new SessionScene(make, [{ calls, finish }], {
          callRead: () => Promise.resolve(refusal('invalid_input', 'not an object')),
        })
        const proposals = proposalsOf(await advance(scene.open(), START))
        const handedOn = [...scene.reads, ...proposals].map(({ args }) => args)
        assert.equal(handedOn.length, 2)
        assert.deepEqual(handedOn.filter(isJsonObject), [], `a half-written call of a ${finish} turn could be run`)
      }
    },
  },
  {
    name: 'arguments with a key that reaches a prototype change none',
    async run(make) {
      const rawArgs = '{"to":"a","__proto__":{"approved":true}}'
      const scene = new SessionScene(make, [{ calls: [{ tool: 'email.send', rawArgs }] }])
      const [proposal] = proposalsOf(await advance(scene.open(), START))
      assert(proposal !== undefined)
      assert.equal((Object(proposal.args) as { approved?: unknown }).approved, undefined)
      assert.equal(({} as { approved?: unknown }).approved, undefined)
    },
  },
]

const IDS: readonly SessionCase[] = [
  {
    name: 'call ids that a provider repeats inside one turn do not cross results',
    async run(make) {
      const calls = ['a', 'b', 'c', 'd'].map((q, index) => ({
        tool: index < 2 ? 'crm.search_people' : 'email.send',
        args: { q },
        id: 'call',
      }))
      const scene = new SessionScene(make, [{ calls }, { text: 'Done.' }])
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      const answers = proposals.map((proposal) => ({ proposal, result: answer({ asked: proposal.args }) }))
      await advance(session, { kind: 'results', results: answers.toReversed() })
      const told = scene.seen[1]?.turns[0]?.calls ?? []
      assert.deepEqual(told.map(resultData), [{ q: 'a' }, { q: 'b' }, { q: 'c' }, { q: 'd' }])
      assert.equal(new Set(told.map((call) => call.id)).size, 4)
    },
  },
  {
    name: 'call ids that a provider repeats across turns do not cross results, and old results fit no later pause',
    async run(make) {
      const turn = (to: string) => ({ calls: [{ tool: 'email.send', args: { to }, id: '0' }] })
      const scene = new SessionScene(make, [turn('a'), turn('b'), { text: 'Done.' }])
      const session = scene.open()
      const first = proposalsOf(await advance(session, START))
      const second = proposalsOf(await advance(session, results(first, answer({ asked: 'first' }))))
      assert.notEqual(second[0]?.callId, first[0]?.callId)
      await assert.rejects(advance(session, results(first, answer({ asked: 'wrong slot' }))))
      await advance(session, results(second, answer({ asked: 'second' })))
      assert.deepEqual(
        scene.seen[2]?.turns.flatMap((past) => past.calls.map(resultData)),
        ['first', 'second'],
      )
    },
  },
  {
    name: 'call ids that are empty or hold any characters are as good as others',
    async run(make) {
      const ids = ['', 'a b"c', '__proto__', 'x'.repeat(500)]
      const calls = ids.map((id) => ({ tool: 'email.send', args: { to: id.slice(0, 20) }, id }))
      const scene = new SessionScene(make, [{ calls }, { text: 'Done.' }])
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      const answers = proposals.map((proposal) => ({ proposal, result: answer({ asked: proposal.args }) }))
      const end = endOf(await advance(scene.restarted(session), { kind: 'results', results: answers }))
      assert.equal(end.kind, 'finished')
      assert.deepEqual(
        scene.seen[1]?.turns[0]?.calls.map(resultData),
        calls.map((call) => call.args),
      )
    },
  },
]

export const CALLS: readonly SessionCase[] = [...NAMES, ...ARGUMENTS, ...IDS]

/** What the call was answered about, in the form that these cases answer. */
function resultData(call: { readonly result: JsonValue }): JsonValue | undefined {
  const { result } = call
  return isJsonObject(result) && isJsonObject(result['data']) ? result['data']['asked'] : undefined
}
