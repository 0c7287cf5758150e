import type { RunJson, RunSummaryJson, SpanJson } from '../server/json.ts'
import { cut, duration, indented, oneLine, prettyJson } from './text.ts'

/** How a run and its parts read in a terminal. */

export function runLine(run: RunSummaryJson): string {
  const why = run.reason === null || run.status === 'completed' ? '' : ` (${oneLine(run.reason)})`
  return `${run.status}${why}`
}

export function runText(run: RunJson, url: string): string {
  const lines = [
    `run         ${run.id}`,
    `definition  ${oneLine(run.definition)}`,
    `status      ${runLine(run)}`,
    ...(run.lane === 'interactive' ? [] : [`lane        ${run.lane}`]),
    ...(run.heldAt === null
      ? []
      : [`HELD        ${oneLine(run.heldReason ?? 'by an operator')}: bailiff runs release ${run.id}`]),
    ...(run.message === null ? [] : [`message     ${oneLine(run.message)}`]),
    `model       ${oneLine(run.model)}${run.model.startsWith('scripted/') ? ' (a script, no language model)' : ''}`,
    `started by  ${oneLine(run.startedBy.name)} (${run.startedBy.kind}), ${run.createdAt}`,
    `turns       ${run.turns}, tool calls ${run.toolCalls}, cost ${cents(run.costCents)}`,
    ...(run.pendingApprovals === 0
      ? []
      : [`waits for   ${run.pendingApprovals} approval(s): bailiff approvals list --run ${run.id}`]),
    `console     ${url}/runs/${run.id}`,
  ]
  const output =
    run.output === null || run.output === undefined ? [] : ['output', indented(valueText(run.output), '  ')]
  return [...lines, ...output].join('\n')
}

export function treeText(run: RunJson, spans: readonly SpanJson[]): string {
  const children = Map.groupBy(
    spans.filter((span) => span.id !== run.id),
    (span) => span.parentId ?? run.id,
  )
  const known = new Set([run.id, ...spans.map(({ id }) => id)])
  const orphans = spans.filter((span) => span.id !== run.id && span.parentId !== null && !known.has(span.parentId))
  const below = (id: string, by: string): string[] =>
    (children.get(id) ?? []).flatMap((span) => [`${by}${spanLine(span)}`, ...below(span.id, `${by}  `)])
  return [
    `${oneLine(run.definition)}  ${runLine(run)}  ${run.id}`,
    ...below(run.id, '  '),
    ...orphans.map((span) => `  ${spanLine(span)}`),
  ].join('\n')
}

/** One line a span: name, how it ended, how long it took, and what is special about it. */
export function spanLine(span: SpanJson): string {
  const took = span.endedAt === null ? '' : duration(Date.parse(span.endedAt) - Date.parse(span.startedAt))
  return [oneLine(span.name), endingOf(span), took, ...remarks(span)].filter((part) => part !== '').join('  ')
}

function endingOf(span: SpanJson): string {
  if (span.approval !== null) return `held for a person: ${answerOf(span.approval)}`
  if (span.status === 'error') return `refused or failed: ${oneLine(span.code ?? 'error')}`
  return span.status
}

function answerOf({ state, decidedBy, note }: NonNullable<SpanJson['approval']>): string {
  if (state === 'pending') return 'waiting'
  const by = decidedBy === null ? '' : ` by ${oneLine(decidedBy.name)}`
  return `${state}${by}${note === null ? '' : ` (${oneLine(note)})`}`
}

function remarks(span: SpanJson): string[] {
  const { attributes, decision } = span
  const told: string[] = []
  if (attributes['replayed'] === true) told.push('(replayed, not run again)')
  if (typeof attributes['attempt'] === 'number' && attributes['attempt'] > 1)
    told.push(`attempt ${attributes['attempt']}`)
  if (typeof attributes['inputTokens'] === 'number')
    told.push(`${String(attributes['inputTokens'])} in / ${String(attributes['outputTokens'])} out`)
  if (typeof attributes['costCents'] === 'number' && attributes['costCents'] > 0)
    told.push(cents(attributes['costCents']))
  if (decision !== null && decision.rule !== null) told.push(`rule: ${oneLine(decision.rule)}`)
  if (span.kind === 'llm' && typeof span.output === 'string' && span.output !== '')
    told.push(`“${cut(oneLine(span.output), 80)}”`)
  return told
}

function valueText(value: unknown): string {
  return typeof value === 'string' ? value.split('\n').map(oneLine).join('\n') : prettyJson(value)
}

function cents(amount: number): string {
  return `${(amount / 100).toFixed(amount > 0 && amount < 1 ? 4 : 2)} USD`
}
