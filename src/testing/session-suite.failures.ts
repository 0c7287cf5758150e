import assert from 'node:assert/strict'
import {
  advance,
  answer,
  CONTINUE,
  endOf,
  idle,
  proposalsOf,
  results,
  SessionScene,
  shown,
  START,
  type SessionCase,
} from './session-scene.ts'
import type { Script, ScriptedTurn } from './script.ts'

const FAILURE = new Error('overloaded; api key sk-secret')
const REASON = new Error('the process is going down')

const LOOK: ScriptedTurn = { calls: [{ tool: 'crm.search_people', args: { q: 'jo' } }] }
const ASK: ScriptedTurn = { text: 'I was about to', calls: [{ tool: 'email.send', args: { to: 'jo' } }] }
const LONG: ScriptedTurn = { text: 'A long story about many things that never comes to its end.' }

/** A provider that is down until it is told otherwise, at the turn of the given number. */
function flaky(turns: readonly ScriptedTurn[], at: number) {
  const provider = { down: true }
  const script: Script = ({ turns: past }) => {
    const turn = turns[past.length] ?? {}
    return provider.down && past.length === at ? { ...turn, fail: FAILURE } : turn
  }
  return { provider, script }
}

const FAILURES: readonly SessionCase[] = [{ text: '' }, { text: 'I was about to' }].map(({ text }) => ({
  name: `a provider that fails ${text === '' ? 'before it streams' : 'in the middle of a text'} leaves the session as it was before the turn, and another try goes on`,
  async run(make) {
    const { provider, script } = flaky([LOOK, { ...ASK, text }, { text: 'Sent.' }], 1)
    const scene = new SessionScene(make, script)
    const session = scene.open()
    await assert.rejects(advance(session, START), 'a turn that failed must not end as one that did not')
    assert(!JSON.stringify(session.save()).includes('sk-secret'), 'the state holds the text of a provider’s error')
    const failed = scene.seen.length
    provider.down = false

    const next = scene.restarted(session)
    const proposals = proposalsOf(await advance(next, CONTINUE))
    assert.deepEqual(scene.seen.map(shown)[failed], scene.seen.map(shown)[failed - 1])
    assert.equal(scene.reads.length, 1, 'a read of an earlier turn is not run again')
    const end = endOf(await advance(next, results(proposals, answer(null))))
    assert.deepEqual(end, { kind: 'finished', text: 'Sent.' })
  },
}))

const AFTER_RESULTS: SessionCase = {
  name: 'a provider that fails after results were delivered keeps the results',
  async run(make) {
    const { provider, script } = flaky([ASK, { text: 'Sent.' }], 1)
    const scene = new SessionScene(make, script)
    const session = scene.open()
    const proposals = proposalsOf(await advance(session, START))
    await assert.rejects(advance(session, results(proposals, answer({ effect: 1 }))))
    provider.down = false
    const end = endOf(await advance(scene.restarted(session), CONTINUE))
    assert.deepEqual(end, { kind: 'finished', text: 'Sent.' })
    assert.deepEqual(scene.seen.at(-1)?.callsOf('email.send')[0]?.result, { ok: true, data: { effect: 1 } })
  },
}

const ABORTS: readonly SessionCase[] = [
  {
    name: 'an abort before the model is called rejects with its reason and keeps the input',
    async run(make) {
      const scene = new SessionScene(make, [LONG])
      const session = scene.open()
      await assert.rejects(advance(session, START, AbortSignal.abort(REASON)), (error) => error === REASON)
      assert.equal(scene.seen.length, 0)
      assert.equal(endOf(await advance(scene.restarted(session), CONTINUE)).kind, 'finished')
      assert.equal(scene.seen[0]?.input, START.text)
    },
  },
  {
    name: 'an abort in the middle of a text rejects with its reason and keeps the state before the turn',
    async run(make) {
      const controller = new AbortController()
      const scene = new SessionScene(make, [LONG])
      const session = scene.open()
      const told = async (): Promise<void> => {
        for await (const event of session.advance(START, controller.signal)) {
          if (event.type === 'text-delta') controller.abort(REASON)
        }
      }
      await assert.rejects(told(), (error) => error === REASON)
      assert.equal(endOf(await advance(scene.restarted(session), CONTINUE)).kind, 'finished')
      assert.deepEqual(scene.seen.map(shown)[1], scene.seen.map(shown)[0])
    },
  },
  {
    name: 'an abort during a read waits for the read, which is never left running unobserved',
    async run(make) {
      const controller = new AbortController()
      let finished = false
      const scene = new SessionScene(make, [LOOK, { text: 'Done.' }], {
        callRead: async () => {
          controller.abort(REASON)
          await idle()
          finished = true
          return answer(null)
        },
      })
      await assert.rejects(advance(scene.open(), START, controller.signal), (error) => error === REASON)
      assert(finished, 'the segment was over before its read was')
    },
  },
  {
    name: 'a consumer that walks away leaves a session that can be advanced again',
    async run(make) {
      for (const moment of ['turn-start', 'text-delta', 'turn-end'] as const) {
        const scene = new SessionScene(make, [{ ...LOOK, text: 'Let me have a look at it.' }, { text: 'Done.' }])
        const session = scene.open()
        for await (const event of session.advance(START, new AbortController().signal)) {
          if (event.type === moment) break
        }
        assert.deepEqual(endOf(await advance(session, CONTINUE)), { kind: 'finished', text: 'Done.' })
      }
    },
  },
]

export const FAILING: readonly SessionCase[] = [...FAILURES, AFTER_RESULTS, ...ABORTS]
