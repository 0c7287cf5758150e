import type { ApprovalJson, RunJson, SpanJson } from '../../server/json.ts'
import { connect, type ApiClient, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { readInput } from '../input.ts'
import { runLine, spanLine } from '../run-report.ts'
import { serverEvents } from '../sse.ts'
import { counted, fromNow, indented, oneLine } from '../text.ts'

export interface RunOptions {
  readonly input: string
  readonly as: string
  readonly follow: boolean
  readonly lane?: string
}

/** Starts a run and tells what happens until it ends or waits for a person. */
export async function run(context: Context, definition: string, options: RunOptions): Promise<void> {
  const input = await readInput(options.input, options.as)
  const client = await connect(context)
  const lane = options.lane === undefined ? {} : { lane: options.lane }
  const started = await start(client, { definition, input, ...lane })
  context.note(
    `run ${started.id} of ${oneLine(started.definition)} on ${oneLine(started.model)}${started.model.startsWith('scripted/') ? ' (a script, no language model)' : ''}`,
  )
  context.note(`watch it at ${client.url}/runs/${started.id}`)
  const latest = options.follow ? await follow(context, client, started) : started
  const waiting = latest.pendingApprovals === 0 ? [] : await waitingFor(client, latest)
  context.answer({ run: latest, waiting }, () => reportOf(latest, waiting))
  if (['failed', 'partial', 'cancelled'].includes(latest.status)) {
    throw new CommandFailed(
      EXIT.failed,
      `the run ended ${runLine(latest)}${latest.message === null ? '' : `: ${oneLine(latest.message)}`}`,
      `see: bailiff runs tree ${latest.id}`,
    )
  }
}

async function start(
  client: ApiClient,
  body: { readonly definition: string; readonly input: unknown; readonly lane?: string },
): Promise<RunJson> {
  try {
    return await client.post<RunJson>('/api/v1/runs', body)
  } catch (error) {
    if (error instanceof CommandFailed && error.exitCode === EXIT.notFound) {
      throw new CommandFailed(
        EXIT.notFound,
        error.message,
        'bailiff definitions are published by the config file of the server, or with POST /api/v1/definitions',
      )
    }
    throw error
  }
}

/** Answers the run as it stands when it has ended or waits for a person. */
async function follow(context: Context, client: ApiClient, started: RunJson): Promise<RunJson> {
  const told = new Set<string>()
  let latest = started
  const tell = (span: SpanJson): void => {
    if (span.kind === 'run' || span.status === 'running' || told.has(span.id)) return
    told.add(span.id)
    context.note(`${span.kind === 'tool' ? '    ' : '  '}${spanLine(span)}`)
  }
  for await (const { event, data } of serverEvents(await client.stream(`/api/v1/runs/${started.id}/events`))) {
    const body: unknown = JSON.parse(data)
    if (event === 'span') tell(body as SpanJson)
    if (event === 'tree') (body as { spans: SpanJson[] }).spans.forEach(tell)
    if (event === 'tree' || event === 'end') latest = (body as { run: RunJson }).run
    if (event === 'run') latest = body as RunJson
    if (latest.status === 'parked' && latest.pendingApprovals > 0) return latest
  }
  return latest
}

async function waitingFor(client: ApiClient, latest: RunJson): Promise<readonly ApprovalJson[]> {
  try {
    return (await client.get<ListAnswer<ApprovalJson>>(`/api/v1/approvals?state=pending&runId=${latest.id}`)).items
  } catch (error) {
    // A key that only starts runs may not read approvals; it still hears that some wait.
    if (error instanceof CommandFailed && error.exitCode === EXIT.refused) return []
    throw error
  }
}

function reportOf(latest: RunJson, waiting: readonly ApprovalJson[]): string {
  if (latest.pendingApprovals > 0) {
    const questions = waiting.flatMap((approval) => [
      `  ${approval.id}  ${oneLine(approval.preview ?? approval.tool)}`,
      `    held by ${approval.rule === null ? 'the default for its kind of tool' : oneLine(approval.rule)}, expires ${fromNow(approval.expiresAt, Date.now())}`,
    ])
    const answer =
      waiting.length === 0
        ? []
        : [`answer with: bailiff approvals approve <id>   or: bailiff approvals reject <id> --note "…"`]
    return [`the run waits: ${counted(latest.pendingApprovals, 'approval')} pending`, ...questions, ...answer].join(
      '\n',
    )
  }
  if (latest.status !== 'completed') return `the run is ${runLine(latest)}`
  const output = typeof latest.output === 'string' ? latest.output : JSON.stringify(latest.output)
  return `the run is completed\n${indented(output.split('\n').map(oneLine).join('\n'), '  ')}`
}
