import type { LaneJson } from '../../server/lane-schemas.ts'
import { connect, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { oneLine, table } from '../text.ts'

export async function listLanes(context: Context): Promise<void> {
  const client = await connect(context)
  const page = await client.get<ListAnswer<LaneJson>>('/api/v1/lanes')
  context.answer(page, () =>
    table([
      ['lane', 'active', 'limit', 'queued', 'parked', 'state'],
      ...page.items.map((lane) => [
        lane.lane,
        String(lane.active),
        limitText(lane),
        String(lane.queued),
        String(lane.parked),
        stateText(lane),
      ]),
    ]),
  )
}

export async function pauseLane(context: Context, lane: string): Promise<void> {
  const client = await connect(context)
  const state = await client.post<LaneJson>(`/api/v1/lanes/${encodeURIComponent(lane)}/pause`)
  context.answer(state, () => {
    const work = state.active === 0 ? 'no run works in it' : `${state.active} active leave at their next boundary`
    return `${state.lane} is paused; ${work}`
  })
}

export async function resumeLane(context: Context, lane: string): Promise<void> {
  const client = await connect(context)
  const state = await client.post<LaneJson>(`/api/v1/lanes/${encodeURIComponent(lane)}/resume`)
  context.answer(state, () => `${state.lane} goes on; ${state.queued} waited for it`)
}

/** `default` takes the limit of the deployment again. */
export async function limitLane(context: Context, lane: string, limit: string): Promise<void> {
  const wanted = limit === 'default' ? null : Number(limit)
  if (wanted !== null && !(Number.isInteger(wanted) && wanted >= 1))
    throw new CommandFailed(
      EXIT.usage,
      `${JSON.stringify(limit)} is no limit`,
      'give a whole number of at least 1, or the word default',
    )
  const client = await connect(context)
  const state = await client.put<LaneJson>(`/api/v1/lanes/${encodeURIComponent(lane)}/limit`, { limit: wanted })
  context.answer(state, () => `${state.lane} takes ${limitText(state)} at the same time`)
}

function limitText({ limit, limitIsOwn }: LaneJson): string {
  return limitIsOwn ? String(limit) : `${limit} (default)`
}

function stateText({ paused }: LaneJson): string {
  return paused === null ? 'open' : `PAUSED by ${oneLine(paused.by.name)} at ${paused.at}`
}
