import type { DurableEngine, EngineWork } from '../runs/engine.ts'

export interface ManualEngine extends DurableEngine {
  /** Advances every woken run, in order, until nothing is left to do now. Answers how many segments ran. */
  settle(): Promise<number>
  /** Does what an engine does from time to time: closes what expired and wakes what is due. */
  sweep(): Promise<void>
}

/** An engine without time: runs go on when a test says so. A wake-up for later waits for a sweep that finds it due. */
export function manualEngine(): ManualEngine {
  let work: EngineWork | null = null
  const woken: string[] = []
  return {
    name: 'manual',
    start(given) {
      work = given
      return Promise.resolve()
    },
    wake(runId, at) {
      if (at === undefined) woken.push(runId)
      return Promise.resolve()
    },
    stop() {
      work = null
      return Promise.resolve()
    },
    async settle() {
      let segments = 0
      for (let runId = woken.shift(); runId !== undefined; runId = woken.shift()) {
        segments += 1
        const outcome = await work?.advance(runId)
        if (outcome?.kind === 'again') woken.push(runId)
      }
      return segments
    },
    async sweep() {
      woken.push(...((await work?.sweep()) ?? []))
    },
  }
}
