import assert from 'node:assert/strict'
import { stopSlot } from '../runs/segment-stop.ts'
import type { SessionEvent } from '../runs/session.ts'
import { isJsonObject } from '../tools/json.ts'
import type { Script } from './script.ts'
import {
  advance,
  answer,
  CONTINUE,
  countOf,
  endOf,
  refusal,
  SessionScene,
  shown,
  START,
  textOf,
  type SessionCase,
} from './session-scene.ts'

const search = { tool: 'crm.search_people', args: { q: 'jo' } }
const ONLY_THE_FIRST = { kind: 'ceiling', reason: 'only the first' } as const
const FAILURE = new Error('connection refused: password=hunter2')

export const STOPS: readonly SessionCase[] = [
  {
    name: 'R10 a read that recorded a stop ends the segment before the model is called again, and its turn is accounted for',
    async run(make) {
      const stop = stopSlot()
      const failed = { kind: 'failed', code: 'internal_error', message: 'the platform failed', error: FAILURE } as const
      const scene = new SessionScene(make, [{ calls: [search] }, { text: 'Nobody is there.' }], {
        callRead: () => {
          stop.record(failed)
          return Promise.resolve(refusal('internal_error', 'the platform failed'))
        },
      })
      const events = await advance(scene.open(stop), START)
      assert.deepEqual(endOf(events), { kind: 'stopped', stop: failed })
      assert.equal(countOf(events, 'turn-end'), 1)
      assert.equal(scene.seen.length, 1)
      assert.equal(textOf(events), '')
    },
  },
  {
    name: 'R10 an exception of a read becomes a stop, never a text for the model',
    async run(make) {
      const scene = new SessionScene(make, [{ calls: [search] }, { text: 'Nobody is there.' }], {
        callRead: () => Promise.reject(FAILURE),
      })
      const stop = stopSlot()
      const session = scene.open(stop)
      const end = endOf(await advance(session, START))
      assert(end.kind === 'stopped' && end.stop.kind === 'failed', `the segment is ${end.kind}, not stopped`)
      assert.equal(end.stop.error, FAILURE)
      assert.equal(stop.current, end.stop)
      assert.equal(scene.seen.length, 1)
      assert(!JSON.stringify(session.save()).includes('hunter2'), 'the state holds the text of an exception')
    },
  },
  {
    name: 'R11 the stop is read before the status: a write proposed beside a stopped read is not asked for',
    async run(make) {
      const stop = stopSlot()
      const scene = new SessionScene(make, [{ calls: [search, { tool: 'email.send' }] }], {
        callRead: () => {
          stop.record({ kind: 'ceiling', reason: 'the budget is spent' })
          stop.record({ kind: 'cancelled', reason: 'too late' })
          return Promise.resolve(refusal('budget_exhausted', 'the budget is spent'))
        },
      })
      const first = { kind: 'ceiling', reason: 'the budget is spent' } as const
      assert.deepEqual(endOf(await advance(scene.open(stop), START)), { kind: 'stopped', stop: first })
    },
  },
  {
    name: 'a stop that was recorded before the segment began ends it without a model call, failing provider or not',
    async run(make) {
      for (const turn of [{ text: 'Hello.' }, { fail: FAILURE }]) {
        const stop = stopSlot()
        stop.record({ kind: 'cancelled', reason: 'enough' })
        const scene = new SessionScene(make, [turn])
        const end = endOf(await advance(scene.open(stop), START))
        assert.deepEqual(end, { kind: 'stopped', stop: { kind: 'cancelled', reason: 'enough' } })
        assert.equal(scene.seen.length, 0)
      }
    },
  },
  {
    name: 'a stop that the consumer records between two turns is met before the next model call',
    async run(make) {
      const scene = new SessionScene(make, [{ calls: [search] }, { text: 'On and on.' }])
      const stop = stopSlot()
      const events: SessionEvent[] = []
      for await (const event of scene.open(stop).advance(START, new AbortController().signal)) {
        events.push(event)
        if (event.type === 'turn-end') stop.record({ kind: 'ceiling', reason: 'turns' })
      }
      assert.deepEqual(endOf(events), { kind: 'stopped', stop: { kind: 'ceiling', reason: 'turns' } })
      assert.equal(scene.seen.length, 1)
    },
  },
  {
    name: 'a turn that a read stopped is not part of what is saved: a later segment asks the model the same again',
    async run(make) {
      let stop = stopSlot()
      let down = true
      const scene = new SessionScene(make, [{ calls: [search, { tool: 'email.send' }] }, { text: 'Done.' }], {
        callRead: () => {
          if (down) stop.record({ kind: 'failed', code: 'internal_error', message: 'down', error: FAILURE })
          return Promise.resolve(down ? refusal('internal_error', 'down') : answer('Jo'))
        },
      })
      const session = scene.open(stop)
      assert.equal(endOf(await advance(session, START)).kind, 'stopped')
      down = false
      stop = stopSlot()
      assert.equal(endOf(await advance(scene.restarted(session, stop), CONTINUE)).kind, 'paused')
      assert.deepEqual(scene.seen.map(shown)[1], scene.seen.map(shown)[0])
      assert.equal(scene.reads.length, 2)
    },
  },
  {
    name: 'T11 two segments of one adapter that run at the same time do not read each other’s stop',
    async run(make) {
      const stops = { first: stopSlot(), second: stopSlot() }
      const bothReading = Promise.withResolvers<void>()
      let reading = 0
      const script: Script = ({ input, turns }) =>
        turns.length === 0
          ? { calls: [{ tool: 'crm.search_people', args: { q: input } }] }
          : { text: `${input} is done` }
      const scene = new SessionScene(make, script, {
        callRead: async (_tool, args) => {
          reading += 1
          if (reading === 2) bothReading.resolve()
          await bothReading.promise
          if (isJsonObject(args) && args['q'] === 'first') stops.first.record(ONLY_THE_FIRST)
          return answer(null)
        },
      })
      const [first, second] = await Promise.all([
        advance(scene.open(stops.first), { kind: 'start', text: 'first' }),
        advance(scene.open(stops.second), { kind: 'start', text: 'second' }),
      ])
      assert.deepEqual(endOf(first), { kind: 'stopped', stop: ONLY_THE_FIRST })
      assert.deepEqual(endOf(second), { kind: 'finished', text: 'second is done' })
      assert.equal(stops.second.current, null)
    },
  },
]
