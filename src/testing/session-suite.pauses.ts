import assert from 'node:assert/strict'
import type { CallResult, SessionInput } from '../runs/session.ts'
import {
  advance,
  answer,
  answersOf,
  CONTINUE,
  endOf,
  proposalsOf,
  READ,
  refusal,
  results,
  SessionScene,
  shown,
  START,
  type SessionCase,
} from './session-scene.ts'

const send = (to: string) => ({ tool: 'email.send', args: { to } })

export const PAUSES: readonly SessionCase[] = [
  {
    name: 'a pausable read is proposed like a write, in its place, and the framework runs nothing of it',
    async run(make) {
      const calls = [{ tool: READ.name, args: { q: 'jo' } }, send('a')]
      const scene = new SessionScene(make, [{ calls }, { text: 'Done.' }], { pausable: new Set([READ.name]) })
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      assert.deepEqual(
        proposals.map(({ toolName, args }) => ({ tool: toolName, args })),
        calls,
      )
      assert.deepEqual(scene.reads, [])
      const end = endOf(await advance(session, results(proposals, answer({ found: 1 }))))
      assert.deepEqual(end, { kind: 'finished', text: 'Done.' })
      assert.deepEqual(
        scene.seen[1]?.callsOf(READ.name).map((call) => call.result),
        [{ ok: true, data: { found: 1 } }],
      )
      assert.deepEqual(scene.reads, [])
    },
  },
  {
    name: 'a read that became pausable while the run waited is proposed from then on',
    async run(make) {
      const turns = [{ calls: [send('a')] }, { calls: [{ tool: READ.name, args: { q: 'jo' } }] }, { text: 'Done.' }]
      const before = new SessionScene(make, turns)
      const session = before.open()
      const waiting = proposalsOf(await advance(session, START))
      const after = new SessionScene(make, turns, { pausable: new Set([READ.name]) })
      const resumed = after.resumed(session.save())
      const proposals = proposalsOf(await advance(resumed, results(waiting, answer({ sent: true }))))
      assert.deepEqual(
        proposals.map(({ toolName }) => toolName),
        [READ.name],
      )
      assert.deepEqual(after.reads, [])
    },
  },
  {
    name: 'R09 the writes of one turn are proposed together, in the order the model made them, equal ones each for itself',
    async run(make) {
      const calls = [send('b'), { tool: 'crm.upsert_person', args: { to: 'c' } }, send('a'), send('b')]
      const scene = new SessionScene(make, [{ calls }, { text: 'Done.' }])
      const proposals = proposalsOf(await advance(scene.open(), START))
      assert.deepEqual(
        proposals.map(({ toolName, args }) => ({ tool: toolName, args })),
        calls,
      )
      assert.equal(new Set(proposals.map((proposal) => proposal.callId)).size, calls.length)
    },
  },
  {
    name: 'T14 a denial is delivered beside a success, each to its own call, in whatever order they come',
    async run(make) {
      const scene = new SessionScene(make, [
        { calls: [send('jo@acme.test'), send('sam@other.test')] },
        { text: 'One.' },
      ])
      const session = scene.open()
      const [sent, denied] = proposalsOf(await advance(session, START))
      assert(sent !== undefined && denied !== undefined)
      const delivered: readonly CallResult[] = [
        { proposal: denied, result: refusal('denied', 'not to other.test') },
        { proposal: sent, result: answer({ messageId: 'm-1' }) },
      ]
      await advance(session, { kind: 'results', results: delivered })
      assert.deepEqual(
        scene.seen[1]?.callsOf('email.send').map((call) => [call.args, call.result]),
        [
          [{ to: 'jo@acme.test' }, { ok: true, data: { messageId: 'm-1' } }],
          [
            { to: 'sam@other.test' },
            { ok: false, error: { code: 'denied', message: 'not to other.test', retryable: false } },
          ],
        ],
      )
    },
  },
  {
    name: 'results are refused unless every open call has exactly one, and a refusal changes nothing',
    async run(make) {
      const scene = new SessionScene(make, [{ calls: [send('a'), send('b')] }, { text: 'ok' }])
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      const [first, second] = proposals
      assert(first !== undefined && second !== undefined)
      const before = JSON.stringify(session.save())
      const stranger = { ...first, callId: `${first.callId}x` }
      const refused = [[], [first], [second], [first, stranger], [...proposals, stranger], [first, second, first]]
      for (const some of refused) {
        await assert.rejects(advance(session, results(some, answer(null))), `${some.length} results of 2 were taken`)
      }
      assert.equal(JSON.stringify(session.save()), before)
      assert.equal(scene.seen.length, 1)
      assert.equal(endOf(await advance(session, results(proposals, answer(null)))).kind, 'finished')
    },
  },
  {
    name: 'an input that does not fit the phase is refused, without a model call',
    async run(make) {
      const nothing: SessionInput = { kind: 'results', results: [] }
      const scene = new SessionScene(make, [{ calls: [send('a')] }, { text: 'Hello.' }])
      const session = scene.open()
      await assert.rejects(advance(session, CONTINUE), 'a session that was never started cannot go on')
      await assert.rejects(advance(session, nothing), 'a session that was never started waits for no results')
      const proposals = proposalsOf(await advance(session, START))
      await assert.rejects(advance(session, START), 'a session is started once')
      await advance(session, results(proposals, answer(null)))
      await assert.rejects(advance(session, results(proposals, answer(null))), 'results are delivered once')
      await assert.rejects(advance(session, nothing), 'a finished session waits for no results')
      await assert.rejects(advance(session, START), 'a finished session is not started again')
      assert.equal(scene.seen.length, 2)
    },
  },
  {
    name: 'T15 R15 results fill the empty slots of their own calls, and nothing said before is edited',
    async run(make) {
      const read = { tool: 'crm.search_people', args: { q: 'jo' } }
      const scene = new SessionScene(make, [
        { text: 'First.', calls: [read] },
        { text: 'Then.', calls: [send('a'), read, send('b')] },
        { text: 'Last.', calls: [send('c')] },
        { text: 'Done.' },
      ])
      const session = scene.open()
      let end = endOf(await advance(session, START))
      while (end.kind === 'paused') {
        const answers = end.proposals.map((proposal) => ({ proposal, result: answer({ did: proposal.args }) }))
        end = endOf(await advance(session, { kind: 'results', results: answers }))
      }
      assert.equal(end.kind, 'finished')
      const all = scene.seen.map((conversation) => shown(conversation).turns)
      for (const [index, turns] of all.entries()) {
        assert.deepEqual(all.at(-1)?.slice(0, turns.length), turns, `what turn ${index + 1} was shown stays as it was`)
      }
      const second = all.at(-1)?.[1]
      assert.deepEqual(
        second?.calls.map((call) => call.args),
        [{ to: 'a' }, { q: 'jo' }, { to: 'b' }],
      )
      assert.deepEqual(answersOf(second), [
        '{"ok":true,"data":{"did":{"to":"a"}}}',
        '{"ok":true,"data":{"asked":{"q":"jo"}}}',
        '{"ok":true,"data":{"did":{"to":"b"}}}',
      ])
    },
  },
  {
    name: 'a session pauses again for the writes of every later turn, and old results are not taken for new ones',
    async run(make) {
      const turns = ['a', 'b', 'c'].map((to) => ({ calls: [send(to)] }))
      const scene = new SessionScene(make, [...turns, { text: 'All sent.' }])
      const session = scene.open()
      let proposals = proposalsOf(await advance(session, START))
      const ids = new Set<string>()
      for (const next of ['b', 'c']) {
        ids.add(proposals[0]?.callId ?? '')
        const past = results(proposals, answer(null))
        proposals = proposalsOf(await advance(session, past))
        assert.deepEqual(proposals[0]?.args, { to: next })
        await assert.rejects(advance(session, past), 'the results of an earlier pause fit no later one')
      }
      ids.add(proposals[0]?.callId ?? '')
      assert.equal(ids.size, 3)
      const end = endOf(await advance(session, results(proposals, answer(null))))
      assert.deepEqual(end, { kind: 'finished', text: 'All sent.' })
    },
  },
]
