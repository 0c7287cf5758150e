import type { RunJson, RunSummaryJson, SpanJson } from '../../server/json.ts'
import { connect, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { runLine, runText, treeText } from '../run-report.ts'
import { counted, fromNow, oneLine, table } from '../text.ts'

export interface RunListOptions {
  readonly status?: string
  readonly definition?: string
  readonly limit: string
  readonly cursor?: string
}

export async function listRuns(context: Context, { status, definition, limit, cursor }: RunListOptions): Promise<void> {
  const client = await connect(context)
  const query = new URLSearchParams({
    limit,
    ...(status === undefined ? {} : { status }),
    ...(definition === undefined ? {} : { definition }),
    ...(cursor === undefined ? {} : { cursor }),
  })
  const page = await client.get<ListAnswer<RunSummaryJson>>(`/api/v1/runs?${query.toString()}`)
  context.answer(page, () => {
    if (page.items.length === 0) return 'no runs'
    const rows = page.items.map((run) => [
      run.id,
      oneLine(run.definition),
      runLine(run),
      fromNow(run.createdAt, Date.now()),
    ])
    const more = page.nextCursor === null ? [] : [`more with: --cursor ${page.nextCursor}`]
    return [table([['id', 'definition', 'status', 'started'], ...rows]), ...more].join('\n')
  })
}

export async function showRun(context: Context, id: string): Promise<void> {
  const client = await connect(context)
  const run = await client.get<RunJson>(`/api/v1/runs/${encodeURIComponent(id)}`)
  context.answer(run, () => runText(run, client.url))
}

export async function showTree(context: Context, id: string): Promise<void> {
  const client = await connect(context)
  const tree = await client.get<{ run: RunJson; spans: readonly SpanJson[] }>(
    `/api/v1/runs/${encodeURIComponent(id)}/tree`,
  )
  context.answer(tree, () => treeText(tree.run, tree.spans))
}

export async function cancelRun(context: Context, id: string, options: { readonly reason?: string }): Promise<void> {
  const client = await connect(context)
  const outcome = await client.post<{ inFlight: number }>(`/api/v1/runs/${encodeURIComponent(id)}/cancel`, {
    reason: options.reason ?? null,
  })
  context.answer({ id, ...outcome }, () => {
    const flight =
      outcome.inFlight === 0
        ? 'nothing was in flight'
        : `${counted(outcome.inFlight, 'call')} in flight will settle first`
    return `the run stops at its next boundary; ${flight}`
  })
}
