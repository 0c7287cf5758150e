import type { ApprovalJson } from '../../server/json.ts'
import { connect, type ApiClient, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { cut, fromNow, indented, oneLine, prettyJson, table } from '../text.ts'

export interface ApprovalListOptions {
  readonly state: string
  readonly run?: string
  readonly limit: string
  readonly cursor?: string
}

export interface AnswerOptions {
  readonly note?: string
  /** Refuse unless the arguments still have this hash. */
  readonly hash?: string
  readonly yes?: boolean
}

export interface ApproveOptions extends AnswerOptions {
  readonly outcome?: 'arrived' | 'send-again'
}

export interface RejectOptions extends AnswerOptions {
  readonly stopRun?: boolean
}

export async function listApprovals(
  context: Context,
  { state, run, limit, cursor }: ApprovalListOptions,
): Promise<void> {
  const client = await connect(context)
  const query = new URLSearchParams({
    limit,
    ...(state === 'all' ? {} : { state }),
    ...(run === undefined ? {} : { runId: run }),
    ...(cursor === undefined ? {} : { cursor }),
  })
  const page = await client.get<ListAnswer<ApprovalJson>>(`/api/v1/approvals?${query.toString()}`)
  context.answer(page, () => {
    if (page.items.length === 0) return state === 'pending' ? 'nothing waits for you' : 'no approvals'
    const rows = page.items.map((approval) => [
      approval.id,
      approval.state,
      approval.tool,
      whenOf(approval),
      cut(oneLine(approval.preview ?? JSON.stringify(approval.arguments)), 100),
    ])
    const more = page.nextCursor === null ? [] : [`more with: --cursor ${page.nextCursor}`]
    return [table([['id', 'state', 'tool', 'time', 'what'], ...rows]), ...more].join('\n')
  })
}

function whenOf({ state, expiresAt, decidedAt, requestedAt }: ApprovalJson): string {
  return state === 'pending'
    ? `expires ${fromNow(expiresAt, Date.now())}`
    : fromNow(decidedAt ?? requestedAt, Date.now())
}

export async function showApproval(context: Context, id: string): Promise<void> {
  const client = await connect(context)
  const approval = await read(client, id)
  context.answer(approval, () => approvalText(approval))
}

export async function approve(context: Context, ids: readonly string[], options: ApproveOptions): Promise<void> {
  const outcome = options.outcome === 'send-again' ? 'send_again' : options.outcome
  await answerAll(context, ids, {
    ...options,
    verb: 'approve',
    question: (approval) =>
      approval.kind === 'outcome'
        ? `Record that ${outcome === 'send_again' ? 'it is to be sent again' : 'it arrived'}?`
        : 'Allow exactly this call?',
    body: outcome === undefined ? {} : { outcome },
  })
}

export async function reject(context: Context, ids: readonly string[], options: RejectOptions): Promise<void> {
  await answerAll(context, ids, {
    ...options,
    verb: 'reject',
    question: () => (options.stopRun === true ? 'Refuse this call and stop its run?' : 'Refuse this call?'),
    body: options.stopRun === true ? { stopRun: true } : {},
  })
}

interface Answer extends AnswerOptions {
  readonly verb: 'approve' | 'reject'
  readonly question: (approval: ApprovalJson) => string
  readonly body: object
}

/** Each one is shown, and the answer is bound to the arguments that were shown. */
async function answerAll(context: Context, ids: readonly string[], answer: Answer): Promise<void> {
  const client = await connect(context)
  const decided: ApprovalJson[] = []
  for (const id of ids) {
    const approval = await read(client, id)
    context.note(approvalText(approval))
    await checkBeforeAnswer(context, approval, answer)
    const body = {
      argumentsHash: approval.argumentsHash,
      ...(answer.note === undefined ? {} : { note: answer.note }),
      ...answer.body,
    }
    decided.push(await client.post<ApprovalJson>(`/api/v1/approvals/${encodeURIComponent(id)}/${answer.verb}`, body))
  }
  context.answer({ items: decided, nextCursor: null }, () =>
    decided.map(({ id, state, tool }) => `${state}: ${tool} (${id})`).join('\n'),
  )
}

async function checkBeforeAnswer(context: Context, approval: ApprovalJson, answer: Answer): Promise<void> {
  if (answer.hash !== undefined && answer.hash !== approval.argumentsHash) {
    throw new CommandFailed(
      EXIT.refused,
      `the arguments of ${approval.id} have the hash ${approval.argumentsHash}, not the one given`,
      'look at it again: bailiff approvals show <id>',
    )
  }
  if (
    answer.verb === 'approve' &&
    approval.kind === 'outcome' &&
    approval.state === 'pending' &&
    !('outcome' in answer.body)
  ) {
    throw new CommandFailed(
      EXIT.usage,
      'nobody knows whether this call took effect, so a plain yes says nothing',
      'add --outcome arrived or --outcome send-again, or reject it to leave it',
    )
  }
  if (approval.state !== 'pending' || !context.interactive || context.json || answer.yes === true) return
  if (!(await context.confirm(answer.question(approval))))
    throw new CommandFailed(EXIT.refused, 'not answered; the approval still waits')
}

async function read(client: ApiClient, id: string): Promise<ApprovalJson> {
  return client.get<ApprovalJson>(`/api/v1/approvals/${encodeURIComponent(id)}`)
}

function approvalText(approval: ApprovalJson): string {
  const { decidedBy, decidedAt } = approval
  const facts = Object.entries(approval.facts ?? {}).map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
  return [
    `approval    ${approval.id}`,
    `state       ${approval.state}${decidedBy === null ? '' : ` by ${oneLine(decidedBy.name)}`}${decidedAt === null ? '' : `, ${decidedAt}`}`,
    `tool        ${approval.tool} (version ${approval.toolVersion})`,
    `what        ${approval.hidden ? 'shown to its approvers, to owners and to whoever started the run' : oneLine(approval.preview ?? 'no preview')}`,
    ...(approval.kind === 'outcome' ? ['question    it was tried, and nobody knows whether it took effect'] : []),
    `held by     ${approval.rule === null ? 'the default for this kind of tool' : oneLine(approval.rule)}`,
    ...(facts.length === 0 ? [] : [`facts       ${oneLine(facts.join(', '))}`]),
    `agent       ${oneLine(approval.principal.agent)}, run ${approval.runId}, started by ${oneLine(approval.principal.startedBy.name)}`,
    `asked       ${approval.requestedAt}, expires ${fromNow(approval.expiresAt, Date.now())} (${approval.expiresAt})`,
    ...(approval.note === null ? [] : [`note        ${oneLine(approval.note)}`]),
    `hash        ${approval.argumentsHash}`,
    ...(approval.arguments === null ? [] : ['arguments', indented(prettyJson(approval.arguments), '  ')]),
  ].join('\n')
}
