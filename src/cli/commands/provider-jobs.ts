import type { ProviderJobJson } from '../../server/routes/provider-jobs.ts'
import { connect, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { counted, fromNow, oneLine, table } from '../text.ts'

export interface ProviderJobListOptions {
  readonly state?: string
  readonly provider?: string
  readonly run?: string
  readonly limit: string
  readonly cursor?: string
}

export async function listProviderJobs(context: Context, options: ProviderJobListOptions): Promise<void> {
  const { state, provider, run } = options
  await listed(context, options, {
    ...(state === undefined ? {} : { state }),
    ...(provider === undefined ? {} : { provider }),
    ...(run === undefined ? {} : { runId: run }),
  })
}

export async function listUnsettled(
  context: Context,
  options: Pick<ProviderJobListOptions, 'limit' | 'cursor'>,
): Promise<void> {
  await listed(context, options, { unsettled: 'true' })
}

async function listed(
  context: Context,
  { limit, cursor }: Pick<ProviderJobListOptions, 'limit' | 'cursor'>,
  filter: Readonly<Record<string, string>>,
): Promise<void> {
  const client = await connect(context)
  const query = new URLSearchParams({ limit, ...(cursor === undefined ? {} : { cursor }), ...filter })
  const page = await client.get<ListAnswer<ProviderJobJson>>(`/api/v1/provider-jobs?${query.toString()}`)
  context.answer(page, () => {
    if (page.items.length === 0) return 'unsettled' in filter ? 'every ended job is settled' : 'no provider jobs'
    const rows = page.items.map((job) => [
      job.id,
      oneLine(job.provider),
      stateOf(job),
      costOf(job),
      fromNow(job.submittedAt, Date.now()),
    ])
    const more = page.nextCursor === null ? [] : [`more with: --cursor ${page.nextCursor}`]
    return [table([['id', 'provider', 'state', 'cost', 'submitted'], ...rows]), ...more].join('\n')
  })
}

export async function showProviderJob(context: Context, id: string): Promise<void> {
  const client = await connect(context)
  const job = await client.get<ProviderJobJson>(`/api/v1/provider-jobs/${encodeURIComponent(id)}`)
  context.answer(job, () =>
    [
      `${oneLine(job.provider)} job ${job.id}`,
      `state      ${stateOf(job)}`,
      `items      ${job.items}`,
      `vendor id  ${job.providerJobId === null ? 'not known' : oneLine(job.providerJobId)}`,
      `cost       ${costOf(job)}`,
      `run        ${job.runId}`,
      `submitted  ${fromNow(job.submittedAt, Date.now())}`,
      `ended      ${job.terminalAt === null ? 'not yet' : fromNow(job.terminalAt, Date.now())}`,
    ].join('\n'),
  )
}

export async function settleProviderJob(context: Context, id: string): Promise<void> {
  const client = await connect(context)
  const settled = await client.post<{ outcome: string }>(`/api/v1/provider-jobs/${encodeURIComponent(id)}/settle`)
  context.answer(settled, () => SETTLED[settled.outcome] ?? oneLine(settled.outcome))
}

const SETTLED: Readonly<Record<string, string>> = {
  settled: 'settled',
  already: 'it was settled before',
  gone: 'the job is gone with its run',
  not_ended: 'the job has not ended; there is nothing to settle yet',
}

export interface DropsJson {
  readonly since: string
  readonly items: readonly {
    readonly provider: string
    readonly reason: string
    readonly count: number
    readonly lastAt: string
  }[]
}

export async function showDrops(context: Context): Promise<void> {
  const client = await connect(context)
  const drops = await client.get<DropsJson>('/api/v1/webhooks/drops')
  context.answer(drops, () => {
    const since = `since this server started, ${fromNow(drops.since, Date.now())}`
    if (drops.items.length === 0) return `no callback was dropped ${since}`
    const rows = drops.items.map(({ provider, reason, count, lastAt }) => [
      oneLine(provider),
      oneLine(reason),
      counted(count, 'callback'),
      fromNow(lastAt, Date.now()),
    ])
    return `${table([['provider', 'reason', 'count', 'last'], ...rows])}\n(${since})`
  })
}

function stateOf({ state, providerJobId }: ProviderJobJson): string {
  return state === 'submitted' && providerJobId === null ? 'submitted, acceptance unknown' : state
}

function costOf({ terminalAt, usageId, cost }: ProviderJobJson): string {
  if (terminalAt === null) return '-'
  const said = cost === null ? 'not reported' : oneLine(JSON.stringify(cost))
  return usageId === null ? `${said}, UNSETTLED` : `${said}, settled`
}
