import type { RunJson, RunSummaryJson, SpanJson } from '../../server/json.ts'
import { connect, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { readJsonFile } from '../input.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
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

/** One held run, or with `all` every one. */
export async function releaseRuns(
  context: Context,
  id: string | undefined,
  { all }: { readonly all?: boolean },
): Promise<void> {
  if ((id === undefined) === (all !== true))
    throw new CommandFailed(EXIT.usage, 'name one run, or release all of them', 'bailiff runs release <id>, or --all')
  const client = await connect(context)
  if (id === undefined) {
    const outcome = await client.post<{ released: number }>('/api/v1/runs/release')
    return context.answer(outcome, () => `${counted(outcome.released, 'held run')} released`)
  }
  const outcome = await client.post<{ id: string }>(`/api/v1/runs/${encodeURIComponent(id)}/release`)
  context.answer(outcome, () => `${outcome.id} is released and goes on`)
}

export interface SignalOptions {
  readonly id: string
  readonly name: string
  readonly data?: string
}

export async function signalRun(context: Context, { id, name, data }: SignalOptions): Promise<void> {
  const payload = data === undefined ? null : await readJsonFile(data)
  const client = await connect(context)
  const path = `/api/v1/runs/${encodeURIComponent(id)}/signals/${encodeURIComponent(name)}`
  const outcome = await client.post<{ accepted: true }>(path, { payload })
  context.answer({ id, name, ...outcome }, () => `signal ${oneLine(name)} is with the run`)
}
