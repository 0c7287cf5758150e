import assert from 'node:assert/strict'
import type { DurableEngine, EngineWork } from '../runs/engine.ts'

/** Engines to look at, on a queue that nobody else uses. */
export interface EngineScene {
  /** Not started. Several stand for processes that share one queue. */
  readonly engines: readonly DurableEngine[]
  /** One more process on the same queue, not started. */
  another(): Promise<DurableEngine>
  /** Segments that one engine runs at the same time. */
  readonly concurrency: number
  /** Shortest time between two ticks of a cron, in seconds. */
  readonly tickS: number
  /** The clock that the engines follow. */
  now(): Date
  /** For engines that do nothing by themselves: does what is due, and lets a little time pass. */
  readonly pump?: () => Promise<void>
  close(): Promise<void>
}

export type EngineSceneFactory = () => Promise<EngineScene>

export interface EngineCase {
  readonly name: string
  run(make: EngineSceneFactory): Promise<void>
}

/** What the engines did, in the order in which they did it. */
export interface Advance {
  readonly runId: string
  readonly engine: number
  readonly at: Date
}

/** How long an engine may take to do what it was asked, and how often a stage moves one that does nothing by itself. */
const PATIENCE_MS = 25_000
const PUMPS = 20_000

type Plan = (stage: EngineStage) => Partial<EngineWork>

/** Started engines over rows of the test, and a record of what they did. */
export class EngineStage {
  readonly scene: EngineScene
  /** Runs with something to do, and since when; what a sweep finds. */
  readonly rows = new Map<string, Date>()
  readonly advances: Advance[] = []
  readonly gaveUp: { readonly runId: string; readonly fault: Error }[] = []
  #plan: Plan = () => ({})
  #waiting: (() => void)[] = []
  #started = 0

  constructor(scene: EngineScene) {
    this.scene = scene
  }

  /** Starts every engine of a new scene, and ends them with it. */
  static async play(make: EngineSceneFactory, plan: Plan, story: (stage: EngineStage) => Promise<void>): Promise<void> {
    const stage = new EngineStage(await make())
    stage.#plan = plan
    try {
      for (const engine of stage.scene.engines) await stage.start(engine)
      await story(stage)
    } finally {
      await stage.scene.close()
    }
  }

  get engine(): DurableEngine {
    const [first] = this.scene.engines
    assert(first !== undefined, 'a scene has an engine')
    return first
  }

  async start(engine: DurableEngine): Promise<void> {
    const number = this.#started
    this.#started += 1
    const plan = this.#plan(this)
    await engine.start({
      jobs: {},
      crons: [],
      look: (runId) => {
        const due = this.rows.get(runId)
        const waits = due !== undefined && due > this.scene.now()
        return Promise.resolve({ organizationId: 'acme', lane: 'interactive', waitsUntil: waits ? due : null })
      },
      sweep: () => Promise.resolve([...this.rows].flatMap(([id, due]) => (due <= this.scene.now() ? [id] : []))),
      ...plan,
      gaveUp: async (runId, fault) => {
        await plan.gaveUp?.(runId, fault)
        this.gaveUp.push({ runId, fault })
        this.changed()
      },
      advance: async (runId) => {
        this.advances.push({ runId, engine: number, at: this.scene.now() })
        this.changed()
        try {
          return (await plan.advance?.(runId)) ?? { kind: 'idle' }
        } finally {
          this.changed()
        }
      },
    })
  }

  count(runId: string): number {
    return this.advances.filter((advance) => advance.runId === runId).length
  }

  /** Something that `until` may wait for has happened. */
  changed(): void {
    for (const tell of this.#waiting.splice(0)) tell()
  }

  async until(what: string, done: () => boolean): Promise<void> {
    const { pump } = this.scene
    if (pump !== undefined) {
      for (let pumps = 0; !done(); pumps += 1) {
        assert(pumps < PUMPS, `it never came to this: ${what}`)
        await pump()
      }
      return
    }
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(
      () => late.reject(new assert.AssertionError({ message: `it never came to this: ${what}` })),
      PATIENCE_MS,
    )
    try {
      while (!done()) await Promise.race([new Promise<void>((resolve) => this.#waiting.push(resolve)), late.promise])
    } finally {
      clearTimeout(timer)
    }
  }

  /** Lets every engine get round to what was asked before: two wake-ups, one after the other, come and are done. */
  async settled(): Promise<void> {
    for (const round of [1, 2]) {
      const runId = `marker-${round}-${this.advances.length}`
      await this.engine.wake(runId)
      await this.until(`a marker is advanced`, () => this.count(runId) > 0)
    }
  }
}
