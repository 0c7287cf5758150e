import type { Actor } from '../tools/invocation.ts'
import type { Logger } from '../tools/invoker.ts'
import { checkLimit, type LaneLimits, type LaneOf, type LaneState, type LaneStore } from './lane.ts'

export interface LaneControlDependencies {
  readonly store: LaneStore
  readonly limits: LaneLimits
  readonly wake: (runId: string) => Promise<void>
  readonly logger: Logger
}

/** Lanes of organizations: looked at, closed, opened, sized; and held runs let go. */
export interface LaneControl {
  list(organizationId: string): Promise<readonly LaneState[]>
  /** No segment begins any more; those that run leave at their next boundary. False when the lane was paused before. */
  pause(lane: LaneOf, by: Actor): Promise<boolean>
  /** Wakes what waited. False when the lane was not paused. */
  resume(lane: LaneOf): Promise<boolean>
  /**
   * Null takes the deployment's limit again. A lower limit ends nothing that runs.
   * @throws ValidationError for a limit that is no whole number of at least 1
   */
  setLimit(lane: LaneOf, maxActive: number | null): Promise<void>
  /** Lets held runs go on: one, or without an id all of the organization. Answers which were held. */
  release(held: { readonly organizationId: string; readonly runId?: string }, by: Actor): Promise<readonly string[]>
  /** Wakes who waits longest for the places of a lane that became free. Never raises: the next sweep finds what this one did not. */
  freed(lane: LaneOf): Promise<void>
}

export function laneControl({ store, limits, wake, logger }: LaneControlDependencies): LaneControl {
  const freed = async ({ organizationId, lane }: LaneOf): Promise<void> => {
    try {
      for (const runId of await store.next({ organizationId, lane }, limits)) await wake(runId)
    } catch (error) {
      logger.warn('the next run of a lane could not be found; the next sweep looks again', {
        organizationId,
        lane,
        error,
      })
    }
  }
  return {
    list: (organizationId) => store.list(organizationId, limits),
    pause: (lane, by) => store.pause(lane, by),
    async resume(lane) {
      const resumed = await store.resume(lane)
      if (resumed) await freed(lane)
      return resumed
    },
    async setLimit(lane, maxActive) {
      if (maxActive !== null) checkLimit(maxActive, lane.lane)
      await store.setLimit(lane, maxActive)
      await freed(lane)
    },
    async release(held, by) {
      const released = await store.release(held, by)
      for (const runId of released) await wake(runId)
      return released
    },
    freed,
  }
}
