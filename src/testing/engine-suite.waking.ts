import assert from 'node:assert/strict'
import type { AdvanceOutcome } from '../runs/executor.ts'
import { EngineStage, type EngineCase } from './engine-stage.ts'

const later = (stage: EngineStage, seconds: number): Date => new Date(stage.scene.now().getTime() + seconds * 1000)

export const WAKING: readonly EngineCase[] = [
  {
    name: 'a run that is woken is advanced',
    async run(make) {
      await EngineStage.play(
        make,
        () => ({}),
        async (stage) => {
          await stage.engine.wake('one')
          await stage.until('the run is advanced', () => stage.count('one') > 0)
        },
      )
    },
  },
  {
    name: 'a wake-up through any engine of a queue reaches the run',
    async run(make) {
      await EngineStage.play(
        make,
        () => ({}),
        async (stage) => {
          for (const [index, engine] of stage.scene.engines.entries()) await engine.wake(`run-${index}`)
          await stage.until('every run is advanced', () =>
            stage.scene.engines.every((_, index) => stage.count(`run-${index}`) > 0),
          )
        },
      )
    },
  },
  {
    name: 'a run that says again is advanced until it is idle, one segment after the other',
    async run(make) {
      let inside = 0
      let most = 0
      let left = 5
      const advance = async (runId: string): Promise<AdvanceOutcome> => {
        if (runId !== 'busy') return { kind: 'idle' }
        inside += 1
        most = Math.max(most, inside)
        await Promise.resolve()
        inside -= 1
        left -= 1
        return { kind: left > 0 ? 'again' : 'idle' }
      }
      await EngineStage.play(
        make,
        () => ({ advance }),
        async (stage) => {
          await stage.engine.wake('busy')
          await stage.until('the run is idle', () => left === 0)
          await stage.settled()
          assert.equal(stage.count('busy'), 5)
          assert.equal(most, 1)
        },
      )
    },
  },
  {
    name: 'a run that says at is advanced again then, and not before',
    async run(make) {
      await EngineStage.play(
        make,
        (stage) => ({
          async advance(runId) {
            if (runId !== 'parked' || stage.rows.size > 0 || stage.count('parked') > 1) {
              stage.rows.delete(runId)
              return { kind: 'idle' }
            }
            const at = later(stage, 2)
            stage.rows.set(runId, at)
            return { kind: 'at', at }
          },
        }),
        async (stage) => {
          await stage.engine.wake('parked')
          await stage.until('the run is parked', () => stage.rows.size > 0)
          const due = stage.rows.get('parked')
          assert(due !== undefined)
          await stage.until('the run is advanced again', () => stage.count('parked') > 1)
          const again = stage.advances.findLast(({ runId }) => runId === 'parked')
          assert(again !== undefined && again.at >= due, 'a parked run was advanced before its time')
        },
      )
    },
  },
  {
    name: 'a run that waits for a time is woken at once by a wake-up',
    async run(make) {
      await EngineStage.play(
        make,
        (stage) => ({
          async advance(runId) {
            if (stage.count(runId) > 1) return { kind: 'idle' }
            const at = later(stage, 3600)
            stage.rows.set(runId, at)
            return { kind: 'at', at }
          },
        }),
        async (stage) => {
          await stage.engine.wake('parked')
          await stage.until('the run is parked', () => stage.rows.has('parked'))
          await stage.settled()
          const before = stage.scene.now()
          stage.rows.delete('parked')
          await stage.engine.wake('parked')
          await stage.until('the run is advanced again', () => stage.count('parked') > 1)
          assert(stage.scene.now().getTime() - before.getTime() < 3_000_000, 'it waited for its time')
        },
      )
    },
  },
  {
    name: 'a wake-up for later comes then, and not before',
    async run(make) {
      await EngineStage.play(
        make,
        () => ({}),
        async (stage) => {
          const at = later(stage, 2)
          stage.rows.set('later', at)
          await stage.engine.wake('later', at)
          await stage.settled()
          await stage.until('the run is advanced', () => stage.count('later') > 0)
          const [first] = stage.advances.filter(({ runId }) => runId === 'later')
          assert(first !== undefined && first.at >= at, 'it came before its time')
        },
      )
    },
  },
  {
    name: 'a wake-up for later does not keep one for now out',
    async run(make) {
      await EngineStage.play(
        make,
        () => ({}),
        async (stage) => {
          const at = later(stage, 3600)
          await stage.engine.wake('both', at)
          await stage.engine.wake('both')
          await stage.until('the run is advanced', () => stage.count('both') > 0)
          assert(stage.scene.now() < at, 'it waited for the later one')
        },
      )
    },
  },
  {
    name: 'a run whose wake-up was lost is found by the sweep',
    async run(make) {
      await EngineStage.play(
        make,
        (stage) => ({
          async advance(runId) {
            stage.rows.delete(runId)
            return { kind: 'idle' }
          },
        }),
        async (stage) => {
          stage.rows.set('forgotten', stage.scene.now())
          await stage.until('the run is advanced', () => stage.count('forgotten') > 0)
        },
      )
    },
  },
  {
    name: 'wake-ups that come many times are done at least once and harm nobody',
    async run(make) {
      await EngineStage.play(
        make,
        () => ({}),
        async (stage) => {
          for (let wakes = 0; wakes < 20; wakes += 1) await stage.engine.wake('often')
          await stage.until('the run is advanced', () => stage.count('often') > 0)
          await stage.settled()
          const count = stage.count('often')
          assert(count <= 20, `20 wake-ups became ${count} segments`)
          await stage.engine.wake('often')
          await stage.until('a later wake-up is done too', () => stage.count('often') > count)
        },
      )
    },
  },
  {
    name: 'a wake-up that comes while its run is advanced is followed by one more segment',
    async run(make) {
      await EngineStage.play(
        make,
        (stage) => ({
          async advance(runId) {
            // From inside: whoever changes a row of the run wakes it, whatever is going on.
            if (runId === 'moving' && stage.count(runId) === 1) await stage.engine.wake('moving')
            return { kind: 'idle' }
          },
        }),
        async (stage) => {
          await stage.engine.wake('moving')
          await stage.until('a segment begins after the second wake-up', () => stage.count('moving') > 1)
        },
      )
    },
  },
]
