import assert from 'node:assert/strict'
import * as fc from 'fast-check'
import type { AgentSession, Proposal, SessionEnd, SessionInput, SessionState } from '../runs/session.ts'
import { isJsonObject } from '../tools/json.ts'
import type { ScriptedTurn } from './script.ts'
import {
  advance,
  answer,
  assertRefuses,
  CONTINUE,
  endOf,
  proposalsOf,
  results,
  SessionScene,
  shown,
  START,
  type SessionCase,
  type SessionFactory,
} from './session-scene.ts'

const TURNS: readonly ScriptedTurn[] = [
  { text: 'Looking.', calls: [{ tool: 'crm.search_people', args: { q: 'jo' } }] },
  {
    text: 'Writing.',
    calls: [
      { tool: 'crm.search_people', args: { q: 'sam' } },
      { tool: 'crm.upsert_person', args: { to: 'jo@acme.test' } },
      { tool: 'email.send', args: { to: 'jo@acme.test' } },
    ],
  },
  { text: 'Once more.', calls: [{ tool: 'email.send', args: { to: 'sam@acme.test' } }] },
  { text: 'All done.' },
]

type Moment =
  | 'before it starts'
  | 'at the end of each turn'
  | 'in each pause'
  | 'behind each pause'
  | 'when it is finished'

/** Plays a conversation to its end, in a new process at the given moment. */
async function play(make: SessionFactory, moment: Moment | null) {
  const scene = new SessionScene(make, TURNS)
  const ends: SessionEnd[] = []
  let said = ''
  let session = moment === 'before it starts' ? scene.restarted(scene.open()) : scene.open()
  let input: SessionInput = START
  for (;;) {
    let end: SessionEnd | null = null
    for await (const event of session.advance(input, new AbortController().signal)) {
      if (event.type === 'text-delta') said += event.text
      if (event.type === 'end') end = event.end
      if (event.type === 'turn-end' && moment === 'at the end of each turn') break
    }
    if (end === null) {
      session = scene.restarted(session)
      input = CONTINUE
      continue
    }
    ends.push(end)
    if (end.kind !== 'paused') break
    if (moment === 'in each pause') session = scene.restarted(session)
    if (moment === 'behind each pause') {
      session = scene.restarted(session)
      assert.deepEqual(endOf(await advance(session, CONTINUE)), end)
      session = scene.restarted(session)
    }
    input = answered(end.proposals)
  }
  if (moment === 'when it is finished') {
    session = scene.restarted(session)
    assert.deepEqual(endOf(await advance(session, CONTINUE)), ends.at(-1))
  }
  return { said, ends, reads: scene.reads, seen: scene.seen.map(shown), saved: session.save() }
}

function answered(proposals: readonly Proposal[]): SessionInput {
  return {
    kind: 'results',
    results: proposals.map((proposal) => ({ proposal, result: answer({ did: proposal.args }) })),
  }
}

const MOMENTS: readonly Moment[] = [
  'before it starts',
  'at the end of each turn',
  'in each pause',
  'behind each pause',
  'when it is finished',
]

const CONTINUATION: readonly SessionCase[] = MOMENTS.map((moment) => ({
  name: `a session that goes on in another process ${moment} goes on as if it had never stopped`,
  async run(make) {
    const uninterrupted = await play(make, null)
    assert.equal(uninterrupted.said, 'Looking.Writing.Once more.All done.')
    assert.deepEqual(uninterrupted.ends.at(-1), { kind: 'finished', text: 'All done.' })
    assert.equal(uninterrupted.seen.length, TURNS.length)
    assert.deepEqual(await play(make, moment), uninterrupted)
  },
}))

const STATES: readonly SessionCase[] = [
  {
    name: 'a saved session is plain JSON in every phase, under the name of its framework and a version',
    async run(make) {
      const scene = new SessionScene(make, TURNS)
      const session = scene.open()
      const look = (): void => {
        const saved = session.save()
        assert.deepEqual(JSON.parse(JSON.stringify(saved)), saved)
        assert.equal(saved.framework, scene.framework.name)
        assert(Number.isInteger(saved.version) && saved.version >= 1, `${saved.version} is no version`)
      }
      look()
      let end = endOf(await advance(session, START))
      while (end.kind === 'paused') {
        look()
        end = endOf(await advance(session, results(end.proposals, answer(null))))
      }
      look()
    },
  },
  {
    name: 'a saved session shares nothing with the one that goes on',
    async run(make) {
      const scene = new SessionScene(make, TURNS)
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      const saved = session.save()
      const text = JSON.stringify(saved)
      const resumed = scene.resumed(saved)
      await advance(resumed, results(proposals, answer('other')))
      await advance(session, results(proposals, answer('one')))
      assert.equal(JSON.stringify(saved), text)
    },
  },
  {
    name: 'a finished session that is told to go on ends at once, without a model call',
    async run(make) {
      const scene = new SessionScene(make, [{ text: 'Hello.' }])
      const session = scene.open()
      await advance(session, START)
      const events = await advance(scene.restarted(session), CONTINUE)
      assert.deepEqual(events, [{ type: 'end', end: { kind: 'finished', text: 'Hello.' } }])
      assert.equal(scene.seen.length, 1)
    },
  },
  {
    name: 'a paused session that is told to go on asks for the same proposals again, without a model call',
    async run(make) {
      const scene = new SessionScene(make, TURNS)
      const session = scene.open()
      const proposals = proposalsOf(await advance(session, START))
      const called = scene.seen.length
      for (const again of [session, scene.restarted(session)]) {
        assert.deepEqual(await advance(again, CONTINUE), [{ type: 'end', end: { kind: 'paused', proposals } }])
      }
      assert.equal(scene.seen.length, called)
    },
  },
  {
    name: 'a state of a newer version, of an unknown older one, of another framework or of no shape at all is refused',
    async run(make) {
      const scene = new SessionScene(make, TURNS)
      const session = scene.open()
      await advance(session, START)
      const called = scene.seen.length
      const saved = session.save()
      const refused: readonly [SessionState, RegExp][] = [
        [{ ...saved, version: saved.version + 1 }, new RegExp(`version ${saved.version + 1}\\b.*newer`)],
        [{ ...saved, version: 0 }, /version 0\b/],
        [{ ...saved, framework: 'another' }, /another/],
        [{ ...saved, state: null }, /./],
        [{ ...saved, state: { nothing: 'known' } }, /./],
      ]
      for (const [state, pattern] of refused) await assertRefuses(() => scene.resumed(state), CONTINUE, pattern)
      assert.equal(scene.seen.length, called)
    },
  },
]

const EVERY_CONVERSATION: SessionCase = {
  name: 'every call of every conversation gets its own answer, wherever it is interrupted',
  async run(make) {
    const call = fc.record({
      tool: fc.constantFrom('crm.search_people', 'crm.upsert_person', 'email.send', 'no_such_tool', 'constructor'),
      id: fc.constantFrom('a', 'b', '', 'call_2', 'not plain'),
    })
    const stories = fc.array(fc.array(call, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(stories, fc.infiniteStream(fc.boolean()), async (story, interruptions) => {
        let made = 0
        const turns = story.map((calls) => ({
          calls: calls.map((one) => ({ ...one, args: { q: `q${(made += 1)}` } })),
        }))
        const scene = new SessionScene(make, [...turns, { text: 'The end.' }])
        let session: AgentSession = scene.open()
        let end = endOf(await advance(session, START))
        while (end.kind === 'paused') {
          if (interruptions.next().value === true) session = scene.restarted(session)
          const answers = end.proposals.map((proposal) => ({ proposal, result: answer({ asked: proposal.args }) }))
          end = endOf(await advance(session, { kind: 'results', results: answers }))
        }
        assert.deepEqual(end, { kind: 'finished', text: 'The end.' })
        const calls = scene.seen.at(-1)?.turns.flatMap((turn) => turn.calls) ?? []
        const asked = Array.from({ length: made }, (_, index) => ({ q: `q${index + 1}` }))
        assert.deepEqual(
          calls.map(({ args, result }) => [args, isJsonObject(result) ? result['data'] : null]),
          asked.map((args) => [args, { asked: args }]),
        )
        assert.equal(new Set(calls.map((one) => one.id)).size, calls.length)
      }),
      { numRuns: 50 },
    )
  },
}

export const RESTARTS: readonly SessionCase[] = [...CONTINUATION, ...STATES, EVERY_CONVERSATION]
