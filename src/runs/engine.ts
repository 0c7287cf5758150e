import type { JsonValue } from '../tools/json.ts'
import type { Every } from './cron.ts'
import type { AdvanceOutcome } from './executor.ts'

/** What an engine drives. Every verb is safe to call twice at any time: the rows say what is left to do. */
export interface EngineWork {
  advance(runId: string): Promise<AdvanceOutcome>
  /** Closes what nobody answered in time and names the runs that are due. */
  sweep(): Promise<readonly string[]>
  /** What an engine outside of the database reads of a run; null for one that has ended or never was. */
  look(runId: string): Promise<RunLook | null>
  /** Told once the tries of one wake-up are spent on faults. The run's row is as it was, and the sweep goes on finding it. */
  gaveUp(runId: string, fault: Error): Promise<void>
  /** By name: a letter, then letters, digits, `_`, `-` and `.`, at most 64 characters. */
  readonly jobs: Readonly<Record<string, DurableJob>>
  readonly crons: readonly Cron[]
}

export interface RunLook {
  readonly organizationId: string
  readonly lane: string
  /** The run has nothing to do before; null where it is due, or somebody advances it. */
  readonly waitsUntil: Date | null
}

/** Work beside the runs that is tried until it succeeds or its retries are spent. */
export interface DurableJob {
  /** Runs at least once; a process that dies after the work and before its record makes it twice. `attempt` counts from 1. */
  run(payload: JsonValue, attempt: number): Promise<void>
  /** Tries after the first, 0 to 20. */
  readonly retries: number
  /** Called once when the last try has failed, and again only if it fails itself or its process dies. */
  onFinalFailure(payload: JsonValue, fault: Error): Promise<void>
  /** The event that starts it on an engine of events; without one a name is made of the job's. */
  readonly event?: string
}

/** Work of the clock: one execution for each tick, over all processes. A tick that fails is not made up for. */
export interface Cron {
  /** As a job's name, and unique among crons. */
  readonly name: string
  readonly every: Every
  run(tick: Date): Promise<void>
}

export interface EnqueueOptions {
  /** Two with one id are one job, for a day at least. All jobs share one space of ids. */
  readonly id?: string
  /** Not before. */
  readonly at?: Date
}

/** Wakes runs and does named work. The truth is in the rows; an engine that loses a wake-up costs the time to the next sweep. */
export interface DurableEngine {
  readonly name: string
  /** @throws EngineWorkError for work that no engine could do */
  start(work: EngineWork): Promise<void>
  wake(runId: string, at?: Date): Promise<void>
  /** @throws EngineWorkError for a name that no job has */
  enqueue(name: string, payload: JsonValue, options?: EnqueueOptions): Promise<void>
  /** Takes no more work and waits for the segments in flight, at most `graceMs`. */
  stop(graceMs: number): Promise<void>
}
