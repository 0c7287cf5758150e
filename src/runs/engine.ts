import type { AdvanceOutcome } from './executor.ts'

/** What an engine drives. Both verbs are safe to call twice at any time: the run row says who owns a run. */
export interface EngineWork {
  advance(runId: string): Promise<AdvanceOutcome>
  /** Closes what nobody answered in time and names the runs that are due. */
  sweep(): Promise<readonly string[]>
}

/** Wakes runs. The truth is the run row; an engine that loses a wake-up costs the time to the next sweep. */
export interface DurableEngine {
  readonly name: string
  start(work: EngineWork): Promise<void>
  wake(runId: string, at?: Date): Promise<void>
  /** Takes no more work and waits for the segments in flight, at most `graceMs`. */
  stop(graceMs: number): Promise<void>
}
