import assert from 'node:assert/strict'
import type { Cron } from '../runs/engine.ts'
import { EngineStage, type EngineCase } from './engine-stage.ts'

/** The same cron in every engine of a stage; `ticks` holds what ran. */
function recorded(stage: EngineStage, ticks: Date[], fails: (tick: Date) => boolean = () => false): Cron {
  return {
    name: 'often',
    every: stage.scene.tickS,
    async run(tick) {
      ticks.push(tick)
      stage.changed()
      if (fails(tick)) throw new Error('password=hunter2')
    },
  }
}

export const TICKS: readonly EngineCase[] = [
  {
    name: 'a cron runs once for each tick, over all engines of a queue',
    async run(make) {
      const ticks: Date[] = []
      await EngineStage.play(
        make,
        (stage) => ({ crons: [recorded(stage, ticks)] }),
        async (stage) => {
          await stage.until('four ticks', () => ticks.length >= 4)
          const times = ticks.map((tick) => tick.getTime())
          assert.equal(new Set(times).size, times.length, 'a tick ran twice')
          assert(times.every((time) => time % (stage.scene.tickS * 1000) === 0))
          assert(
            times.every((time) => time <= stage.scene.now().getTime()),
            'a tick ran before its time',
          )
        },
      )
    },
  },
  {
    name: 'a cron that fails waits for the next tick, and holds nobody up',
    async run(make) {
      const ticks: Date[] = []
      await EngineStage.play(
        make,
        (stage) => ({ crons: [recorded(stage, ticks, () => true)] }),
        async (stage) => {
          await stage.until('three ticks', () => ticks.length >= 3)
          assert.equal(new Set(ticks.map((tick) => tick.getTime())).size, ticks.length, 'a failed tick was made up for')
          await stage.settled()
        },
      )
    },
  },
]
