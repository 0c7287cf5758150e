import type { z } from 'zod'
import type { ToolSchema } from '../../server/schemas.ts'
import { connect, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { cut, oneLine, table } from '../text.ts'

type ToolJson = z.output<typeof ToolSchema>

export async function listTools(context: Context): Promise<void> {
  const client = await connect(context)
  const page = await client.get<ListAnswer<ToolJson>>('/api/v1/tools')
  context.answer(page, () => {
    if (page.items.length === 0) return 'no tools'
    const rows = page.items.map((tool) => [
      tool.name,
      `v${tool.version}`,
      tool.sideEffects,
      tool.enabled ? 'enabled' : 'DISABLED',
      tool.connection ?? '-',
      cut(oneLine(tool.description), 80),
    ])
    return table([['name', 'version', 'effects', 'state', 'connection', 'description'], ...rows])
  })
}

export async function setTool(context: Context, name: string, enabled: boolean): Promise<void> {
  const client = await connect(context)
  const state = await client.post<{ tool: string; enabled: boolean }>(
    `/api/v1/tools/${encodeURIComponent(name)}/${enabled ? 'enable' : 'disable'}`,
  )
  context.answer(state, () =>
    enabled
      ? `${state.tool} is enabled`
      : `${state.tool} is disabled: every call is refused from now on, in runs that have started too`,
  )
}
