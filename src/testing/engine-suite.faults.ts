import assert from 'node:assert/strict'
import { EngineStage, type EngineCase } from './engine-stage.ts'

const SECRET = 'password=hunter2'

export const FAULTS: readonly EngineCase[] = [
  {
    name: 'an advance that throws is tried again',
    async run(make) {
      await EngineStage.play(
        make,
        (stage) => ({
          async advance(runId) {
            if (runId === 'flaky' && stage.count(runId) < 3) throw new Error(SECRET)
            return { kind: 'idle' }
          },
        }),
        async (stage) => {
          await stage.engine.wake('flaky')
          await stage.until('the third try succeeds', () => stage.count('flaky') === 3)
          await stage.settled()
          assert.equal(stage.count('flaky'), 3)
          assert.deepEqual(stage.gaveUp, [])
        },
      )
    },
  },
  {
    name: 'a run that throws holds no other up',
    async run(make) {
      const others = Array.from({ length: 10 }, (_, index) => `fine-${index}`)
      await EngineStage.play(
        make,
        () => ({
          async advance(runId) {
            if (runId === 'broken') throw new Error(SECRET)
            return { kind: 'idle' }
          },
        }),
        async (stage) => {
          await stage.engine.wake('broken')
          for (const other of others) await stage.engine.wake(other)
          await stage.until('the others are advanced', () => others.every((runId) => stage.count(runId) > 0))
        },
      )
    },
  },
  {
    name: 'tries that are spent are told once, without the text of the fault, and a later wake-up is done',
    async run(make) {
      let broken = true
      await EngineStage.play(
        make,
        () => ({
          async advance(runId) {
            if (runId === 'broken' && broken) throw new TypeError(SECRET)
            return { kind: 'idle' }
          },
        }),
        async (stage) => {
          await stage.engine.wake('broken')
          await stage.until('the engine gives up', () => stage.gaveUp.length > 0)
          await stage.settled()
          assert.deepEqual(
            stage.gaveUp.map(({ runId }) => runId),
            ['broken'],
          )
          const [told] = stage.gaveUp
          assert(told?.fault.message.includes('TypeError') === true, 'the kind of the fault is not told')
          assert(!told.fault.message.includes(SECRET), 'the text of the fault is told')
          broken = false
          const before = stage.count('broken')
          await stage.engine.wake('broken')
          await stage.until('the run is advanced', () => stage.count('broken') > before)
        },
      )
    },
  },
  {
    name: 'a sweep that fails is followed by the next',
    async run(make) {
      let sweeps = 0
      await EngineStage.play(
        make,
        (stage) => ({
          async advance(runId) {
            stage.rows.delete(runId)
            return { kind: 'idle' }
          },
          async sweep() {
            sweeps += 1
            if (sweeps <= 3) throw new Error(SECRET)
            return [...stage.rows.keys()]
          },
        }),
        async (stage) => {
          stage.rows.set('forgotten', stage.scene.now())
          await stage.until('the run is advanced', () => stage.count('forgotten') > 0)
        },
      )
    },
  },
]
