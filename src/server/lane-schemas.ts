import { z } from '@hono/zod-openapi'
import { LANES, type LaneState } from '../runs/lane.ts'
import { ActorSchema } from './schemas.ts'

/** Shapes of lanes in the API. */

export const LaneName = z.enum(LANES)

export const LaneParam = z.object({ lane: LaneName })

export const LaneSchema = z
  .object({
    lane: LaneName,
    active: z.int().openapi({ description: 'Runs with a segment now' }),
    queued: z.int().openapi({ description: 'Runs that could go on now and wait for a place' }),
    parked: z.int().openapi({ description: 'Runs that wait for a person, a time or a signal, or are held' }),
    limit: z.int(),
    limitIsOwn: z.boolean().openapi({ description: 'False where the default of the deployment applies' }),
    paused: z.object({ at: z.iso.datetime(), by: ActorSchema }).nullable(),
  })
  .openapi('Lane')

export const LaneLimitBody = z
  .strictObject({ limit: z.int().min(1).max(10_000).nullable() })
  .openapi('LaneLimitBody', { description: 'Null takes the default of the deployment again.' })

export type LaneJson = z.input<typeof LaneSchema>

export function laneJson(state: LaneState): LaneJson {
  const { lane, active, queued, parked, limit, limitIsOwn, paused } = state
  return {
    lane,
    active,
    queued,
    parked,
    limit,
    limitIsOwn,
    paused: paused === null ? null : { at: paused.at.toISOString(), by: paused.by },
  }
}
