import assert from 'node:assert/strict'
import { modelToolName } from '../tools/models.ts'
import type { JsonValue } from '../tools/json.ts'
import {
  advance,
  answer,
  answersOf,
  countOf,
  endOf,
  idle,
  proposalsOf,
  READ,
  results,
  SEND,
  SessionScene,
  START,
  textOf,
  type SessionCase,
} from './session-scene.ts'

const search = (q: string) => ({ tool: 'crm.search_people', args: { q } })

export const CONVERSATION: readonly SessionCase[] = [
  {
    name: 'a conversation without calls streams its text, reports its usage and ends finished',
    async run(make) {
      const text = 'There is nothing to do here, everything is done. 🎉'
      const scene = new SessionScene(make, [{ text }])
      const events = await advance(scene.open(), START)
      assert.equal(textOf(events), text)
      assert.deepEqual(endOf(events), { kind: 'finished', text })
      const turn = events.find((event) => event.type === 'turn-end')
      assert(turn?.type === 'turn-end', 'a turn reports its usage')
      assert.equal(turn.text, text)
      assert.equal(turn.usage.provider, 'scripted')
      assert.equal(turn.usage.model, 'story')
      for (const tokens of [turn.usage.inputTokens, turn.usage.outputTokens]) {
        assert(Number.isInteger(tokens) && tokens > 0, `tokens are counted, not ${tokens}`)
      }
    },
  },
  {
    name: 'a model that says nothing at all ends finished with an empty text',
    async run(make) {
      assert.deepEqual(endOf(await advance(new SessionScene(make, [{}]).open(), START)), { kind: 'finished', text: '' })
    },
  },
  {
    name: 'R03 the model reads the instructions, the request and the tools of its contracts, and no others',
    async run(make) {
      const scene = new SessionScene(make, [{ text: 'Hello.' }], { contracts: [SEND, READ] })
      await advance(scene.open(), START)
      assert.equal(scene.seen[0]?.instructions, 'Help the sales team.')
      assert.equal(scene.seen[0].input, START.text)
      assert.deepEqual(scene.seen[0].tools, ['email_send', 'crm_search_people'])
    },
  },
  {
    name: 'T13 R07 reads run inside the loop, and no write or send is ever handed out to be run there',
    async run(make) {
      const calls = [search('jo'), { tool: 'crm.upsert_person', args: { to: 'a' } }, { tool: 'email.send' }]
      const scene = new SessionScene(make, [{ text: 'Looking.', calls }, { text: 'Sent.' }])
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      assert.deepEqual(
        proposals.map((proposal) => proposal.toolName),
        ['crm.upsert_person', 'email.send'],
      )
      assert.deepEqual(endOf(await advance(session, results(proposals, answer('done')))), {
        kind: 'finished',
        text: 'Sent.',
      })
      assert.deepEqual(scene.reads, [{ tool: 'crm.search_people', args: { q: 'jo' } }])
      const told = scene.seen[1]?.turns[0]?.calls ?? []
      assert.deepEqual(
        told.map((call) => [call.tool, call.result]),
        [
          ['crm_search_people', { ok: true, data: { asked: { q: 'jo' } } }],
          ['crm_upsert_person', { ok: true, data: 'done' }],
          ['email_send', { ok: true, data: 'done' }],
        ],
      )
    },
  },
  {
    name: 'several turns of reads run in one segment, each turn with one model call and a usage of its own',
    async run(make) {
      const scene = new SessionScene(make, [
        { calls: [search('a')] },
        { calls: [search('b'), search('c')] },
        { text: 'Found them.' },
      ])
      const events = await advance(scene.open(), START)
      assert.deepEqual(endOf(events), { kind: 'finished', text: 'Found them.' })
      assert.equal(scene.seen.length, 3)
      assert.equal(countOf(events, 'turn-start'), 3)
      assert.equal(countOf(events, 'turn-end'), 3)
      assert.deepEqual(
        scene.seen
          .at(-1)
          ?.callsOf('crm.search_people')
          .map((call) => [call.args, call.result]),
        ['a', 'b', 'c'].map((q): JsonValue[] => [{ q }, { ok: true, data: { asked: { q } } }]),
      )
    },
  },
  {
    name: 'the reads of a turn have run when its end is told, so that a restart behind it repeats none of them',
    async run(make) {
      const scene = new SessionScene(make, [{ calls: [search('a'), search('b')] }, { text: 'Done.' }])
      const session = scene.open()
      for await (const event of session.advance(START, new AbortController().signal)) {
        if (event.type === 'turn-end') break
      }
      assert.equal(scene.reads.length, 2)
      const next = scene.restarted(session)
      assert.deepEqual(endOf(await advance(next, { kind: 'continue' })), { kind: 'finished', text: 'Done.' })
      assert.equal(scene.reads.length, 2)
      assert.equal(scene.seen.length, 2)
    },
  },
  {
    name: 'no model is called before the consumer pulls past the end of a turn, nor past the start of one',
    async run(make) {
      const scene = new SessionScene(make, [{ calls: [search('a')] }, { calls: [search('b')] }, { text: 'Done.' }])
      let started = 0
      for await (const { type } of scene.open().advance(START, new AbortController().signal)) {
        const called = scene.seen.length
        if (type === 'turn-start') assert.equal(called, started, 'a turn has started and its model has not been asked')
        if (type === 'turn-start') started += 1
        if (type === 'turn-end') assert.equal(called, started, 'a turn is one call of the model')
        await idle()
        if (type !== 'text-delta') assert.equal(scene.seen.length, called, `a model was called behind a ${type}`)
      }
      assert.equal(scene.seen.length, 3)
    },
  },
  {
    name: 'R36 an answer from outside reaches the model in an envelope, from a read and from a result alike',
    async run(make) {
      const outside = { ...answer('buy now'), meta: { truncated: false, untrusted: true } }
      const scene = new SessionScene(make, [{ calls: [search('jo'), { tool: 'email.send' }] }, { text: 'Done.' }], {
        callRead: () => Promise.resolve(outside),
      })
      const session = scene.open()
      await advance(session, results(proposalsOf(await advance(session, START)), outside))
      const calls = scene.seen[1]?.turns[0]?.calls ?? []
      assert.equal(calls.length, 2)
      for (const { answer: text, tool, result } of calls) {
        assert.match(text ?? '', new RegExp(`⟦untrusted:\\w+ from ${modelToolName(tool)}\\b`))
        assert.deepEqual(result, { ok: true, data: 'buy now' })
      }
      assert.notEqual(answersOf(scene.seen[1]?.turns[0])[0], answersOf(scene.seen[1]?.turns[0])[1])
    },
  },
]
