import assert from 'node:assert/strict'
import { EngineStage, type EngineCase } from './engine-stage.ts'

const GRACE_MS = 10_000

const stopAll = (stage: EngineStage, graceMs = GRACE_MS): Promise<unknown> =>
  Promise.all(stage.scene.engines.map((engine) => engine.stop(graceMs)))

export const STOPPING: readonly EngineCase[] = [
  {
    name: 'a stop waits for the segment in flight',
    async run(make) {
      const released = Promise.withResolvers<void>()
      let finished = false
      let begun = false
      await EngineStage.play(
        make,
        (stage) => ({
          async advance() {
            begun = true
            stage.changed()
            await released.promise
            finished = true
            return { kind: 'idle' }
          },
        }),
        async (stage) => {
          await stage.engine.wake('slow')
          const going = stage.scene.pump?.()
          await stage.until('the segment begins', () => begun)
          let stopped = false
          const stopping = stopAll(stage).then(() => (stopped = true))
          await new Promise((resolve) => setImmediate(resolve))
          assert(!stopped, 'the stop did not wait')
          released.resolve()
          await stopping
          await going
          assert(finished, 'the segment was cut off')
        },
      )
    },
  },
  {
    name: 'a stop waits no longer than its grace',
    async run(make) {
      const released = Promise.withResolvers<void>()
      let begun = false
      await EngineStage.play(
        make,
        (stage) => ({
          async advance() {
            begun = true
            stage.changed()
            await released.promise
            return { kind: 'idle' }
          },
        }),
        async (stage) => {
          await stage.engine.wake('stuck')
          const going = stage.scene.pump?.()
          await stage.until('the segment begins', () => begun)
          await stopAll(stage, 20)
          released.resolve()
          await going
        },
      )
    },
  },
  {
    name: 'a stopped engine takes nothing more, and what was left is done by the next',
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
          await stage.settled()
          await stopAll(stage)
          const before = stage.advances.length
          stage.rows.set('left', stage.scene.now())
          await stage.scene.pump?.()
          assert.equal(stage.advances.length, before, 'a stopped engine advanced a run')
          const next = await stage.scene.another()
          await stage.start(next)
          await stage.until('the run is advanced', () => stage.count('left') > 0)
          assert(stage.advances.every(({ runId, engine }) => runId !== 'left' || engine === stage.scene.engines.length))
          await next.stop(GRACE_MS)
        },
      )
    },
  },
  {
    name: 'one engine runs no more segments at a time than it may, and all of them in the end',
    async run(make) {
      const inside: number[] = []
      const most: number[] = []
      await EngineStage.play(
        make,
        (stage) => {
          // One plan for each engine that is started.
          const engine = inside.push(0) - 1
          most.push(0)
          return {
            async advance(runId) {
              if (!runId.startsWith('run-')) return { kind: 'idle' }
              const now = (inside[engine] ?? 0) + 1
              inside[engine] = now
              most[engine] = Math.max(most[engine] ?? 0, now)
              await new Promise((resolve) => setImmediate(resolve))
              inside[engine] = (inside[engine] ?? 0) - 1
              stage.changed()
              return { kind: 'idle' }
            },
          }
        },
        async (stage) => {
          const runs = Array.from({ length: stage.scene.concurrency * 4 + 2 }, (_, index) => `run-${index}`)
          await Promise.all(runs.map((runId) => stage.engine.wake(runId)))
          await stage.until('every run is advanced', () => runs.every((runId) => stage.count(runId) > 0))
          for (const count of most) assert(count <= stage.scene.concurrency, `${count} at a time`)
        },
      )
    },
  },
]
