import { ValidationError } from '../tools/errors.ts'
import type { Actor } from '../tools/invocation.ts'

/** `interactive` is what somebody waits for, `batch` what nobody does. A lane of one never takes the place of the other. */
export type Lane = 'interactive' | 'batch'

export const LANES = ['interactive', 'batch'] as const satisfies readonly Lane[]

/** Runs of one organization that may be active at the same time in each lane, over all processes. */
export type LaneLimits = Readonly<Record<Lane, number>>

export const DEFAULT_LANE_LIMITS: LaneLimits = { interactive: 8, batch: 4 }

/** What decides whether a run may begin. */
export interface BeginRules {
  /** Seconds of silence after which a segment counts as dead. */
  readonly staleS: number
  /** For organizations that set none of their own. */
  readonly lanes: LaneLimits
}

/** A lane of an organization as it stands. */
export interface LaneState {
  readonly lane: Lane
  /** Runs with a segment now, whether its heart beats or not. */
  readonly active: number
  /** Runs that could go on now and wait for a place. */
  readonly queued: number
  /** Runs that wait for a person, a time or a signal; they hold no place. */
  readonly parked: number
  readonly limit: number
  /** Whether the organization set the limit, or the deployment's default applies. */
  readonly limitIsOwn: boolean
  readonly paused: { readonly at: Date; readonly by: Actor } | null
}

/** One lane of one organization. */
export interface LaneOf {
  readonly organizationId: string
  readonly lane: Lane
}

/** What people do about lanes, and about runs that are held. */
export interface LaneStore {
  list(organizationId: string, limits: LaneLimits): Promise<readonly LaneState[]>
  /** No segment of the lane begins once this has resolved. False when it was paused before. */
  pause(lane: LaneOf, by: Actor): Promise<boolean>
  /** False when it was not paused. */
  resume(lane: LaneOf): Promise<boolean>
  /** Null takes the deployment's default again. Runs that are active above a lower limit go on. */
  setLimit(lane: LaneOf, maxActive: number | null): Promise<void>
  /** Runs for the free places of a lane, the one that waits longest first. */
  next(lane: LaneOf, limits: LaneLimits): Promise<readonly string[]>
  /** Lets a held run go on and keeps who said so; without an id, all of the organization. Answers which were held. */
  release(held: { readonly organizationId: string; readonly runId?: string }, by: Actor): Promise<readonly string[]>
}

/**
 * The lane of a run: the definition's, or the lower one that was asked for.
 * @throws ValidationError for a lane above the definition's, and for one that does not exist
 */
export function laneOf(defined: Lane | undefined, wanted: Lane | undefined): Lane {
  const own = defined ?? 'interactive'
  for (const lane of [own, wanted ?? own]) {
    if (!LANES.includes(lane)) throw new ValidationError(`a lane is one of ${LANES.join(', ')}`)
  }
  if (wanted === undefined) return own
  if (own === 'batch' && wanted === 'interactive')
    throw new ValidationError('a run of this definition goes in the batch lane; interactive is above it')
  return wanted
}

/**
 * The limits of a deployment, checked.
 * @throws ValidationError for a limit that is no whole number of at least 1
 */
export function laneLimits(given: Partial<LaneLimits> = {}): LaneLimits {
  const limits = { ...DEFAULT_LANE_LIMITS, ...given }
  for (const lane of LANES) checkLimit(limits[lane], lane)
  return limits
}

/** More than any account of a vendor takes, and far from the end of the column's type. */
const MOST_ACTIVE = 10_000

/** @throws ValidationError */
export function checkLimit(limit: number, lane: Lane): void {
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST_ACTIVE)
    throw new ValidationError(`the limit of lane ${lane} is a whole number from 1 to ${MOST_ACTIVE}`)
}
